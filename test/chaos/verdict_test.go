package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// story is a run of the collector that a test makes up: it was killed at second 10 and started again.
type story struct{ Evidence }

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func second(n float64) time.Time { return midnight.Add(time.Duration(n * float64(time.Second))) }

func newStory() *story {
	s := &story{Evidence{
		Resource: "pods", Until: 8,
		Lives:  []Life{{Number: 1, Ended: second(10), Killed: true}, {Number: 2, Ended: second(100)}},
		Listed: fold.State{"a": "7"},
	}}
	s.Events = []harness.Event{
		{Revision: 2, Type: "ADDED", UID: "a"}, {Revision: 5, Type: "MODIFIED", UID: "a"}, {Revision: 6, Type: "ADDED", UID: "b"},
		{Revision: 7, Type: "MODIFIED", UID: "a"}, {Revision: 8, Type: "DELETED", UID: "b"},
	}
	s.store(1, 1, "", about("SNAPSHOT", "initial", "a", 2), end(3))
	return s
}

func (s *story) store(at float64, life int, doubt string, records ...harness.Record) *story {
	s.Batches = append(s.Batches, &Batch{At: second(at), Life: life, Doubt: doubt, Records: records})
	return s
}

func about(changeType, origin, uid string, rv int) harness.Record {
	return harness.Record{Resource: "pods", Object: &fold.Record{
		UID: uid, Resource: "pods", ResourceVersion: fmt.Sprint(rv), Type: changeType, Origin: origin,
	}}
}

func live(changeType, uid string, rv int) harness.Record { return about(changeType, "live", uid, rv) }

func end(rv int) harness.Record {
	return harness.Record{Event: "k8s.snapshot.end", Resource: "pods", Stream: map[string]any{"k8s.snapshot.resource_version": fmt.Sprint(rv)}}
}

func gap(from, to int) harness.Record {
	return harness.Record{Event: "k8s.watch.gap", Resource: "pods", Stream: map[string]any{
		"k8s.gap.reason": "expired", "k8s.gap.from_resource_version": fmt.Sprint(from), "k8s.gap.to_resource_version": fmt.Sprint(to),
	}}
}

func TestVerdict(t *testing.T) {
	five, six, seven, eight := live("MODIFIED", "a", 5), live("ADDED", "b", 6), live("MODIFIED", "a", 7), live("DELETED", "b", 8)
	for name, c := range map[string]struct {
		story *story
		want  string // findings by kind: lost, unexplained, disorder, invented, differences
		after int    // duplicates after a kill
		doubt int    // duplicates of batches that may not be known to be stored
		gaps  int    // revisions in gaps
		late  int    // told late after a kill
	}{
		"everything once": {story: newStory().store(5, 1, "", five, six).store(12, 2, "", seven, eight), want: "0 0 0 0 0"},
		"a deletion is not told": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", seven), want: "1 0 0 0 1",
		},
		"a change in between is not told": {
			story: newStory().store(5, 1, "", six).store(12, 2, "", seven, eight), want: "1 0 0 0 0",
		},
		"an object that came and went in a gap": {
			story: newStory().store(5, 1, "", five).store(12, 2, "", about("MODIFIED", "recovered", "a", 7), gap(5, 8)), want: "0 0 0 0 0", gaps: 2,
		},
		"a gap that begins too late": {
			story: newStory().store(5, 1, "", five).store(12, 2, "", about("MODIFIED", "recovered", "a", 7), gap(6, 8)), want: "1 0 0 0 0", gaps: 1,
		},
		"a gap that ends too early": {
			story: newStory().store(5, 1, "", five).store(12, 2, "", about("MODIFIED", "recovered", "a", 7), gap(5, 7)), want: "1 0 0 0 0", gaps: 1,
		},
		"again after a kill": {
			story: newStory().store(9, 1, "", five, six).store(12, 2, "", five, six, seven, eight), want: "0 0 0 0 0", after: 2,
		},
		"again after a kill, though a checkpoint was due long before": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", five, six, seven, eight), want: "0 2 0 0 0",
		},
		"again in the same life": {
			story: newStory().store(9, 1, "", five, six).store(9.1, 1, "", five, six).store(12, 2, "", seven, eight), want: "0 2 0 0 0",
		},
		"again because the answer was lost": {
			story: newStory().store(5, 1, "lost", five, six).store(5.1, 1, "", five, six).store(12, 2, "", seven, eight), want: "0 0 0 0 0", doubt: 2,
		},
		"again in parts though the answer was lost": {
			story: newStory().store(5, 1, "lost", five, six).store(5.1, 1, "", five).store(12, 2, "", seven, eight), want: "0 1 0 0 0",
		},
		"again though others were accepted meanwhile": {
			story: newStory().store(5, 1, "lost", five).store(5.1, 1, "", six).store(5.2, 1, "", five).store(12, 2, "", seven, eight), want: "0 1 0 0 0",
		},
		"out of order": {
			story: newStory().store(5, 1, "", six, seven, five).store(12, 2, "", eight), want: "0 0 1 0 1",
		},
		"late after a kill that came upon a snapshot": {
			story: newStory().store(9, 1, "", six, about("MODIFIED", "recovered", "a", 7)).store(12, 2, "", five, live("MODIFIED", "a", 7), eight),
			want:  "0 0 0 0 0", after: 1, late: 1,
		},
		"what never happened": {
			story: newStory().store(5, 1, "", five, six, live("ADDED", "c", 6), live("DELETED", "c", 7)).store(12, 2, "", seven, eight), want: "0 0 0 2 0",
		},
		"the initial state twice": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", seven, eight, end(8)), want: "0 1 0 0 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(c.story.Evidence)
			got := fmt.Sprint(len(v.Lost), len(v.Unexplained), len(v.Disorder), len(v.Invented), len(v.Differences))
			if got != c.want {
				t.Errorf("lost, unexplained, disorder, invented, differences: %s, want %s: %q", got, c.want, v.Findings())
			}
			if got, want := fmt.Sprint(v.DuplicatesAfterKill, v.DuplicatesOfUnknown, v.InGaps, v.ReorderedAfterKill), fmt.Sprint(c.after, c.doubt, c.gaps, c.late); got != want {
				t.Errorf("duplicates after a kill and of unknown batches, revisions in gaps, reordered: %s, want %s", got, want)
			}
		})
	}
}
