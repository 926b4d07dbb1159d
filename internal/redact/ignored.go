package redact

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// Ignored names parts of objects whose changes do not count: an object that differs only in them is unchanged.
type Ignored struct {
	Group, Resource string   // API group and plural name; no resource: all of them
	Paths           []string // keys joined by dots; * is any key or element; see matchPath
}

// UsuallyIgnored are heartbeats, and copies of what other objects record.
var UsuallyIgnored = []Ignored{
	// Which generation a controller has seen.
	{Paths: []string{"status.observedGeneration"}},
	// The heartbeat of a leader election whose lock is an annotation of some object, as before Leases existed.
	// https://github.com/kubernetes/kubernetes/blob/v1.23.0/staging/src/k8s.io/client-go/tools/leaderelection/resourcelock/endpointslock.go
	{Paths: []string{"metadata.annotations.control-plane.alpha.kubernetes.io/leader.renewTime"}},
	{Group: "coordination.k8s.io", Resource: "leases", Paths: []string{"spec.renewTime"}},
	{Resource: "nodes", Paths: []string{"status.conditions.*.lastHeartbeatTime"}},
	// The time of the change of a Pod or Service that caused the last update of the endpoints.
	// https://kubernetes.io/docs/reference/labels-annotations-taints/#endpoints-kubernetes-io-last-change-trigger-time
	{Resource: "endpoints", Paths: []string{"metadata.annotations.endpoints.kubernetes.io/last-change-trigger-time"}},
	{Group: "discovery.k8s.io", Resource: "endpointslices", Paths: []string{"metadata.annotations.endpoints.kubernetes.io/last-change-trigger-time"}},
}

// ignoredIn returns the paths that do not count in the objects of a resource, in order, each once.
func ignoredIn(all []Ignored, group, resource string) []string {
	var paths []string
	for _, i := range all {
		if i.Resource == "" || i.Group == group && i.Resource == resource {
			paths = append(paths, i.Paths...)
		}
	}
	for _, path := range paths {
		// The API server raises the generation with each change of what is neither metadata nor status.
		if first, _, _ := strings.Cut(path, "."); first != "metadata" && first != "status" {
			paths = append(paths, "metadata.generation")
			break
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Step is one step to a value: the key of a member, or the index of an element of a list, which may also have a name.
type Step struct{ Key, Name string }

// Ignores reports whether changes of the value at a path do not count.
func (p *Plan) Ignores(path []Step) bool {
	if len(p.ignoredPaths) == 0 {
		return false
	}
	elements := make([]pathElement, len(path))
	for i, step := range path {
		elements[i].key = []byte(step.Key)
		if index, err := strconv.Atoi(step.Key); err == nil {
			elements[i].index, elements[i].isIndex, elements[i].alias = index, true, []byte(step.Name)
		}
	}
	return slices.ContainsFunc(p.ignoredPaths, func(pattern string) bool { return matchPath(pattern, elements) })
}

// ignoredPath is the rest of a path below some part of an object.
type ignoredPath struct {
	rest string
	// last occurs in the last key of the path and around in an earlier one, in the form in which a server writes them. In a
	// text without them, the path matches nothing. "" if there is no such word.
	last, around string
}

// newIgnoredPaths returns the paths at the object itself, and those at its metadata.
func newIgnoredPaths(paths []string) (ofObject, ofMetadata []ignoredPath) {
	for _, path := range paths {
		rest, inMetadata := strings.CutPrefix(path, "metadata.")
		switch {
		case rest == "":
		case path == "metadata":
			ofMetadata = append(ofMetadata, ignoredPath{rest: "*"})
		case inMetadata:
			ofMetadata = append(ofMetadata, newIgnoredPath(rest))
		default:
			ofObject = append(ofObject, newIgnoredPath(rest))
		}
	}
	return ofObject, ofMetadata
}

func newIgnoredPath(rest string) ignoredPath {
	words := strings.Split(rest, ".") // keys, or parts of keys with dots
	p := ignoredPath{rest: rest}
	for i, word := range words {
		// A number may be that of an element. The names of elements are in the text, like keys.
		if strings.IndexFunc(word, isUnusualInKeys) >= 0 || strings.Trim(word, "0123456789") == "" {
			continue
		}
		switch i {
		case len(words) - 1:
			p.last = word
		case 0: // the member that the text is of
		default:
			p.around = word
		}
	}
	return p
}

// isUnusualInKeys reports whether a server may escape the character, or a path gives it another meaning.
func isUnusualInKeys(c rune) bool {
	return c != '-' && c != '_' && c != '/' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}

// after returns what follows a key in the path.
func (p ignoredPath) after(key []byte) (string, bool) {
	if len(key) == 0 || len(p.rest) < len(key) || p.rest[:len(key)] != string(key) {
		return "", false
	}
	return p.rest[len(key):], true
}

// counting returns the part of a member's text that counts, which for nearly all members is all of it. It returns nil if
// nothing counts. The result is valid until the next call.
func (w *walk) counting(data []byte, m *memberSpan, key []byte, paths []ignoredPath) []byte {
	c := &w.cutter
	c.data, c.paths = data, c.paths[:0]
	paths, whole := c.below(paths, key, true)
	if whole {
		return nil
	}
	text := data[m.key:m.end]
	if len(paths) == 0 || !isContainer(data[m.value]) {
		return text
	}
	if string(data[m.value:m.end]) == "{}" {
		return nil
	}
	if data[m.value] != '"' && !mayHold(text, paths) {
		return text
	}
	c.out = append(c.out[:0], data[m.key:m.value]...)
	if _, kept := c.value(m.value, m.end, paths); !kept {
		return nil
	}
	return c.out
}

func isContainer(first byte) bool { return first == '{' || first == '[' || first == '"' }

// mayHold reports whether one of the paths may match something in the text. An empty object counts, because the ignored
// part may be missing from it, and so does a document in a string, which is hashed in another form than the string.
func mayHold(text []byte, paths []ignoredPath) bool {
	for _, p := range paths {
		switch {
		case p.around != "" && !bytes.Contains(text, []byte(p.around)):
		case p.last == "", bytes.Contains(text, []byte(p.last)):
			return true
		case strings.IndexByte(p.rest, '.') >= 0 &&
			(bytes.Contains(text, []byte(`{}`)) || bytes.Contains(text, []byte(`"{`)) || bytes.Contains(text, []byte(`"[`))):
			return true
		}
	}
	return false
}

// cutter copies a value without the parts that do not count. An object that contains nothing else does not count either:
// some writers leave out only the part, others the object around it.
//
// The output is only hashed. If nothing is cut, it equals the text of the value.
type cutter struct {
	data  []byte
	out   []byte
	paths []ignoredPath // a stack: those at the value that is being copied, and those at the values around it
	index []byte        // of an element, as text
}

// below returns the paths at the member with this key, or at the element with this number or name. It reports whether the
// whole member does not count. If anyKey is set, the star in a path matches any key or element.
func (c *cutter) below(paths []ignoredPath, key []byte, anyKey bool) (rest []ignoredPath, whole bool) {
	start := len(c.paths)
	for _, p := range paths {
		after, ok := p.after(key)
		if anyKey && p.rest[0] == '*' {
			after, ok = p.rest[1:], true // no key of Kubernetes begins with a star
		}
		switch {
		case !ok:
		case after == "":
			c.paths = c.paths[:start]
			return nil, true
		case after[0] == '.' && len(after) > 1:
			c.paths = append(c.paths, ignoredPath{after[1:], p.last, p.around})
		}
	}
	return c.paths[start:], false
}

// value copies the value at data[i], which is known to be well-formed, and reports whether anything of it counts. end is
// its end if that is known, otherwise 0.
func (c *cutter) value(i, end int, paths []ignoredPath) (after int, kept bool) {
	switch c.data[i] {
	case '{':
		return c.object(i, end, paths)
	case '[':
		return c.array(i, paths), true
	case '"':
		return c.document(i, paths)
	}
	return c.whole(i), true
}

// inside copies the value at data[i] with the paths that lead into it, which are on top of the stack.
func (c *cutter) inside(i int, paths []ignoredPath) (after int, kept bool) {
	if len(paths) == 0 {
		return c.whole(i), true
	}
	after, kept = c.value(i, 0, paths)
	c.paths = c.paths[:len(c.paths)-len(paths)]
	return after, kept
}

func (c *cutter) whole(i int) (end int) {
	end, _ = jsonscan.Skip(c.data, i, 0)
	c.out = append(c.out, c.data[i:end]...)
	return end
}

func (c *cutter) object(i, end int, paths []ignoredPath) (after int, kept bool) {
	c.out = append(c.out, '{')
	i = jsonscan.Space(c.data, i+1)
	more := c.data[i] != '}'
	if !more {
		i++
	}
	for left := len(paths); more; {
		if left == 0 && end > 0 { // nothing more is cut
			c.separate(kept)
			c.out = append(c.out, c.data[i:end]...)
			return end, true
		}
		keyEnd, content, value, _ := jsonscan.Key(c.data, i)
		key := jsonscan.KeyText(c.data[i+1:keyEnd-1], content)
		rest, isCut := c.below(paths, key, true)
		if isCut || len(rest) > 0 {
			left -= onlyAt(paths, key)
		}
		before, isKept := len(c.out), false
		if isCut {
			i, _ = jsonscan.Skip(c.data, value, 0)
		} else {
			c.separate(kept)
			c.out = append(c.out, c.data[i:value]...)
			i, isKept = c.inside(value, rest)
		}
		if !isKept {
			c.out = c.out[:before]
		}
		kept = kept || isKept
		i, more, _ = jsonscan.Next(c.data, i, '}')
	}
	c.out = append(c.out, '}')
	return i, kept
}

// onlyAt returns how many of the paths can lead through no other key than this one.
func onlyAt(paths []ignoredPath, key []byte) (n int) {
	for _, p := range paths {
		// If more keys follow, a key that contains dots may be the beginning of the path too.
		if after, ok := p.after(key); ok && (after == "" && strings.IndexByte(p.rest, '.') < 0 || strings.HasPrefix(after, ".*")) {
			n++
		}
	}
	return n
}

func (c *cutter) array(i int, paths []ignoredPath) (after int) {
	c.out = append(c.out, '[')
	i = jsonscan.Space(c.data, i+1)
	more := c.data[i] != ']'
	if !more {
		i++
	}
	named := mayName(paths)
	kept := false
	for n := 0; more; n++ {
		c.index = strconv.AppendInt(c.index[:0], int64(n), 10)
		rest, isCut := c.below(paths, c.index, true)
		if named && !isCut && c.data[i] == '{' {
			start := len(c.paths) - len(rest)
			if _, isCut = c.below(paths, c.nameOf(i), false); isCut {
				c.paths = c.paths[:start]
			}
			rest = c.paths[start:]
		}
		if isCut {
			i, _ = jsonscan.Skip(c.data, i, 0)
		} else {
			c.separate(kept)
			kept = true
			i, _ = c.inside(i, rest)
		}
		i, more, _ = jsonscan.Next(c.data, i, ']')
	}
	c.out = append(c.out, ']')
	return i
}

// mayName reports whether one of the paths may name an element of a list.
func mayName(paths []ignoredPath) bool {
	for _, p := range paths {
		if first := p.rest[0]; first != '*' && (first < '0' || first > '9') {
			return true
		}
	}
	return false
}

// nameOf returns the name of the element at data[i] of a list, as for redaction.keep: the last of these members that is a
// string.
func (c *cutter) nameOf(i int) (name []byte) {
	jsonscan.Members(c.data, i, func(m jsonscan.Member) bool {
		switch string(m.Name(c.data)) {
		case "name", "key", "path":
			if c.data[m.Value] == '"' {
				name = []byte(jsonscan.Unquote(c.data[m.Value+1 : m.End-1]))
			}
		}
		return true
	})
	return name
}

// document copies the string at data[i], into which the paths lead if it is a document in JSON.
func (c *cutter) document(i int, paths []ignoredPath) (after int, kept bool) {
	after, _, _ = jsonscan.String(c.data, i)
	text := []byte(jsonscan.Unquote(c.data[i+1 : after-1]))
	start := jsonscan.Space(text, 0)
	if start == len(text) || text[start] != '{' && text[start] != '[' || !jsonscan.Valid(text) {
		c.out = append(c.out, c.data[i:after]...)
		return after, true
	}
	around := c.data
	c.data, c.out = text, append(c.out, 0) // no JSON contains this byte, so that no value that is not a text looks the same
	_, kept = c.value(start, 0, paths)
	c.data, c.out = around, append(c.out, 0)
	return after, kept
}

func (c *cutter) separate(more bool) {
	if more {
		c.out = append(c.out, ',')
	}
}
