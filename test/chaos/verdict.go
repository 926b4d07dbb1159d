package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// checkpointDelay is how long before a crash a record was stored by the sink at most if its checkpoint was not written:
// checkpoint.interval is 1 s, and the machine may be busy.
const checkpointDelay = 4 * time.Second

// Life is one process of the collector.
type Life struct {
	Number int
	Ended  time.Time
	Killed bool
}

// Evidence is what a verdict on one resource rests on.
type Evidence struct {
	Resource string
	Lives    []Life // by number, from 1 on
	Batches  []*Batch
	Events   []harness.Event // of etcd
	Until    int64           // the revision up to which everything must have been told
	Listed   fold.State      // by the API server
	Before   fold.State      // as listed a moment before, where objects may go by themselves
}

// Verdict is what was found of one resource, or of several together.
type Verdict struct {
	Revisions int // that etcd has seen after the first snapshot
	Earlier   int // up to that, of which only the net state is told
	Records   int
	Gaps      map[string]int // by reason
	InGaps    int            // revisions that were not told and that a gap names

	// What comes again after a crash or an answer that was lost, which at-least-once allows.
	DuplicatesAfterKill int
	DuplicatesOfUnknown int // of a batch that the collector could not know to be stored
	ReorderedAfterKill  int // came after a later version that was told just before a crash
	initialIn           *Batch
	Initial             int // complete initial states that were told

	Unexplained []string
	Lost        []string
	Invented    []string // told of as live, and etcd knows nothing of it
	Disorder    []string
	Differences []string
}

// arrived is a record and what it came with.
type arrived struct {
	record fold.Record
	batch  *Batch
	index  int // of the batch
}

// Judge holds what the sink has stored against what etcd has seen and what the API server holds.
func Judge(e Evidence) Verdict {
	v := Verdict{Gaps: map[string]int{}}
	var (
		told      []fold.Record
		first     int64 // revision of the first snapshot
		gaps      [][2]int64
		seen      = map[identity]arrived{}
		latest    = map[string]arrived{} // by UID
		revisions = map[revisionOf]bool{}
	)
	for index, batch := range e.Batches {
		for _, record := range batch.Records {
			if record.Resource != e.Resource {
				continue
			}
			v.Records++
			if record.Object == nil {
				v.takeStream(e, batch, record, &first, &gaps)
				continue
			}
			now := arrived{record: *record.Object, batch: batch, index: index}
			told = append(told, now.record)
			rv := number(now.record.ResourceVersion)
			revisions[revisionOf{now.record.UID, rv}] = true

			id := identity{now.record.UID, rv, now.record.Type}
			if before, ok := seen[id]; ok {
				v.takeDuplicate(e, before, now)
				seen[id] = now
				continue
			}
			seen[id] = now
			if before, ok := latest[id.uid]; ok && number(before.record.ResourceVersion) > rv {
				v.takeDisorder(e, before, now)
				continue
			}
			latest[id.uid] = now
		}
	}

	happened := map[harness.Event]bool{}
	for _, event := range e.Events {
		key := harness.Event{Revision: event.Revision, Type: event.Type, UID: event.UID}
		happened[key] = true
		switch {
		case event.Revision <= first:
			v.Earlier++
			continue
		case event.Revision > e.Until:
			continue
		case revisions[revisionOf{event.UID, event.Revision}]:
		case slices.ContainsFunc(gaps, func(gap [2]int64) bool { return gap[0] < event.Revision && event.Revision <= gap[1] }):
			v.InGaps++
		default:
			v.Lost = append(v.Lost, fmt.Sprintf("%s %s@%d uid=%s", event.Type, event.Key, event.Revision, event.UID))
		}
		v.Revisions++
	}
	for _, record := range told {
		key := harness.Event{Revision: number(record.ResourceVersion), Type: record.Type, UID: record.UID}
		if record.Origin == "live" && !happened[key] {
			v.Invented = append(v.Invented, record.String())
		}
	}
	v.Differences = harness.DifferencesFromEither(fold.Fold(told), e.Before, e.Listed)
	return v
}

type identity struct {
	uid        string
	rv         int64
	changeType string
}

type revisionOf struct {
	uid string
	rv  int64
}

// number is a resourceVersion as etcd counts; -1 for what is none.
func number(rv string) int64 {
	n, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func (v *Verdict) takeStream(e Evidence, batch *Batch, record harness.Record, first *int64, gaps *[][2]int64) {
	text := func(key string) string {
		s, _ := record.Stream[key].(string)
		return s
	}
	switch record.Event {
	case "k8s.snapshot.end":
		// Again only where the collector was killed before it could keep that it had told it.
		if v.Initial++; v.initialIn != nil && !e.unsettled(v.initialIn, batch) {
			v.Unexplained = append(v.Unexplained, fmt.Sprintf("the initial state came in life %d and again in life %d%s",
				v.initialIn.Life, batch.Life, e.ends(v.initialIn, batch)))
		}
		v.initialIn, *first = batch, number(text("k8s.snapshot.resource_version"))
	case "k8s.watch.gap":
		v.Gaps[text("k8s.gap.reason")]++
		*gaps = append(*gaps, [2]int64{number(text("k8s.gap.from_resource_version")), number(text("k8s.gap.to_resource_version"))})
	}
}

// takeDuplicate counts a record that came again, if that is to be: the collector was killed a moment after the first
// one came, when no checkpoint was written yet, or could not know that the sink had stored its batch.
func (v *Verdict) takeDuplicate(e Evidence, before, again arrived) {
	switch {
	case e.unsettled(before.batch, again.batch):
		v.DuplicatesAfterKill++
	case e.unknown(before, again):
		v.DuplicatesOfUnknown++
	default:
		v.Unexplained = append(v.Unexplained, fmt.Sprintf("%s came at %s in life %d, and %s at %s in life %d%s",
			before.record, before.batch.At.Format(clock), before.batch.Life, again.record, again.batch.At.Format(clock), again.batch.Life, e.ends(before.batch, again.batch)))
	}
}

// takeDisorder counts a record that came after a later version of its object. In one life that must never be. After a
// crash the collector goes on from its checkpoint, and tells again what it had told since then, in the order in which it
// happened; if a snapshot had told of the last of it first, what lies between comes late.
func (v *Verdict) takeDisorder(e Evidence, before, now arrived) {
	if e.unsettled(before.batch, now.batch) {
		v.ReorderedAfterKill++
		return
	}
	v.Disorder = append(v.Disorder, fmt.Sprintf("%s of life %d came at %s after %s of life %d at %s%s", now.record, now.batch.Life,
		now.batch.At.Format(clock), before.record, before.batch.Life, before.batch.At.Format(clock), e.ends(before.batch, now.batch)))
}

const clock = "15:04:05.000"

// unsettled says that the collector was killed between two batches, so soon after the first one that its checkpoint may
// not have been written.
func (e Evidence) unsettled(before, again *Batch) bool {
	for _, life := range e.Lives {
		if life.Number == before.Life {
			return life.Killed && again.Life > before.Life && life.Ended.Sub(before.At) <= checkpointDelay
		}
	}
	return false
}

// unknown says that a record came again because the collector could not know that its batch was stored: nothing else
// of that life was stored before it came again with the whole batch, or nothing at all of that life came after.
func (e Evidence) unknown(before, again arrived) bool {
	if before.batch.Doubt == "" {
		return false
	}
	for _, batch := range e.Batches[before.index+1:] {
		if batch.Life == before.batch.Life {
			return again.batch == batch && repeats(before.batch, again.batch)
		}
	}
	return again.batch.Life > before.batch.Life
}

// repeats says that two batches hold the same records.
func repeats(one, other *Batch) bool {
	return slices.EqualFunc(one.Records, other.Records, func(a, b harness.Record) bool {
		if a.Object == nil || b.Object == nil {
			return a.Object == b.Object && a.Event == b.Event && a.Resource == b.Resource
		}
		return *a.Object == *b.Object
	})
}

// ends says how and when the life of the first batch ended, if the second is of another one.
func (e Evidence) ends(before, again *Batch) string {
	for _, life := range e.Lives {
		if life.Number == before.Life && again.Life != before.Life {
			return fmt.Sprintf("; the first life ended at %s, killed: %t", life.Ended.Format(clock), life.Killed)
		}
	}
	return ""
}

// Findings are what must not be; none if every promise held.
func (v Verdict) Findings() []string {
	var found []string
	add := func(what string, all []string) {
		if len(all) > 0 {
			found = append(found, fmt.Sprintf("%d %s, among them: %q", len(all), what, all[:min(len(all), 5)]))
		}
	}
	add("differences between the fold and the LIST", v.Differences)
	add("revisions were neither told nor lie in a gap", v.Lost)
	add("records came more than once and nothing explains it", v.Unexplained)
	add("records came out of order", v.Disorder)
	add("records tell of what never happened", v.Invented)
	if v.Initial == 0 {
		found = append(found, "no initial state was completed")
	}
	return found
}
