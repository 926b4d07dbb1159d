package redact

import (
	"fmt"
	"sync"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// Decode reads the JSON object at the start of data, and returns what may be seen of it and how many bytes it
// took. What may not be seen is never copied out of data. The error tells where data is malformed and never
// what stands there; it wraps [io.ErrUnexpectedEOF] where data ends inside the object.
func (p *Plan) Decode(data []byte) (obj Object, n int, err error) {
	w := walks.Get().(*walk)
	defer w.release()
	w.plan, w.data = p, data
	if obj, n, err = w.decode(); err != nil {
		return Object{}, 0, fmt.Errorf("cannot decode object: %w", err)
	}
	return obj, n, nil
}

func (w *walk) decode() (obj Object, n int, err error) {
	start := jsonscan.Space(w.data, 0)
	if start >= len(w.data) || w.data[start] != '{' {
		return obj, 0, jsonscan.Unexpected(w.data, start)
	}
	end, err := w.object(start, w.plan.root, 0)
	if err != nil {
		return obj, 0, err
	}
	w.conceal()
	obj.JSON = w.edits.apply(w.data, start, end)
	w.tell(&obj, start)
	return obj, end, nil
}

var walks = sync.Pool{New: func() any { return &walk{} }}

// maxEditsKept bounds what an unusual object leaves behind in the pool.
const maxEditsKept = 1 << 10

func (w *walk) release() {
	w.plan, w.data = nil, nil
	w.facts = facts{}
	if cap(w.edits) > maxEditsKept {
		w.edits = nil
	}
	w.edits.undo(0)
	w.undecided, w.secret = w.undecided[:0], w.secret[:0]
	walks.Put(w)
}
