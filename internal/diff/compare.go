// Package diff finds what changed between two states of an object, and keeps the last states of objects compressed.
package diff

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

const (
	// MaxChanges is how many changes of one object are listed.
	MaxChanges = 50
	// MaxValue is how many bytes of a value are kept. What is longer is cut and ends in an ellipsis.
	MaxValue = 1 << 10
	// maxDepth is how deep values are compared. What is nested deeper changes as a whole: each level is scanned again for
	// each one above it, and an object may have thousands.
	maxDepth = 32
)

// Diff is what changed between two states of an object.
type Diff struct {
	Changes []Change // in the order of their paths
	More    int      // changes that are not listed
}

// Bytes returns how much memory a diff takes.
func (d *Diff) Bytes() (bytes int) {
	if d == nil {
		return 0
	}
	for i := range d.Changes {
		bytes += d.Changes[i].bytes()
	}
	return bytes
}

// Within returns the diff without the last changes, so that it takes at most that many bytes.
func (d *Diff) Within(bytes int) *Diff {
	if d == nil {
		return nil
	}
	for i := range d.Changes {
		if bytes -= d.Changes[i].bytes(); bytes < 0 {
			return &Diff{Changes: d.Changes[:i:i], More: d.More + len(d.Changes) - i}
		}
	}
	return d
}

// Change is a value that differs between two states of an object.
type Change struct {
	// Path is the keys to the value, joined by dots. An element of a list has its name in the path, or its index if the
	// elements have no names.
	Path     string
	Old, New Value
}

// Value is a value in a state. The zero value is one that is absent.
type Value struct {
	JSON string // a scalar as JSON; "" if the value is absent or Text is set
	Text string // an object, a list, or what was too long, as text
}

// changeOverhead is more than a change takes besides its texts, in memory and in a record.
const changeOverhead = 128

func (c *Change) bytes() int {
	return changeOverhead + len(c.Path) + len(c.Old.JSON) + len(c.Old.Text) + len(c.New.JSON) + len(c.New.Text)
}

// IsAbsent reports whether the state has no such value.
func (v Value) IsAbsent() bool { return v == Value{} }

// Compare returns what changed between two states of an object, which are JSON as redaction writes it: at most MaxChanges.
// It leaves out what every change changes, and values for which ignored returns true.
func Compare(before, after []byte, ignored func([]redact.Step) bool) *Diff {
	c := comparison{ignored: ignored}
	c.values(bytes.TrimSpace(before), bytes.TrimSpace(after))
	return &c.diff
}

// alwaysChanges are the parts of the metadata that change with the object.
var alwaysChanges = map[string]bool{"resourceVersion": true, "generation": true, "managedFields": true}

type comparison struct {
	ignored func([]redact.Step) bool
	path    []redact.Step
	diff    Diff
}

// values compares two values; nil is an absent one.
func (c *comparison) values(before, after []byte) {
	switch {
	case bytes.Equal(before, after):
	case len(c.path) == maxDepth:
		c.add(before, after)
	case startsWith(before, '{') && startsWith(after, '{'):
		c.parts(members(before), members(after))
	case startsWith(before, '[') && startsWith(after, '['):
		was, is := elements(before), elements(after)
		if !haveNames(was) || !haveNames(is) {
			was, is = aligned(was, is)
		}
		c.parts(was, is)
	default:
		c.add(before, after)
	}
}

// part is a member of an object, or an element of a list.
type part struct {
	redact.Step
	value []byte
}

// name returns what identifies the part among the others.
func (p *part) name() string {
	if p.Name != "" {
		return p.Name
	}
	return p.Key
}

// parts compares parts with the same names.
func (c *comparison) parts(before, after []part) {
	byName := func(a, b part) int { return strings.Compare(a.name(), b.name()) }
	slices.SortStableFunc(before, byName)
	slices.SortStableFunc(after, byName)
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].name() < after[0].name():
			c.part(before[0].Step, before[0].value, nil)
			before = before[1:]
		case len(before) == 0 || after[0].name() < before[0].name():
			c.part(after[0].Step, nil, after[0].value)
			after = after[1:]
		default:
			c.part(after[0].Step, before[0].value, after[0].value)
			before, after = before[1:], after[1:]
		}
	}
}

func (c *comparison) part(at redact.Step, before, after []byte) {
	if len(c.path) == 1 && c.path[0].Key == "metadata" && alwaysChanges[at.Key] {
		return
	}
	c.path = append(c.path, at)
	c.values(before, after)
	c.path = c.path[:len(c.path)-1]
}

func (c *comparison) add(before, after []byte) {
	if c.ignored != nil && c.ignored(c.path) {
		return
	}
	if len(c.diff.Changes) == MaxChanges {
		c.diff.More++
		return
	}
	var path strings.Builder
	for i, step := range c.path {
		if i > 0 {
			path.WriteByte('.')
		}
		if step.Name != "" {
			path.WriteString(step.Name)
		} else {
			path.WriteString(step.Key)
		}
	}
	c.diff.Changes = append(c.diff.Changes, Change{Path: path.String(), Old: valueOf(before), New: valueOf(after)})
}

func valueOf(json []byte) Value {
	switch {
	case json == nil:
		return Value{}
	case json[0] == '{' || json[0] == '[':
		return Value{Text: cut(string(json[:min(len(json), MaxValue+1)]))}
	case len(json) > MaxValue:
		return Value{Text: cut(jsonscan.Unquote(json[1 : len(json)-1]))}
	}
	return Value{JSON: string(json)}
}

// cut cuts a text that is too long at the end of a character.
func cut(text string) string {
	if len(text) <= MaxValue {
		return text
	}
	end := MaxValue
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

func startsWith(json []byte, c byte) bool { return len(json) > 0 && json[0] == c }

func members(object []byte) (all []part) {
	jsonscan.Members(object, 0, func(m jsonscan.Member) bool {
		all = append(all, part{redact.Step{Key: string(m.Name(object))}, object[m.Value:m.End]})
		return true
	})
	return all
}

func elements(list []byte) (all []part) {
	i := jsonscan.Space(list, 1)
	for more := i < len(list) && list[i] != ']'; more; {
		i = jsonscan.Space(list, i)
		end, err := jsonscan.Skip(list, i, 0)
		if err != nil {
			break
		}
		value := list[i:end]
		all = append(all, part{redact.Step{Key: strconv.Itoa(len(all)), Name: nameOf(value)}, value})
		if i, more, err = jsonscan.Next(list, end, ']'); err != nil {
			break
		}
	}
	return all
}

// names are the members that name an element, the most certain first: those that redaction.keep knows, and the keys of
// the lists of the Kubernetes API.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#custom-resources-and-server-side-apply
var names = []string{"name", "key", "path", "type", "uid", "mountPath", "ip", "hostname", "containerPort", "port"}

// nameOf returns the name of an element of a list, or "".
func nameOf(element []byte) (name string) {
	best := len(names)
	jsonscan.Members(element, 0, func(m jsonscan.Member) bool {
		value := element[m.Value:m.End]
		if i := slices.Index(names, string(m.Name(element))); i >= 0 && i < best {
			switch {
			case value[0] == '"':
				name, best = jsonscan.Unquote(value[1:len(value)-1]), i
			case value[0] >= '0' && value[0] <= '9':
				name, best = string(value), i
			}
		}
		return best > 0
	})
	return name
}

// haveNames reports whether each element has a name of its own.
func haveNames(all []part) bool {
	seen := make(map[string]bool, len(all))
	for i := range all {
		if all[i].Name == "" || seen[all[i].Name] {
			return false
		}
		seen[all[i].Name] = true
	}
	return true
}

// aligned gives elements that have no names the same index in both lists if they are equal, as far as the lists begin and
// end with the same elements: one that was inserted is then one change, not one for each that follows.
func aligned(before, after []part) (was, is []part) {
	for i := range before {
		before[i].Name = ""
	}
	for i := range after {
		after[i].Name = ""
	}
	same := 0
	for same < len(before) && same < len(after) && bytes.Equal(before[same].value, after[same].value) {
		same++
	}
	before, after = before[same:], after[same:]
	for len(before) > 0 && len(after) > 0 && bytes.Equal(before[len(before)-1].value, after[len(after)-1].value) {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return before, after
}
