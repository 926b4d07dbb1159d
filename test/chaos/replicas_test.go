package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

const log = "2026-01-01T00:00:02.000Z\tinfo\treplica.go:1\tthis replica leads\t{\"term\": 1, \"took\": \"500ms\"}\n" +
	"2026-01-01T00:00:20.000Z\twarn\treplica.go:1\tthis replica no longer leads\t{\"term\": 1}\n" +
	"2026-01-01T00:00:40.000Z\tinfo\treplica.go:1\tthis replica leads\t{\"term\": 3, \"took\": 0.25}\n"

func TestTurnsInALog(t *testing.T) {
	want := []turn{
		{term: 1, life: 7, begun: second(1.5), logged: second(2), lost: second(20)},
		{term: 3, life: 7, begun: second(39.75), logged: second(40)},
	}
	got := turnsOf(7, log)
	if len(got) != len(want) {
		t.Fatalf("turns: %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("turn %v, want %v", got[i], want[i])
		}
	}
}

func TestEndOfATerm(t *testing.T) {
	stopped, killed := Life{Number: 1, Ended: second(50)}, Life{Number: 1, Ended: second(50), Killed: true}
	lost := turn{term: 2, life: 1, begun: second(1), logged: second(1), lost: second(20)}
	kept := turn{term: 2, life: 1, begun: second(1), logged: second(1)}
	for name, c := range map[string]struct {
		process    Life
		of         turn
		isolations []isolation
		caused     []Cause
		want       Life
	}{
		"an orderly stop": {process: stopped, of: kept, want: Life{Number: 2, Ended: second(50)}},
		"a kill":          {process: killed, of: kept, want: Life{Number: 2, Ended: second(50), Killed: true}},
		"a pause": {
			process: stopped, of: lost, isolations: []isolation{{life: 1, from: second(8), to: second(20), paused: true}},
			want: Life{Number: 2, Ended: second(8), Killed: true},
		},
		"a pause of another one": {
			process: killed, of: kept, isolations: []isolation{{life: 2, from: second(45), paused: true}},
			want: Life{Number: 2, Ended: second(50), Killed: true},
		},
		"a pause long ago": {
			process: killed, of: kept, isolations: []isolation{{life: 1, from: second(8), to: second(20), paused: true}},
			want: Life{Number: 2, Ended: second(50), Killed: true},
		},
		"a kill while the API server is down": {
			process: killed, of: kept, caused: []Cause{{APIServerKilled, second(47), second(60), 1}},
			want: Life{Number: 2, Ended: second(47), Killed: true},
		},
		"lost without a fault": {process: stopped, of: lost, want: Life{Number: 2, Ended: second(14), Killed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{lives: []Life{c.process}, isolations: c.isolations, caused: c.caused, result: &Result{Done: map[string]int{}}}
			if got := r.lifeOf(c.of); got != c.want {
				t.Errorf("the term ended %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestBatchAfterALaterTerm(t *testing.T) {
	turns := []turn{{term: 1, life: 1, begun: second(1), logged: second(1)}, {term: 2, life: 2, begun: second(20), logged: second(21)}}
	pauses := []isolation{{life: 1, from: second(10), to: second(30), paused: true}}
	for name, c := range map[string]struct {
		begun []float64
		life  int
		want  int
	}{
		"before it":              {begun: []float64{9, 20.5}, life: 1},
		"of the later term":      {begun: []float64{22, 31}, life: 2},
		"one after a pause":      {begun: []float64{30.5}, life: 1},
		"two after a pause":      {begun: []float64{30.5, 30.6}, life: 1, want: 1},
		"one long after a pause": {begun: []float64{33}, life: 1, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var batches []*Batch
			for _, at := range c.begun {
				batches = append(batches, &Batch{Begun: second(at), At: second(at), Life: c.life})
			}
			if found, _ := begunLate(turns, batches, pauses); len(found) != c.want {
				t.Errorf("found %q, want %d", found, c.want)
			}
		})
	}
}

func TestConsumerOfReplicas(t *testing.T) {
	begin := harness.Record{Event: "k8s.snapshot.begin", Resource: "pods"}
	for name, c := range map[string]struct {
		records []harness.Record
		want    string // version of a; "": it is gone
	}{
		"an older version arrives late": {records: []harness.Record{live("MODIFIED", "a", 9), live("MODIFIED", "a", 7)}, want: "9"},
		"a change after the deletion":   {records: []harness.Record{live("DELETED", "a", 9), live("MODIFIED", "a", 7)}},
		"not in a later set":            {records: []harness.Record{live("ADDED", "a", 3), begin, about("SNAPSHOT", "initial", "b", 2), end(9)}},
		"in a later set":                {records: []harness.Record{live("ADDED", "a", 3), begin, about("SNAPSHOT", "initial", "a", 3), end(9)}, want: "3"},
		"a set that is not complete":    {records: []harness.Record{live("ADDED", "a", 3), begin, about("SNAPSHOT", "initial", "b", 2)}, want: "3"},
	} {
		t.Run(name, func(t *testing.T) {
			built := newConsumer(true)
			for _, record := range c.records {
				built.add(1, record)
			}
			if got := built.state["a"]; got != c.want {
				t.Errorf("the object is at %q, want %q", got, c.want)
			}
		})
	}
}

// publish adds what a term has published last. The position is a version, with "+" if that is closed.
func (s *story) publish(term int, position string, owed ...string) *story {
	w, closed := strings.CutSuffix(position, "+")
	at := harness.Point{W: w, Closed: closed}
	for _, uid := range owed {
		at.Owed = append(at.Owed, harness.OwedObject{UID: uid})
	}
	s.Published = append(s.Published, harness.Publication{Term: term, Readers: map[string]harness.Point{"": at}})
	return s
}

// at adds objects of which the last position covers its own version.
func (s *story) at(uids ...string) *story {
	last := s.Published[len(s.Published)-1].Readers
	at := last[""]
	at.At = uids
	last[""] = at
	return s
}

func TestVerdictOnReplicas(t *testing.T) {
	five, six, seven, eight := live("MODIFIED", "a", 5), live("ADDED", "b", 6), live("MODIFIED", "a", 7), live("DELETED", "b", 8)
	inferred := func(uid string, rv int) harness.Record {
		r := about("DELETED", "recovered", uid, rv)
		r.Object.Inferred = true
		return r
	}
	stopped := func(s *story) *story { s.Lives[0].Killed = false; return s }
	late := func(s *story) *story { s.Batches[len(s.Batches)-1].Late = true; return s }
	incomplete := func(s *story) *story { s.Batches[0].Records = s.Batches[0].Records[:1]; return s }
	again := about("SNAPSHOT", "initial", "a", 2)
	restated := []harness.Record{again, because(reasonTakeover, gap(3, 4)), end(4), five, six, seven, eight}
	for name, c := range map[string]struct {
		story       *story
		unexplained int
		disorder    int
		after       int // repeated or out of order after a kill
		deleted     int // again
		late        int
		restated    int
		false       int
		retreats    int
	}{
		"not covered, and repeated after a kill": {
			story: newStory().publish(1, "3+").publish(2, "3+").store(9, 1, "", five, six).store(12, 2, "", five, six, seven, eight), after: 2,
		},
		"not covered, and repeated after an orderly stop": {
			story: stopped(newStory()).publish(1, "3+").store(9, 1, "", five, six).store(12, 2, "", five, six, seven, eight), unexplained: 2,
		},
		"covered, and repeated soon after the first time": {
			story: newStory().publish(1, "5+").store(9.9, 1, "", five, six).store(12, 2, "", five, six, seven, eight), unexplained: 1, after: 1,
		},
		"covered up to its own version": {
			story: newStory().publish(1, "6").store(9.9, 1, "", five, six).store(12, 2, "", six, seven, eight), after: 1,
		},
		"covered at its own version": {
			story: newStory().publish(1, "6").at("b").store(9.9, 1, "", five, six).store(12, 2, "", six, seven, eight), unexplained: 1,
		},
		"covered by the position of a term in between": {
			story: func() *story {
				s := newStory().publish(1, "3+").publish(2, "6+").store(9, 1, "", five, six).store(12, 2, "", seven).store(22, 3, "", six, eight)
				s.Lives = []Life{{Number: 1, Ended: second(10), Killed: true}, {Number: 2, Ended: second(20), Killed: true}, {Number: 3, Ended: second(100)}}
				return s
			}(), unexplained: 1,
		},
		"what a later term publishes does not matter": {
			story: newStory().publish(1, "3+").publish(2, "8+").store(9, 1, "", five, six).store(12, 2, "", five, six, seven, eight), after: 2,
		},
		"not covered, since nothing was published for too long": {
			story: func() *story {
				s := newStory().publish(1, "3+").store(5, 1, "", five, six).store(32, 2, "", five, six, seven, eight)
				s.Lives[0].Ended = second(30)
				return s
			}(), unexplained: 2,
		},
		"covered, but owed": {
			story: newStory().publish(1, "6+", "b").store(9, 1, "", five, six).store(12, 2, "", six, seven, eight), after: 1,
		},
		"again in the same term": {
			story: newStory().publish(1, "3+").store(9, 1, "", five, six).store(9.5, 1, "", five).store(12, 2, "", seven, eight), unexplained: 1,
		},
		"found as new after a takeover, although it was emitted as changed": {
			story: newStory().publish(1, "5+").store(9, 1, "", five, six).store(12, 2, "", about("ADDED", "recovered", "a", 5), seven, eight), unexplained: 1,
		},
		"versions before a snapshot of a term that was killed": {
			story: newStory().publish(1, "3+").store(9, 1, "", about("MODIFIED", "recovered", "a", 7)).store(12, 2, "", five, six, seven, eight), after: 2,
		},
		"versions that are covered, after a later one": {
			story: newStory().publish(1, "6+").store(9, 1, "", six, about("MODIFIED", "recovered", "a", 7)).store(12, 2, "", five, seven, eight), disorder: 1, after: 1,
		},
		"a deletion is not covered, and inferred after a kill": {
			story: newStory().publish(1, "7+").store(9, 1, "", five, six, seven, eight).store(12, 2, "", inferred("b", 9)), deleted: 1,
		},
		"a deletion is covered, and inferred after a kill": {
			story: newStory().publish(1, "8+").store(9, 1, "", five, six, seven, eight).store(12, 2, "", inferred("b", 9)), unexplained: 1,
		},
		"inferred by a relist just before a kill, and again": {
			story: newStory().publish(1, "9+").store(9, 1, "", five, six, seven, eight, inferred("c", 8)).store(12, 2, "", inferred("c", 10)), deleted: 1,
		},
		"inferred by a relist long before a kill, and again": {
			story: newStory().publish(1, "9+").store(5, 1, "", five, six, seven, eight, inferred("c", 8)).store(12, 2, "", inferred("c", 10)), unexplained: 1,
		},
		"inferred twice in a term": {
			story: newStory().publish(1, "3+").store(9, 1, "", five, six, seven, eight, inferred("b", 9)).store(12, 2, "", seven), unexplained: 1, after: 1,
		},
		"stored late": {
			story: late(newStory().publish(1, "3+").store(9, 1, "", five).store(12, 2, "", six, seven, eight).store(13, 1, "", five)), late: 1,
		},
		"the initial state again": {
			story:    newStory().publish(1, "6+").store(5, 1, "", five, six).store(12, 2, "", again, because(reasonTakeover, gap(2, 8)), end(8), seven, eight),
			restated: 1,
		},
		"the initial state again without a gap": {
			story: newStory().publish(1, "6+").store(5, 1, "", five, six).store(12, 2, "", again, end(8), seven, eight), unexplained: 2,
		},
		"the initial state again before its end was published": {
			story:    incomplete(newStory()).because().store(9, 1, "", end(3)).store(12, 2, "", restated...),
			restated: 1,
		},
		"the initial state again although its end is published": {
			story:    incomplete(newStory()).because().publish(1, "3+").store(9, 1, "", end(3)).store(12, 2, "", restated...),
			restated: 1, false: 1,
		},
		"the initial state again although its end was due": {
			story:    incomplete(newStory()).because().store(4, 1, "", end(3)).store(12, 2, "", restated...),
			restated: 1, false: 1,
		},
		"the initial state again since it had no end": {
			story: incomplete(newStory()).store(12, 2, "", again, end(3), five, six, seven, eight), after: 1,
		},
		"the end of the initial state twice in a term": {
			story: newStory().store(5, 1, "", end(3)).store(9, 1, "", five, six).store(12, 2, "", seven, eight), unexplained: 1,
		},
		"a position goes back": {
			story: newStory().publish(1, "6").publish(2, "5+").store(9, 1, "", five, six).store(12, 2, "", seven, eight), retreats: 1,
		},
		"a position is gone": {
			story: newStory().publish(1, "6").publish(2, "").store(9, 1, "", five, six).store(12, 2, "", seven, eight), retreats: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.story.Replicas = true
			v := Judge(c.story.Evidence)
			got := fmt.Sprint(len(v.Unexplained), len(v.Disorder), v.DuplicatesAfterKill+v.ReorderedAfterKill, v.DeletedAgain, v.Late, v.Restated, len(v.FalseGaps), len(v.Retreats))
			if want := fmt.Sprint(c.unexplained, c.disorder, c.after, c.deleted, c.late, c.restated, c.false, c.retreats); got != want {
				t.Errorf("unexplained, disorder, after a kill, deleted again, late, restated, false gaps, retreats: %s, want %s: %q", got, want, v.Findings())
			}
			if len(v.Lost)+len(v.Differences) > 0 {
				t.Errorf("findings: %q", v.Findings())
			}
		})
	}
}

// If nobody could lead for long, the history is gone that begins at the last published position.
func TestGapAfterAnOldPosition(t *testing.T) {
	gap := Gap{Reason: reasonTakeover, From: 4, To: 9, ToTime: second(100), At: second(101)}
	cut := Cause{LeaderCutOff, second(30), second(60), 7}
	for name, c := range map[string]struct {
		published float64
		causes    []Cause
		want      Kind
	}{
		"of 75 seconds ago":                 {published: 25, causes: []Cause{cut}, want: LeaderCutOff},
		"of 75 seconds ago without a fault": {published: 25},
		"of less than 75 seconds ago":       {published: 40, causes: []Cause{cut}},
	} {
		t.Run(name, func(t *testing.T) {
			published := func(at float64, w string) harness.Publication {
				return harness.Publication{Term: 1, At: second(at), Readers: map[string]harness.Point{"": {W: w, Closed: true}}}
			}
			e := Evidence{Resource: "pods", Causes: c.causes, Published: []harness.Publication{published(1, "3"), published(c.published, "4"), published(99, "4")}}
			if got := e.justified(gap); got != c.want {
				t.Errorf("justified by %q, want %q", got, c.want)
			}
		})
	}
}

func TestReplicasHaveTheirFaultsEarly(t *testing.T) {
	_, faults := Draw(1, 100*time.Second, 3)
	met := map[Kind]bool{}
	for _, f := range faults {
		met[f.Kind] = true
	}
	for _, kind := range []Kind{LeaderKilled, LeaderPaused, LeaderCutOff, RolledOut, AllKilled} {
		if !met[kind] {
			t.Errorf("no %s", kind)
		}
	}
	if met[EtcdRestored] {
		t.Error("an etcd that is set back is not covered")
	}
}

// If the sink has refused the records of more objects than a position can name, the next leader emits everything again.
func TestGapAfterManyRefusals(t *testing.T) {
	denied := Cause{SinkDenies, second(5), second(8), 3}
	for name, c := range map[string]struct {
		anew   bool
		causes []Cause
		want   int
	}{
		"published":                      {anew: true, causes: []Cause{denied}},
		"published without such a fault": {anew: true, want: 1},
		"a position that names all owed": {causes: []Cause{denied}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := Evidence{
				Resource: "pods", Replicas: true, Refused: 20, Causes: c.causes,
				Published: []harness.Publication{{Term: 1, Readers: map[string]harness.Point{"": {W: "4", Closed: true, Anew: c.anew}}}},
			}
			v := Verdict{Gaps: map[string]int{}}
			v.takeGap(e, &Batch{Life: 2}, Gap{Reason: reasonTakeover, From: 4, To: 9, FromTime: second(9), ToTime: second(10), At: second(11)})
			if len(v.FalseGaps) != c.want {
				t.Errorf("false gaps: %q, want %d", v.FalseGaps, c.want)
			}
		})
	}
}
