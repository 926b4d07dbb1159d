package chaos

import (
	"slices"
	"strconv"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// history judges which modifications need no record, because they change nothing of substance.
type history struct {
	contents  harness.Contents
	restores  []Restore
	emitted   map[string][]int64       // revisions with a record, by UID, in order
	accounted map[string]harness.Event // the last event of an object, by UID, if it has a record or needs none
}

func newHistory(e Evidence, records []fold.Record) *history {
	h := &history{
		contents: harness.ContentsOf(e.Events), restores: e.Restores,
		emitted: map[string][]int64{}, accounted: map[string]harness.Event{},
	}
	for _, record := range records {
		if record.Type != "DELETED" {
			h.emitted[record.UID] = append(h.emitted[record.UID], number(record.ResourceVersion))
		}
	}
	for _, revisions := range h.emitted {
		slices.Sort(revisions)
	}
	return h
}

// account notes an event that has a record, is covered by a gap or needs none.
func (h *history) account(event harness.Event) { h.accounted[event.UID] = event }

// changesNothing reports whether an object has, after an event, the content that its last record has, or the content of
// the event before it, if that is accounted for. It has to be called with all events in order.
func (h *history) changesNothing(event harness.Event) bool {
	before, isAccounted := h.accounted[event.UID]
	delete(h.accounted, event.UID)
	if event.Type != "MODIFIED" {
		return false
	}
	if isAccounted && before.Content == event.Content && event.Content != "" {
		return true
	}
	if h.equalsRecord(event, event.Revision) {
		return true
	}
	return slices.ContainsFunc(h.restores, func(r Restore) bool {
		return r.To < event.Revision && h.equalsRecord(event, r.To+1) // what was emitted in between may be undone
	})
}

// equalsRecord reports whether the last record of the object before a revision has the content of the event.
func (h *history) equalsRecord(event harness.Event, before int64) bool {
	revisions := h.emitted[event.UID]
	at, _ := slices.BinarySearch(revisions, before)
	return at > 0 && h.contents.Same(event.UID, strconv.FormatInt(revisions[at-1], 10), strconv.FormatInt(event.Revision, 10))
}
