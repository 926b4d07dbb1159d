package redact

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// Fields says which parts of the objects of a resource go out at all, by paths: keys and numbers of elements joined by
// dots, where * is any key or element. A key may have dots itself. A path names the value and everything in it.
//
// What does not go out is skipped and not looked into, but for what the record has to know: the identity and the other
// facts of the object, and what decides how values beside it are masked.
type Fields struct {
	Drop []string
	Keep []string // only these go out, and the identity of the object; none: everything does
}

// identityFields go out whatever Fields.Keep says.
var identityFields = []string{
	"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion",
}

// WithFields returns the plan for objects of which not everything goes out.
func (p *Plan) WithFields(f Fields) *Plan {
	if len(f.Drop)+len(f.Keep) == 0 {
		return p
	}
	reduced := *p
	root := fieldStep{kept: len(f.Keep) == 0}
	for _, path := range f.Drop {
		root.positions = append(root.positions, fieldPosition{rest: path})
	}
	if !root.kept {
		for _, path := range append(identityFields, f.Keep...) {
			root.positions = append(root.positions, fieldPosition{rest: path, keeps: true})
		}
	}
	reduced.fields = root.next()
	reduced.hasFacts = make(map[*interior]bool)
	p.root.findFacts(reduced.hasFacts)
	return &reduced
}

// fieldPosition is how far a path has come on the way to a value.
type fieldPosition struct {
	rest  string // what remains of it; not empty
	keeps bool   // the path is of Fields.Keep
}

// fieldNode is what the paths say about a value and its parts.
type fieldNode struct {
	skips     bool // it does not go out
	onlyParts bool // only parts of it go out, so that it has to have parts
	named     map[string]*fieldStep
	other     *fieldStep // the members and elements that no path names
}

// fieldStep leads to the nodes of parts. They are made when an object has such a part, since the nodes of all parts that
// objects might have could be very many.
type fieldStep struct {
	positions     []fieldPosition
	kept, dropped bool // a path ends at the part

	once sync.Once
	node *fieldNode
}

var skippedField = &fieldNode{skips: true}

// next returns the node that the step leads to; nil where all of the part goes out.
func (s *fieldStep) next() *fieldNode {
	s.once.Do(func() {
		open := s.positions
		if s.kept { // and with it everything that paths to keep might still name
			open = nil
			for _, p := range s.positions {
				if !p.keeps {
					open = append(open, p)
				}
			}
		}
		keeps := s.kept
		for _, p := range open {
			keeps = keeps || p.keeps
		}
		switch {
		case s.dropped || !keeps:
			s.node = skippedField
		case len(open) > 0:
			s.node = newFieldNode(open, s.kept)
		}
	})
	return s.node
}

func newFieldNode(positions []fieldPosition, kept bool) *fieldNode {
	n := &fieldNode{onlyParts: !kept, named: make(map[string]*fieldStep), other: &fieldStep{kept: kept}}
	heads := func(yield func(head string, p fieldPosition, rest string)) {
		for _, p := range positions {
			for i := 0; i <= len(p.rest); i++ {
				if i == len(p.rest) {
					yield(p.rest, p, "")
				} else if p.rest[i] == '.' { // which may be a part of the key
					yield(p.rest[:i], p, p.rest[i+1:])
				}
			}
		}
	}
	heads(func(head string, _ fieldPosition, _ string) {
		if head != "*" && n.named[head] == nil {
			n.named[head] = &fieldStep{kept: kept}
		}
	})
	heads(func(head string, p fieldPosition, rest string) {
		if head != "*" {
			n.named[head].add(p, rest)
			return
		}
		n.other.add(p, rest)
		for _, step := range n.named {
			step.add(p, rest)
		}
	})
	return n
}

func (s *fieldStep) add(p fieldPosition, rest string) {
	switch {
	case rest != "":
		s.positions = append(s.positions, fieldPosition{rest, p.keeps})
	case p.keeps:
		s.kept = true
	default:
		s.dropped = true
	}
}

// member returns the node of the member whose key has this inside.
func (n *fieldNode) member(inside []byte, content jsonscan.Content) *fieldNode {
	if content != 0 { // the names of keys are compared as they are emitted
		inside = []byte(jsonscan.Unquote(inside))
	}
	if step, ok := n.named[string(inside)]; ok {
		return step.next()
	}
	return n.other.next()
}

// element returns the node of an element of an array.
func (n *fieldNode) element(index int) *fieldNode {
	if len(n.named) > 0 {
		var number [20]byte
		if step, ok := n.named[string(strconv.AppendInt(number[:0], int64(index), 10))]; ok {
			return step.next()
		}
	}
	return n.other.next()
}

// skipsValue reports whether a value that starts with this byte does not go out.
func (n *fieldNode) skipsValue(first byte) bool {
	return n != nil && (n.skips || n.onlyParts && first != '{' && first != '[')
}

// fieldPart is [walk.part] for a value about which the paths may say something.
func (w *walk) fieldPart(n *fieldNode, i int, r *rule, depth int) (end int, v verdict, err error) {
	if !n.skipsValue(w.data[i]) {
		w.fields = n
		return w.part(i, r, depth)
	}
	w.fields = nil
	if r.note == ownMetadata && w.data[i] == '{' {
		// The members of the metadata count in the content of the object, and no walk passes them.
		w.memberSpans = appendMetadata(w.data, i, w.memberSpans)
	}
	v = r.do[shapeOf[w.data[i]]]
	switch {
	case r.note == commandOfObject, r.mode == asArgument && w.inCommand && w.data[i] == '"':
		// How what comes after it is masked depends on it.
		end, err = w.walkUnseen(i, r, depth)
	case v == keep || v == extract:
		end, err = w.takeFacts(i, r, depth)
	default:
		end, err = jsonscan.Skip(w.data, i, depth)
	}
	if v == keep {
		return end, unseen, err
	}
	return end, drop, err
}

// walkUnseen passes a value that does not go out as if it did. The edits in it are for the caller to undo.
func (w *walk) walkUnseen(i int, r *rule, depth int) (end int, err error) {
	undecided, late := len(w.undecided), len(w.late)
	masked, kept, counts := w.masked, w.kept, w.counts
	end, _, err = w.part(i, r, depth)
	w.undecided, w.late = w.undecided[:undecided], w.late[:late]
	w.masked, w.kept, w.counts = masked, kept, counts
	w.forget(span{i, end})
	return end, err
}

// noteUnseen is [walk.note] for a value that does not go out. That it may have to be masked once more is known does not
// matter.
func (w *walk) noteUnseen(r *rule, m *members, from, to int) {
	switch r.note {
	case dataOfObject, binaryDataOfObject, itemsOfObject, dataOfTemplate, pairValue, argumentsOfObject:
		return
	case eventNote: // the content of an Event rather than a fact about it
		return
	}
	if r.note >= ownMetadata {
		w.keepText(r, from, to)
	}
	w.note(r.note, m, from, to)
}

// unseenText is the text of a fact that does not go out, where it is not what is written there.
type unseenText struct {
	span
	text string
}

// keepText keeps the text of the fact data[from:to], which the object that goes out does not have, if something is masked
// in it.
func (w *walk) keepText(r *rule, from, to int) {
	if w.data[from] != '"' || r.mode == asVerbatim {
		return
	}
	before := len(w.edits)
	if _, err := w.walkUnseen(from, r, 0); err == nil && len(w.edits) > before {
		seen := w.edits[before:].apply(w.data, from+1, to-1)
		w.unseenTexts = append(w.unseenTexts, unseenText{span{from, to}, jsonscan.Unquote([]byte(seen))})
	}
	w.edits.undo(before)
}

// takeFacts passes the value at data[i], which does not go out, for the facts that it has about the object.
func (w *walk) takeFacts(i int, r *rule, depth int) (end int, err error) {
	shape := shapeOf[w.data[i]]
	if shape != object && shape != array || r.do[shape] != keep && r.do[shape] != extract || !w.plan.hasFacts[r.in] {
		return jsonscan.Skip(w.data, i, depth)
	}
	if depth >= jsonscan.MaxDepth {
		return i, &jsonscan.Error{Offset: i, Err: jsonscan.ErrTooDeep}
	}
	data, closing := w.data, byte(']')
	if shape == object {
		closing = '}'
	}
	if i = jsonscan.Space(data, i+1); i < len(data) && data[i] == closing {
		return i + 1, nil
	}
	for {
		part := r.in.elements
		if shape == object {
			keyEnd, content, value, err := jsonscan.Key(data, i)
			if err != nil {
				return value, err
			}
			part, i = w.ruleOf(r.in, jsonscan.KeyText(data[i+1:keyEnd-1], content)), value
		}
		if i >= len(data) {
			return i, jsonscan.Unexpected(data, i)
		}
		end, err := w.takeFacts(i, part, depth+1)
		if err != nil {
			return end, err
		}
		if part.note >= ownMetadata && part.note != eventNote && part.do[shapeOf[data[i]]] == keep {
			w.keepText(part, i, end)
			w.facts.take(data, part.note, span{i, end})
		}
		next, more, err := jsonscan.Next(data, end, closing)
		if err != nil || !more {
			return next, err
		}
		i = next
	}
}

// findFacts notes for the interior, and for those in it, whether they hold facts about the object.
func (in *interior) findFacts(found map[*interior]bool) bool {
	if has, ok := found[in]; ok || in == nil {
		return has
	}
	found[in] = false // while it is looked into
	has := false
	for _, r := range in.rules() {
		if r == nil {
			continue
		}
		if r.in.findFacts(found) || r.note >= ownMetadata {
			has = true
		}
	}
	found[in] = has
	return has
}

// rules are those of all parts.
func (in *interior) rules() []*rule {
	rules := []*rule{in.elements, in.others, in.harmless}
	if in.byClass != nil {
		rules = append(rules, in.byClass[:]...)
	}
	for _, m := range in.members {
		rules = append(rules, m.rule)
	}
	return rules
}

// CheckPath returns what is wrong with a path of [Fields].
func CheckPath(path string) error {
	switch {
	case path == "*":
		return errors.New(`"*" names everything; begin with a key, as in status.conditions`)
	case strings.HasPrefix(path, "/"), strings.HasPrefix(path, "$"), strings.ContainsAny(path, "[]"):
		return fmt.Errorf("%q is not a path of keys joined by dots, such as spec.containers.*.env", path)
	}
	for part := range strings.SplitSeq(path, ".") {
		switch {
		case part == "":
			return fmt.Errorf("%q has an empty part; write keys joined by dots, as in status.conditions", path)
		case part != "*" && strings.Contains(part, "*"):
			return fmt.Errorf("%q has a * beside other characters; a * stands for one whole key or element, as in spec.containers.*.env", path)
		}
	}
	return nil
}
