package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// story is a made-up run of the Collector, which was killed at second 10 and started again.
type story struct{ Evidence }

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func second(n float64) time.Time { return midnight.Add(time.Duration(n * float64(time.Second))) }

func newStory() *story {
	s := &story{Evidence{
		Resource: "pods", Prefix: "/registry/pods/", Until: 8,
		Lives:  []Life{{Number: 1, Ended: second(10), Killed: true}, {Number: 2, Ended: second(100)}},
		Listed: fold.State{"a": "7"},
		Causes: []Cause{{APIServerKilled, second(10), second(11), 8}},
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

// refuseSet makes the sink refuse the begin or the end of a set.
func (s *story) refuseSet(at float64) *story {
	s.DeniedSets, s.Refused = append(s.DeniedSets, RefusedSet{At: second(at)}), s.Refused+1
	s.Causes = append(s.Causes, Cause{SinkDenies, second(at), second(at), 3})
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

func dropped(from, to int) harness.Record { return because("dropped", gap(from, to)) }

func reset(from, to int) harness.Record { return because("history_reset", gap(from, to)) }

func because(reason string, gap harness.Record) harness.Record {
	gap.Stream["k8s.gap.reason"] = reason
	return gap
}

// because replaces the default cause of gaps, a restart of the API server.
func (s *story) because(causes ...Cause) *story {
	s.Causes = causes
	return s
}

// deny adds a version of an object that the sink permanently refused.
func (s *story) deny(uid string, rv int64) *story {
	s.Denied, s.Refused = map[denial]bool{{"pods", revisionOf{uid, rv}}: true}, 1
	return s
}

// denyGap adds a gap record that the sink permanently refused.
func (s *story) denyGap(gap harness.Record) *story {
	s.DeniedGaps, s.Refused = []Gap{newGap(gap, second(11))}, 1
	return s
}

// restore adds that etcd was set back, with another state at the end.
func (s *story) restore(r Restore, listed fold.State) *story {
	s.Restores, s.Listed = []Restore{r}, listed
	return s.because(Cause{EtcdRestored, r.At, r.At, 1000 + r.To})
}

// killed makes the second life end by a kill.
func (s *story) killed() *story {
	s.Lives[1].Killed = true
	return s
}

// full makes the disk full from one second on, in the second life, until a checkpoint is written again at another
// second, if that is not 0.
func (s *story) full(from, to float64) *story {
	s.Lives[1].Unwritten = second(from)
	if to > 0 {
		s.Lives[1].Written = second(to)
	}
	s.Lives = append(s.Lives, Life{Number: 3, Ended: second(200)})
	return s
}

func TestVerdict(t *testing.T) {
	five, six, seven, eight := live("MODIFIED", "a", 5), live("ADDED", "b", 6), live("MODIFIED", "a", 7), live("DELETED", "b", 8)
	for name, c := range map[string]struct {
		story *story
		want  string // findings by kind: lost, unexplained, disorder, invented, differences
		false int    // gaps without an explanation
		again int    // repeated because etcd was set back
		after int    // duplicates after a kill
		doubt int    // duplicates of batches that may not be known to be stored
		gaps  int    // revisions in gaps
		late  int    // late after a kill
	}{
		"everything once": {story: newStory().store(5, 1, "", five, six).store(12, 2, "", seven, eight), want: "0 0 0 0 0"},
		"a deletion is missing": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", seven), want: "1 0 0 0 1",
		},
		"a change in between is missing": {
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
		"again after a kill, although a checkpoint was due long before": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", five, six, seven, eight), want: "0 2 0 0 0",
		},
		"again in the same life": {
			story: newStory().store(9, 1, "", five, six).store(9.1, 1, "", five, six).store(12, 2, "", seven, eight), want: "0 2 0 0 0",
		},
		"again because the answer was lost": {
			story: newStory().store(5, 1, "lost", five, six).store(5.1, 1, "", five, six).store(12, 2, "", seven, eight), want: "0 0 0 0 0", doubt: 2,
		},
		"again in parts although the answer was lost": {
			story: newStory().store(5, 1, "lost", five, six).store(5.1, 1, "", five).store(12, 2, "", seven, eight), want: "0 1 0 0 0",
		},
		"again although others were accepted in the meantime": {
			story: newStory().store(5, 1, "lost", five).store(5.1, 1, "", six).store(5.2, 1, "", five).store(12, 2, "", seven, eight), want: "0 1 0 0 0",
		},
		"out of order": {
			story: newStory().store(5, 1, "", six, seven, five).store(12, 2, "", eight), want: "0 0 1 0 1",
		},
		"late after a kill that came upon a snapshot": {
			story: newStory().store(9, 1, "", six, about("MODIFIED", "recovered", "a", 7)).store(12, 2, "", five, live("MODIFIED", "a", 7), eight),
			want:  "0 0 0 0 0", after: 1, late: 1,
		},
		"a gap without a cause": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", gap(6, 8), seven, eight).because(), want: "0 0 0 0 0", false: 1,
		},
		"a gap whose cause came later": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", gap(6, 8), seven, eight).because(Cause{APIServerKilled, second(20), second(21), 9}),
			want:  "0 0 0 0 0", false: 1,
		},
		"a gap of changes after its cause": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", gap(6, 8), seven, eight).because(Cause{APIServerKilled, second(2), second(3), 5}),
			want:  "0 0 0 0 0", false: 1,
		},
		"a compaction, which does not affect the watch cache": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", gap(6, 8), seven, eight).because(Cause{Compacted, second(10), second(11), 8}),
			want:  "0 0 0 0 0", false: 1,
		},
		"refused permanently, and a gap reports it": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", seven, dropped(7, 8)).
				deny("b", 8).because(Cause{SinkDenies, second(10), second(12), 8}),
			want: "0 0 0 0 1", gaps: 1,
		},
		"refused permanently, and no gap reports it": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", seven).deny("b", 8), want: "1 0 0 0 1",
		},
		"a gap record was refused permanently, and another gap reports it": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", dropped(6, 8)).
				denyGap(gap(6, 8)).because(Cause{SinkDenies, second(10), second(12), 8}),
			want: "0 0 0 0 2", gaps: 2,
		},
		"added while the disk was full, and gone with the history after a crash": {
			story: newStory().store(5, 1, "", five).killed().full(10, 0).store(12, 2, "", six).store(100, 3, "", seven, gap(6, 8)), want: "0 0 0 0 0", gaps: 1,
		},
		"added before the disk was full, and gone with the history after a crash": {
			story: newStory().store(5, 1, "", five).killed().full(10, 0).store(6, 2, "", six).store(100, 3, "", seven, gap(6, 8)), want: "0 0 0 0 1", gaps: 1,
		},
		"added while the disk was full, and gone with the history after a clean end": {
			story: newStory().store(5, 1, "", five).full(10, 0).store(12, 2, "", six).store(100, 3, "", seven, gap(6, 8)), want: "0 0 0 0 1", gaps: 1,
		},
		"something else is missing in a gap of what was refused": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", dropped(6, 8)).
				deny("b", 8).because(Cause{PoisonRecord, second(10), second(12), 8}),
			want: "1 0 0 0 2", gaps: 1,
		},
		"etcd was set back": {
			story: newStory().store(5, 1, "", five, six).store(9, 1, "", seven, eight).
				restore(Restore{At: second(20), To: 6, Undone: 8}, fold.State{"a": "5", "b": "6"}).
				store(21, 2, "", about("MODIFIED", "recovered", "a", 5), about("ADDED", "recovered", "b", 6), reset(8, 1006)),
			want: "0 0 0 0 0", again: 2,
		},
		"etcd was set back, and what was undone is not reported": {
			story: newStory().store(5, 1, "", five, six).store(9, 1, "", seven, eight).
				restore(Restore{At: second(20), To: 6, Undone: 8}, fold.State{"a": "5", "b": "6"}).
				store(21, 2, "", about("MODIFIED", "recovered", "a", 5)),
			want: "0 0 0 0 1", again: 1,
		},
		"again, and etcd was set back to a later version": {
			story: newStory().store(5, 1, "", five, six, seven, eight).
				restore(Restore{At: second(20), To: 7, Undone: 8}, fold.State{"a": "7", "b": "6"}).
				store(21, 2, "", about("MODIFIED", "recovered", "a", 7), about("ADDED", "recovered", "b", 6)),
			want: "0 1 0 0 0", again: 1,
		},
		"again after a normal stop while the disk was full": {
			story: newStory().full(15, 0).store(20, 2, "", five, six, seven, eight).store(101, 3, "", five, six, seven, eight),
			want:  "0 0 0 0 0", after: 4,
		},
		"again although the disk had space before the stop": {
			story: newStory().full(15, 40).store(20, 2, "", five, six, seven, eight).store(101, 3, "", five, six, seven, eight),
			want:  "0 4 0 0 0",
		},
		"what never happened": {
			story: newStory().store(5, 1, "", five, six, live("ADDED", "c", 6), live("DELETED", "c", 7)).store(12, 2, "", seven, eight), want: "0 0 0 2 0",
		},
		"the initial state twice": {
			story: newStory().store(5, 1, "", five, six).store(12, 2, "", seven, eight, end(8)), want: "0 1 0 0 0",
		},
		"the initial state twice, since the sink refused its begin": {
			story: newStory().refuseSet(4).store(5, 1, "", five, six).store(9, 1, "", about("SNAPSHOT", "relist", "a", 2), end(6)).store(12, 2, "", seven, eight),
			want:  "0 0 0 0 0",
		},
		"the initial state twice before the sink refused its begin": {
			story: newStory().refuseSet(11).store(5, 1, "", five, six).store(9, 1, "", about("SNAPSHOT", "relist", "a", 2), end(6)).store(12, 2, "", seven, eight),
			want:  "0 2 0 0 0",
		},
		"a set is sent again after a restart": {
			story: newStory().refuseSet(4).store(5, 1, "", five).store(12, 2, "", about("SNAPSHOT", "initial", "a", 7), because("set_refused", gap(5, 8)), end(8)),
			want:  "0 0 0 0 0", gaps: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(c.story.Evidence)
			got := fmt.Sprint(len(v.Lost), len(v.Unexplained), len(v.Disorder), len(v.Invented), len(v.Differences))
			if got != c.want {
				t.Errorf("lost, unexplained, disorder, invented, differences: %s, want %s: %q", got, c.want, v.Findings())
			}
			if got, want := fmt.Sprint(len(v.FalseGaps), v.AfterRestore), fmt.Sprint(c.false, c.again); got != want {
				t.Errorf("false gaps, after a restore: %s, want %s: %q", got, want, v.FalseGaps)
			}
			if got, want := fmt.Sprint(v.DuplicatesAfterKill, v.DuplicatesOfUnknown, v.InGaps, v.ReorderedAfterKill), fmt.Sprint(c.after, c.doubt, c.gaps, c.late); got != want {
				t.Errorf("duplicates after a kill and of unknown batches, revisions in gaps, reordered: %s, want %s", got, want)
			}
		})
	}
}

// The API server replaces the watch cache of an edited CRD later than it answers the edit.
func TestGapAfterAnEditOfADefinition(t *testing.T) {
	edit := Cause{DefinitionEdit, second(10), second(10.1), 5}
	e := Evidence{Resource: gadgets.GroupResource().String(), Causes: []Cause{edit}}
	for name, c := range map[string]struct {
		gap  Gap
		want Kind
	}{
		"from before the edit":         {gap: Gap{From: 4, FromTime: second(9), To: 9, ToTime: second(12)}, want: DefinitionEdit},
		"from a moment after the edit": {gap: Gap{From: 7, FromTime: second(11), To: 9, ToTime: second(12)}, want: DefinitionEdit},
		"from long after the edit":     {gap: Gap{From: 7, FromTime: second(26), To: 9, ToTime: second(27)}},
		"at an unknown time":           {gap: Gap{From: 7, To: 9, ToTime: second(12)}},
	} {
		t.Run(name, func(t *testing.T) {
			c.gap.Reason, c.gap.At = "expired", c.gap.ToTime
			if got := e.justified(c.gap); got != c.want {
				t.Errorf("justified by %q, want %q", got, c.want)
			}
		})
	}
}
