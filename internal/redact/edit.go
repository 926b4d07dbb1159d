package redact

import "strings"

const maskedJSON = `"` + Masked + `"`

// edit puts a text in the place of data[from:to].
type edit struct {
	from, to int
	text     string
}

// edits are in the order of the data and do not overlap.
type edits []edit

func (e *edits) add(from, to int, text string) {
	*e = append(*e, edit{from, to, text})
}

// gap makes data[from:to] into the separator, which it is already wherever the server wrote no white space
// and nothing was dropped: what is left between two parts then is what must be there by the grammar.
func (e *edits) gap(from, to int, separator string) {
	if to-from != len(separator) {
		e.add(from, to, separator)
	}
}

// undo forgets all but the first n edits.
func (e *edits) undo(n int) {
	clear((*e)[n:])
	*e = (*e)[:n]
}

// apply returns data[from:to] with the edits made.
func (e edits) apply(data []byte, from, to int) string {
	var out strings.Builder
	out.Grow(e.offset(to) - from)
	for _, edit := range e {
		out.Write(data[from:edit.from])
		out.WriteString(edit.text)
		from = edit.to
	}
	out.Write(data[from:to])
	return out.String()
}

// offset returns what data[i] is moved to by the edits before it.
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
