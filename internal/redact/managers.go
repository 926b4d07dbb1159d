package redact

import (
	"sync"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// writers holds the positions of the newest entries of managedFields.
type writers struct {
	at     time.Time // of the current entry
	newest time.Time
	// The last of the newest entries for the object itself or a subresource other than its status, and the last of those
	// for its status. Times have whole seconds, and a controller often follows a change of the spec within the same one.
	entries [2]writer
}

type writer struct {
	at                           time.Time
	name, operation, subresource span
}

// wroteAt adds a time of the current entry. Entries have one, but a text may repeat it.
func (w *writers) wroteAt(at time.Time) {
	if at.After(w.newest) {
		w.newest = at
	}
	if w.at.IsZero() {
		w.at = at
	}
}

// end adds the current entry, which is complete. found holds its parts in the order of their notes.
func (w *writers) end(data []byte, found []span) {
	e := writer{w.at, found[0], found[1], found[2]}
	w.at = time.Time{}
	clear(found)
	which := &w.entries[0]
	if s := e.subresource; s.to-s.from == len(`"status"`) && string(data[s.from:s.to]) == `"status"` {
		which = &w.entries[1]
	}
	if e.name != (span{}) && !e.at.IsZero() && !e.at.Before(which.at) {
		*which = e
	}
}

// last returns the newest entries, at most one of each kind.
func (w *writers) last() (entries []writer) {
	switch first, second := w.entries[0].at, w.entries[1].at; {
	case first.After(second):
		return w.entries[:1]
	case second.After(first):
		return w.entries[1:]
	case first.IsZero():
		return nil
	}
	return w.entries[:]
}

// writer returns a hash of who wrote last and when. While it stays the same, managedFields show no other writer.
func (f *facts) writer(key *sumKey, data []byte) uint16 {
	var sum uint64
	for _, e := range f.writers.last() {
		sum += key.of(data[e.name.from:e.name.to]) ^ uint64(e.at.UnixNano())
	}
	return uint16(sum ^ sum>>16 ^ sum>>32)
}

// managers returns who wrote last. managedFields are not in the JSON, so the names are kept by the plan.
func (w *walk) managers() (managers [2]Manager) {
	for i, e := range w.facts.writers.last() {
		managers[i] = Manager{
			Name:        w.plan.managers.name(w, e.name),
			Operation:   w.plan.managers.name(w, e.operation),
			Subresource: w.plan.managers.name(w, e.subresource),
		}
	}
	return managers
}

// managerTable keeps the names of managers, of which there are few, so that not every object needs its own copy.
type managerTable struct {
	mu    sync.Mutex
	names map[string]string // redacted, by the inside of the string
}

// mostManagers is how many names are kept. A program may use another name each time.
const mostManagers = 1000

func (t *managerTable) name(w *walk, s span) string {
	if s == (span{}) {
		return ""
	}
	inside := w.data[s.from+1 : s.to-1]
	switch string(inside) {
	case "Update":
		return "Update"
	case "Apply":
		return "Apply"
	case "status":
		return "status"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.names[string(inside)]
	if ok {
		return name
	}
	name = jsonscan.Unquote(inside)
	if w.changes([]byte(name)) {
		name = Masked
	}
	if t.names == nil {
		t.names = make(map[string]string)
	}
	if len(t.names) < mostManagers {
		t.names[string(inside)] = name
	}
	return name
}
