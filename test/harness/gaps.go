package harness

import "testing"

// NotAccountedFor returns the events without a record that no gap covers either: the silent losses.
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
