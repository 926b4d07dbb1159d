package harness

import (
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
)

// NotAccountedFor are the events that no record tells of, and that no gap names either: what was lost without a word.
func NotAccountedFor(t testing.TB, events []Event, records []Record, resource string) []string {
	t.Helper()
	gaps := OfStream(records, resource, "k8s.watch.gap")
	var outside []Event
	for _, event := range events {
		inside := false
		for _, gap := range gaps {
			from, to := revision(t, gap.text("k8s.gap.from_resource_version")), revision(t, gap.text("k8s.gap.to_resource_version"))
			inside = inside || event.Revision > from && event.Revision <= to
		}
		if !inside {
			outside = append(outside, event)
		}
	}
	return NotEmitted(outside, Objects(records, resource))
}

// DeliveredTwice are the records of objects that came more than once with the same UID, resourceVersion and type, by
// the position of each repetition.
func DeliveredTwice(records []fold.Record) map[int]fold.Record {
	type identity struct{ uid, version, what string }
	seen, again := map[identity]bool{}, map[int]fold.Record{}
	for i, r := range records {
		id := identity{r.UID, r.ResourceVersion, r.Type}
		if seen[id] {
			again[i] = r
		}
		seen[id] = true
	}
	return again
}
