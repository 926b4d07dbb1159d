package redact

import (
	"cmp"
	"slices"
	"strings"
)

const maskedJSON = `"` + Masked + `"`

// edit replaces data[from:to] with a text.
type edit struct {
	from, to int
	text     string
	masks    bool // a value was masked, by the rule
	rule     Rule
}

// edits are ordered by position and do not overlap.
type edits []edit

func (e *edits) add(from, to int, text string) {
	*e = append(*e, edit{from: from, to: to, text: text})
}

// gap replaces data[from:to] with the separator. Where the server wrote no white space and nothing was dropped,
// data[from:to] already is the separator that the grammar requires.
func (e *edits) gap(from, to int, separator string) {
	if to-from != len(separator) {
		e.add(from, to, separator)
	}
}

// undo removes all but the first n edits.
func (e *edits) undo(n int) {
	clear((*e)[n:])
	*e = (*e)[:n]
}

// apply returns data[from:to] with the edits applied.
func (e edits) apply(data []byte, from, to int) string {
	var out strings.Builder
	out.Grow(max(0, e.offset(to)-from))
	for _, edit := range e {
		out.Write(data[from:edit.from])
		out.WriteString(edit.text)
		from = edit.to
	}
	out.Write(data[from:to])
	return out.String()
}

// offset returns the offset of data[i] after the edits before it.
func (e edits) offset(i int) int {
	moved := i
	for _, edit := range e {
		if edit.to > i {
			break
		}
		moved += len(edit.text) - (edit.to - edit.from)
	}
	return moved
}

// overlapping returns the edits inside data[s.from:s.to], or reports that one masks all of it.
func (e edits) overlapping(s span) (inside edits, masked bool) {
	for i, edit := range e {
		if edit.to <= s.from {
			continue
		}
		if edit.from >= s.to {
			break
		}
		if edit.from < s.from || edit.to > s.to {
			return nil, edit.masks
		}
		n := 1
		for i+n < len(e) && e[i+n].to <= s.to {
			n++
		}
		return e[i : i+n], false
	}
	return nil, false
}

// covers reports whether one edit replaces data[s.from:s.to] together with its surroundings.
func (e edits) covers(s span) bool {
	for _, edit := range e {
		if edit.from >= s.to {
			break
		}
		if edit.from < s.from && edit.to > s.from || edit.to > s.to && edit.from < s.to {
			return true
		}
	}
	return false
}

// late is a value whose rule was known only after the value had been walked, as in an object whose kind, Secret, comes
// after its data.
type late struct {
	span
	rule   *rule
	path   []pathElement
	fields *fieldNode
}

// maxRewalked bounds how many bytes are walked again per byte of the object, so that no nesting takes long.
const maxRewalked = 8

// redo walks the late values again. The edits of the second walk, which cannot fail if the first did not, replace those
// collected inside these values. It may find more late values, inside lists of Secrets.
func (w *walk) redo() error {
	budget := maxRewalked*len(w.data) + 64<<10
	for len(w.late) > 0 {
		// An object inside the data of another ends before it.
		slices.SortFunc(w.late, func(a, b late) int { return cmp.Compare(a.from, b.from) })
		w.lateBefore = append(w.lateBefore[:0], w.late...)
		w.late = w.late[:0]
		w.editsBefore = append(w.editsBefore[:0], w.edits...)
		earlier := w.editsBefore
		w.edits = w.edits[:0]
		done := 0
		for _, l := range w.lateBefore {
			if l.from < done {
				continue // inside data that is already masked
			}
			if budget -= l.to - l.from; budget < 0 {
				return errTooIntricate
			}
			n := 0
			for n < len(earlier) && earlier[n].to <= l.from {
				n++
			}
			w.edits = append(w.edits, earlier[:n]...)
			for n < len(earlier) && earlier[n].from < l.to {
				n++
			}
			earlier = earlier[n:]
			w.forget(l.span)
			w.path = append(w.path[:w.base], l.path[min(w.base, len(l.path)):]...)
			w.inSecretKind = 1 // the surroundings of the value are no longer known
			w.fields = l.fields
			_, _, _ = w.part(l.from, l.rule, 0)
			w.fields = nil
			w.undecided = w.undecided[:0]
			done = l.to
		}
		w.edits = append(w.edits, earlier...)
	}
	return nil
}
