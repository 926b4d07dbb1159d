// Package cut makes the JSON of an object fit into a number of bytes, by leaving out what is large and matters least.
//
// It knows nothing of redaction: what it is given may be seen, and it takes away whole values only, so that no part of a
// masked value is ever left.
package cut

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// class is what goes together. The classes go one after the other, and of each the largest values first, until the rest
// fits.
type class uint8

const (
	annotations class = iota // values of annotations of more than 4 KiB
	statusLists              // the lists in the status
	schemas                  // OpenAPI schemas, of CustomResourceDefinitions
	texts                    // other strings
	fields                   // what is left at the top and in the metadata, but for the identity
	classes     = iota
)

const (
	// minAnnotation is how large the value of an annotation is that goes first. Larger ones are copies and caches as a
	// rule, which nobody reads.
	minAnnotation = 4 << 10
	// minValue is how large any value must be to go. There are not so many of these that they take much memory.
	minValue = 256
	// minShare is which part of what is too much a list in the status, or a schema, has to be at least. The few conditions
	// of an object that is large for another reason would be missed, and would not help.
	minShare = 256
	// maxPaths is how many paths are named, and maxPath how many bytes each may have. All but the first may take at most
	// one of maxPathsShare parts of what there is.
	maxPaths, maxPath, maxPathsShare = 20, 256, 4
)

// everything stands for the path of all but the identity.
const everything = "*"

// Form is how the object becomes part of a record, which decides how many bytes it takes there.
type Form uint8

const (
	Text Form = iota // the JSON itself
	Map              // a map of OTLP, encoded as protobuf; see size.go
)

// Fit returns the JSON of an object that takes at most limit bytes in that form, and the paths of what was cut, in the
// order in which it was cut. A text is replaced by "[TRUNCATED len=5000]", and an object or list by null. If that is not
// enough, only the identity remains, even if it is larger than the limit. The JSON must be one valid object. If it was
// small enough, there are no paths.
func Fit(json string, limit int, form Form) (fitting string, paths []string) {
	if len(json) <= limit && form == Text || len(json) <= limit/MaxGrowth {
		return json, nil
	}
	s := &survey{data: unsafe.Slice(unsafe.StringData(json), len(json)), form: form}
	_, size := s.value(jsonscan.Space(s.data, 0), place{of: top})
	if size <= limit {
		return json, nil
	}
	for excess := size - limit; ; {
		cuts, saved := s.choose(excess)
		if cuts == nil {
			return s.identity(), []string{everything}
		}
		// The paths need space too, and if it is missing, what is cut to make space for them may need more paths.
		paths = s.name(cuts, limit/maxPathsShare)
		missing := size - saved + pathsSize(paths) - limit
		if missing <= 0 {
			return s.without(cuts), paths
		}
		excess += missing
	}
}

// pathsSize returns how many bytes the paths take in a record.
func pathsSize(paths []string) int {
	size := 0
	for _, path := range paths {
		size += partSize(textSize(len(path)))
	}
	return size
}

// piece is a value that may be cut: data[from:to].
type piece struct {
	from, to int
	saves    int // bytes
}

// survey looks through an object for what may be cut.
type survey struct {
	data     []byte
	form     Form
	found    [classes][]piece
	identify [identities]piece
	text     []byte // of a string, which is used again

	// Of the second pass, which names the values that start at these offsets.
	wanted map[int]string
	path   []step
}

// step is the key, or the number of an element, that leads to a part.
type step struct {
	key   []byte // inside of it
	index int    // where there is no key
}

// kind is what is known of a value by its place.
type kind uint8

const (
	plain kind = iota
	top        // the object itself
	ownMetadata
	anyMetadata // of an object inside
	annotation  // the object of annotations
)

// place is where a value stands.
type place struct {
	of       kind
	inStatus bool
	skips    [classes]bool // what is inside a value of these classes goes with it
	fixed    bool          // it is, or has in it, what identifies the object
	isText   class         // of a string
}

// The parts of the identity.
const (
	apiVersion = iota
	kindOfObject
	name
	namespace
	uid
	resourceVersion
	identities = iota
)

var identityKeys = [identities]string{"apiVersion", "kind", "name", "namespace", "uid", "resourceVersion"}

// identityOf returns which part of the identity a key of a value at this place is, or -1.
func identityOf(of kind, key string) int {
	switch of {
	case top:
		return slices.Index(identityKeys[:name], key)
	case ownMetadata:
		if i := slices.Index(identityKeys[name:], key); i >= 0 {
			return name + i
		}
	}
	return -1
}

// note notes a value that may be cut. Its size is that in the form of the survey.
func (s *survey) note(c class, from, to, size int, replacement string) {
	if to-from >= minValue && s.wanted == nil {
		s.found[c] = append(s.found[c], piece{from, to, size - s.sizeOf(replacement)})
	}
}

// value passes the value at data[i] and returns where it ends and its size.
func (s *survey) value(i int, at place) (end, size int) {
	if _, ok := s.wanted[i]; ok {
		s.wanted[i] = s.pathText()
	}
	switch s.data[i] {
	case '{':
		return s.object(i, at)
	case '[':
		return s.array(i, at)
	case '"':
		end, content, _ := jsonscan.String(s.data, i)
		size = s.stringSize(i, end, content)
		if !at.fixed {
			c := at.isText
			if c == annotations && end-i-2 <= minAnnotation {
				c = texts
			}
			s.note(c, i, end, size, marker(end-i))
		}
		return end, size
	}
	end, _ = jsonscan.Skip(s.data, i, 0)
	return end, s.scalarSize(i, end)
}

func (s *survey) array(i int, at place) (end, size int) {
	from := i
	i = jsonscan.Space(s.data, i+1)
	if s.data[i] == ']' {
		return i + 1, s.partedSize(from, i+1, 0)
	}
	part := place{inStatus: at.inStatus, skips: at.skips, isText: texts}
	parts := 0
	for n := 0; ; n++ {
		s.path = append(s.path, step{index: n})
		end, size = s.value(i, part)
		parts += partSize(size)
		s.path = s.path[:len(s.path)-1]
		next, more, err := jsonscan.Next(s.data, end, ']')
		if !more || err != nil {
			return next, s.partedSize(from, next, parts)
		}
		i = next
	}
}

func (s *survey) object(i int, at place) (end, size int) {
	from := i
	i = jsonscan.Space(s.data, i+1)
	if s.data[i] == '}' {
		return i + 1, s.partedSize(from, i+1, 0)
	}
	parts := 0
	for {
		keyEnd, content, value, err := jsonscan.Key(s.data, i)
		if err != nil {
			return value, s.partedSize(from, value, parts)
		}
		inside := s.data[i+1 : keyEnd-1]
		key := inside
		if content&jsonscan.Escaped != 0 {
			key = []byte(jsonscan.Unquote(inside))
		}
		s.path = append(s.path, step{key: inside})
		end, size = s.member(value, string(key), at)
		parts += partSize(textSize(s.textLength(i, keyEnd, content)) + partSize(size))
		s.path = s.path[:len(s.path)-1]
		next, more, err := jsonscan.Next(s.data, end, '}')
		if !more || err != nil {
			return next, s.partedSize(from, next, parts)
		}
		i = next
	}
}

// member passes the value at data[i] under the key of an object at this place.
func (s *survey) member(i int, key string, at place) (end, size int) {
	part := place{inStatus: at.inStatus || at.of == top && key == "status", skips: at.skips, isText: texts}
	list := s.data[i] == '['
	c := fields
	goes := false // the value as a whole may be cut, as one of the class
	switch {
	case at.of == annotation:
		part.isText = annotations
	case key == "openAPIV3Schema":
		c, goes = schemas, true
	case part.inStatus && list:
		c, goes = statusLists, true
	case key == "metadata" && at.of == top:
		part.of = ownMetadata
	case key == "metadata":
		part.of = anyMetadata
	case key == "annotations" && (at.of == ownMetadata || at.of == anyMetadata):
		part.of = annotation
	}
	identity := -1
	if s.data[i] == '"' {
		identity = identityOf(at.of, key)
	}
	part.fixed = identity >= 0
	isField := (at.of == top || at.of == ownMetadata) && identity < 0 && part.of != ownMetadata
	goes = goes && !at.skips[c] && s.data[i] != '"'
	if goes {
		part.skips[c] = true
	}
	end, size = s.value(i, part)
	if identity >= 0 && s.identify[identity].to == 0 {
		s.identify[identity] = piece{from: i, to: end}
	}
	if goes {
		s.note(c, i, end, size, null)
	}
	if isField {
		s.note(fields, i, end, size, null)
	}
	return end, size
}

const null = "null"

// marker is what stands in the place of a string of that many bytes.
func marker(length int) string { return `"[TRUNCATED len=` + strconv.Itoa(length) + `]"` }

// choose returns what is cut to save that many bytes, in the order in which it goes, and how many that saves; nil if there
// is no way.
func (s *survey) choose(bytes int) (chosen []piece, saved int) {
	worthwhile := bytes / minShare
	for c, found := range s.found {
		isCovered, within := covered(chosen), savings(chosen)
		var open []piece
		for _, p := range found {
			if !isCovered(p) {
				p.saves -= within(p)
				open = append(open, p)
			}
		}
		slices.SortFunc(open, func(a, b piece) int {
			return cmp.Or(cmp.Compare(b.saves, a.saves), cmp.Compare(a.from, b.from))
		})
		for _, p := range open {
			if saved >= bytes {
				return chosen, saved
			}
			if p.saves > 0 && (p.saves >= worthwhile || c != int(statusLists) && c != int(schemas)) {
				chosen = append(chosen, p)
				saved += p.saves
			}
		}
	}
	if saved < bytes {
		return nil, 0
	}
	return chosen, saved
}

// inOrder returns the pieces in the order of the data, the outer before the inner.
func inOrder(pieces []piece) []piece {
	sorted := slices.Clone(pieces)
	slices.SortFunc(sorted, func(a, b piece) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	return sorted
}

// covered returns whether a piece lies inside one of those.
func covered(chosen []piece) func(piece) bool {
	sorted := inOrder(chosen)
	outer := sorted[:0]
	for _, p := range sorted {
		if len(outer) == 0 || p.from >= outer[len(outer)-1].to {
			outer = append(outer, p)
		}
	}
	return func(p piece) bool {
		i, found := slices.BinarySearchFunc(outer, p.from, func(o piece, from int) int { return cmp.Compare(o.from, from) })
		if found {
			return p.to <= outer[i].to
		}
		return i > 0 && p.to <= outer[i-1].to
	}
}

// savings returns how many bytes are saved already inside a piece by those that were chosen.
func savings(chosen []piece) func(piece) int {
	sorted := inOrder(chosen)
	sums := make([]int, len(sorted)+1)
	for i, p := range sorted {
		sums[i+1] = sums[i] + p.saves
	}
	return func(p piece) int {
		first := func(from int) int {
			i, _ := slices.BinarySearchFunc(sorted, from, func(c piece, from int) int { return cmp.Compare(c.from, from) })
			return i
		}
		return sums[first(p.to)] - sums[first(p.from)]
	}
}

// without returns the JSON with the pieces cut.
func (s *survey) without(cuts []piece) string {
	var out strings.Builder
	at := 0
	for _, p := range inOrder(cuts) {
		if p.from < at {
			continue // inside of one that is cut
		}
		out.Write(s.data[at:p.from])
		if s.data[p.from] == '"' {
			out.WriteString(marker(len(jsonscan.Unquote(s.data[p.from+1 : p.to-1]))))
		} else {
			out.WriteString(null)
		}
		at = p.to
	}
	out.Write(s.data[at:])
	return out.String()
}

// name returns the paths of what was cut, in about as many bytes as they may take, and how many more there are.
func (s *survey) name(cuts []piece, bytes int) []string {
	named := cuts[:min(len(cuts), maxPaths)]
	s.wanted = make(map[int]string, len(named))
	for _, p := range named {
		s.wanted[p.from] = ""
	}
	s.path = s.path[:0]
	s.value(jsonscan.Space(s.data, 0), place{of: top})
	paths := make([]string, 0, len(named)+1)
	for _, p := range named {
		path := s.wanted[p.from]
		if bytes -= len(path); bytes < 0 && len(paths) > 0 {
			break
		}
		paths = append(paths, path)
	}
	if more := len(cuts) - len(paths); more > 0 {
		paths = append(paths, fmt.Sprintf("and %d more", more))
	}
	return paths
}

// pathText is the path of the value that is passed: keys and numbers joined by dots.
func (s *survey) pathText() string {
	var path []byte
	for i, step := range s.path {
		if i > 0 {
			path = append(path, '.')
		}
		if step.key != nil {
			path = jsonscan.AppendUnquoted(path, step.key)
		} else {
			path = strconv.AppendInt(path, int64(step.index), 10)
		}
		if len(path) > maxPath {
			break
		}
	}
	if len(path) <= maxPath {
		return strings.ToValidUTF8(string(path), "")
	}
	return strings.ToValidUTF8(string(path[:maxPath]), "") + "…"
}

// identity returns the object with its identity and nothing else.
func (s *survey) identity() string {
	out := []byte{'{'}
	member := func(part int) {
		p := s.identify[part]
		if p.to == 0 {
			return
		}
		if last := out[len(out)-1]; last != '{' {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), identityKeys[part]...), `":`...)
		out = append(out, s.data[p.from:p.to]...)
	}
	member(apiVersion)
	member(kindOfObject)
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(out, `"metadata":{`...)
	for part := name; part < identities; part++ {
		member(part)
	}
	return string(append(out, '}', '}'))
}
