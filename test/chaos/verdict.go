package chaos

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// checkpointDelay is the maximum time between the storage of a record by the sink and a crash if its checkpoint was not
// written: checkpoint.interval is 1 s, but the machine may be busy.
const checkpointDelay = 4 * time.Second

// publishedWithin is how long it may take, on a busy machine, until the published position covers a live record that the sink has
// stored. The position alone would permit every repetition if it were never published. It is due after one second.
const publishedWithin = 15 * time.Second

// Life is one process of the Collector.
type Life struct {
	Number int
	Ended  time.Time
	Killed bool

	// If set, the disk was full from Unwritten on, and a checkpoint was written again at Written.
	Unwritten, Written time.Time
}

// Restore describes that etcd was set back to an earlier revision.
type Restore struct {
	At     time.Time
	To     int64 // the revision that was restored
	Undone int64 // the last undone revision
}

// Evidence is the basis of the verdict on one resource.
type Evidence struct {
	Resource string
	Prefix   string // of its keys in etcd
	Lives    []Life // by number, from 1
	Batches  []*Batch
	Replicas bool            // the records come from several replicas, and a life is a term in which one of them led
	Events   []harness.Event // of etcd
	Until    int64           // the revision up to which everything must have been emitted
	Listed   fold.State      // by the API server
	Before   fold.State      // as listed just before, since objects may expire by themselves

	Published []harness.Publication // of several replicas, in order, by namespace

	Causes   []Cause     // the faults
	Restores []Restore   // of etcd
	Rescoped []time.Time // when other namespaces were configured

	Denied     map[denial]bool // permanently, by the sink
	DeniedGaps []Gap           // of the resource, likewise
	DeniedSets []RefusedSet    // of the resource, of which the begin or the end was denied
	Refused    int             // number of the resource's records that the sink permanently refused
}

// Verdict is the result for one resource, or for several together.
type Verdict struct {
	Revisions int // in etcd after the first snapshot
	Earlier   int // up to the first snapshot, of which only the net state is emitted
	Records   int
	Gaps      map[string]int // by reason, and by what explains it
	InGaps    int            // revisions that were not emitted but are covered by a gap
	Denied    int            // those of them that the sink permanently refused

	Suppressed int // revisions that were not emitted because they changed nothing of substance

	// Repetitions after a crash or a lost answer, which at-least-once delivery allows.
	DuplicatesAfterKill int
	DuplicatesOfUnknown int // of a batch that the Collector could not know to be stored
	DeletedAgain        int // inferred deletions of objects whose deletion had been emitted just before a crash
	ReorderedAfterKill  int // after a later version that was emitted just before a crash
	AfterRestore        int // repeated, or after a later version, because etcd was set back
	Initial             int // complete initial states
	Late                int // records of batches that were stored after a later term had begun
	Restated            int // repeated because the initial state was emitted again after a takeover, or its set was refused

	Unstored int // objects that the Collector cannot know, see unstored

	Unexplained []string
	FalseGaps   []string // without an explanation in the schedule
	Lost        []string
	Invented    []string // emitted as live, but unknown to etcd
	Disorder    []string
	Retreats    []string // published positions that went back
	Differences []string

	// OldestRepeat is how long before the end of its term a record was stored that was repeated because no position covers it.
	OldestRepeat time.Duration
}

// arrived is a record with its batch.
type arrived struct {
	record fold.Record
	batch  *Batch
	index  int // in the batch
}

// set is a complete initial state.
type set struct {
	revision int64
	batch    *Batch
}

// Judge compares what the sink has stored with etcd's events and what the API server holds.
func Judge(e Evidence) Verdict {
	v := Verdict{Gaps: map[string]int{}}
	var (
		emitted   []fold.Record
		sets      = map[string]set{} // by namespace; "" means all
		gaps      []Gap
		seen      = map[identity]arrived{}
		latest    = map[string]arrived{} // by UID
		revisions = map[revisionOf]bool{}
		deletions = map[string]arrived{} // by UID
		built     = newConsumer(e.Replicas)
	)
	v.Retreats = e.retreats()
	for index, batch := range e.Batches {
		for _, record := range batch.Records {
			if record.Resource != e.Resource {
				continue
			}
			v.Records++
			built.add(batch.Life, record)
			switch record.Event {
			case "k8s.snapshot.end":
				v.takeEnd(e, batch, record, sets)
			case gapEvent:
				gap := newGap(record, batch.At)
				gaps = append(gaps, gap)
				v.takeGap(e, batch, gap)
			}
			if record.Object == nil {
				continue
			}
			now := arrived{record: *record.Object, batch: batch, index: index}
			emitted = append(emitted, now.record)
			rv := number(now.record.ResourceVersion)
			revisions[revisionOf{now.record.UID, rv}] = true

			id := identity{now.record.UID, rv, now.record.Type}
			if e.Replicas && id.changeType == "MODIFIED" {
				id.changeType = "ADDED" // what one leader finds as changed, another one may emit as new
			}
			before, again := seen[id]
			last, known := latest[id.uid]
			if batch.Late {
				v.Late++
				if !again {
					seen[id] = now
				}
				continue
			}
			seen[id] = now
			if deleted, ok := deletions[id.uid]; e.Replicas && now.record.Type == "DELETED" {
				deletions[id.uid] = now
				if ok && !again {
					v.takeDeletion(e, deleted, now)
				}
			}
			switch {
			case known && e.undone(last, now):
				v.AfterRestore++
			case again && now.record.Type == "SNAPSHOT" && (e.restated(now.record.Namespace, before.batch) || e.resent(now.record.Namespace, batch)):
				v.Restated++
			case again:
				v.takeDuplicate(e, before, now)
				continue
			case known && number(last.record.ResourceVersion) > rv:
				v.takeDisorder(e, last, now)
				continue
			}
			latest[id.uid] = now
		}
	}

	history := newHistory(e, emitted)
	happened := map[harness.Event]bool{}
	for _, event := range e.Events {
		key := harness.Event{Revision: event.Revision, Type: event.Type, UID: event.UID}
		happened[key] = true
		namespace := e.namespaceOf(event)
		first, ofNamespace := sets[namespace]
		if !ofNamespace {
			first = sets[""]
		}
		denied := e.Denied[denial{e.Resource, revisionOf{event.UID, event.Revision}}] ||
			slices.ContainsFunc(e.DeniedGaps, func(g Gap) bool { return g.covers(namespace, event.Revision) })
		switch {
		case event.Revision <= first.revision:
			v.Earlier++
			history.account(event)
			continue
		case event.Revision > e.Until:
			continue
		case revisions[revisionOf{event.UID, event.Revision}]:
			history.account(event)
		case slices.ContainsFunc(gaps, func(g Gap) bool {
			return g.covers(namespace, event.Revision) && (g.Reason != "dropped" || denied)
		}):
			history.account(event)
			v.InGaps++
			if denied {
				v.Denied++
			}
		case history.changesNothing(event):
			history.account(event)
			v.Suppressed++
		default:
			lost := fmt.Sprintf("%s %s@%d uid=%s", event.Type, event.Key, event.Revision, event.UID)
			if denied {
				lost += ", which the sink refused permanently"
			}
			v.Lost = append(v.Lost, lost)
		}
		v.Revisions++
	}
	for _, record := range emitted {
		key := harness.Event{Revision: number(record.ResourceVersion), Type: record.Type, UID: record.UID}
		if record.Origin == "live" && !happened[key] {
			v.Invented = append(v.Invented, record.String())
		}
	}
	state, forgotten := forget(built.state, unstored(e.Lives, e.Batches, e.Resource), e.Before, e.Listed)
	v.Unstored = forgotten
	v.Differences = harness.DifferencesFromEither(state, e.Before, e.Listed, history.contents.Same)
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

// number returns a resourceVersion as an etcd revision, or -1 if it is not one.
func number(rv string) int64 {
	n, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// namespaceOf returns the namespace of an object; "" if it has none.
func (e Evidence) namespaceOf(event harness.Event) string {
	namespace, _, namespaced := strings.Cut(strings.TrimPrefix(event.Key, e.Prefix), "/")
	if !namespaced {
		return ""
	}
	return namespace
}

// undone reports whether a record has the restored state of an object after etcd was set back, and the earlier record
// an undone state.
func (e Evidence) undone(before, now arrived) bool {
	if now.record.Origin == "live" {
		return false
	}
	was, is := number(before.record.ResourceVersion), number(now.record.ResourceVersion)
	return slices.ContainsFunc(e.Restores, func(r Restore) bool {
		return now.batch.At.After(r.At) && is <= r.To && r.To < was && was <= r.Undone
	})
}

// resent reports whether the set of a namespace may come again in a batch, since the begin or the end of an earlier one was refused.
func (e Evidence) resent(namespace string, again *Batch) bool {
	return slices.ContainsFunc(e.DeniedSets, func(s RefusedSet) bool {
		return (s.Namespace == "" || s.Namespace == namespace) && s.At.Before(again.At)
	})
}

// takeEnd handles the end of an initial state. A second one is allowed only if the Collector was killed before it could
// store that it had emitted the first, or if other namespaces were configured.
func (v *Verdict) takeEnd(e Evidence, batch *Batch, record harness.Record, sets map[string]set) {
	v.Initial++
	namespace := streamText(record, "k8s.namespace.name")
	before, again := sets[namespace]
	if again && (e.restated(namespace, before.batch) || e.resent(namespace, batch)) {
		return // what changed in between still has to be emitted, or be in that gap
	}
	if again && !e.mayEndAgain(namespace, before.batch, batch) {
		if !slices.ContainsFunc(e.Rescoped, func(at time.Time) bool { return at.After(before.batch.At) && at.Before(batch.At) }) {
			v.Unexplained = append(v.Unexplained, fmt.Sprintf("the initial state was emitted in life %d and again in life %d%s",
				before.batch.Life, batch.Life, e.ends(before.batch, batch)))
		}
		return // changes since the first one still have to be emitted
	}
	sets[namespace] = set{number(streamText(record, "k8s.snapshot.resource_version")), batch}
}

func (v *Verdict) takeGap(e Evidence, batch *Batch, gap Gap) {
	kind := e.justified(gap)
	if kind == Nothing && gap.Reason == reasonTakeover && e.mayBeginAnew(gap.Namespace, batch) {
		// It is what came after a first initial state, which a consumer may have taken for the beginning.
		kind = LeaderKilled
	}
	if kind == Nothing && gap.Reason == reasonTakeover && (e.Refused > 0 && e.start(batch.Life, gap.Namespace).Anew || e.resent(gap.Namespace, batch)) {
		kind = e.causedBy(Gap{ToTime: gap.At}, Cause.denies)
	}
	if kind == Nothing {
		v.Gaps[gap.Reason+" (unexplained)"]++
		v.FalseGaps = append(v.FalseGaps, e.Resource+": "+gap.String())
		return
	}
	v.Gaps[fmt.Sprintf("%s (%s)", gap.Reason, kind)]++
}

// takeDuplicate counts a repeated record, if that is allowed: the Collector was killed just after the first one
// arrived, when no checkpoint was written and no position published yet, or could not know that the sink had stored its batch.
func (v *Verdict) takeDuplicate(e Evidence, before, again arrived) {
	switch {
	case e.mayRepeat(before, again):
		v.DuplicatesAfterKill++
		if ended, ok := e.endOf(before.batch, again.batch); ok {
			v.OldestRepeat = max(v.OldestRepeat, ended.Ended.Sub(before.batch.At))
		}
	case e.unknown(before, again):
		v.DuplicatesOfUnknown++
	default:
		v.Unexplained = append(v.Unexplained, fmt.Sprintf("%s arrived at %s in life %d, and %s at %s in life %d%s",
			before.record, before.batch.At.Format(clock), before.batch.Life, again.record, again.batch.At.Format(clock), again.batch.Life, e.ends(before.batch, again.batch)))
	}
}

// takeDeletion counts the deletion of an object in another version than before.
func (v *Verdict) takeDeletion(e Evidence, before, again arrived) {
	if e.mayDeleteAgain(before, again) || e.unknown(before, again) {
		v.DeletedAgain++
		return
	}
	v.Unexplained = append(v.Unexplained, fmt.Sprintf("%s arrived at %s in life %d, and again %s at %s in life %d%s",
		before.record, before.batch.At.Format(clock), before.batch.Life, again.record, again.batch.At.Format(clock), again.batch.Life, e.ends(before.batch, again.batch)))
}

// takeDisorder counts a record that arrived after a later version of its object. Within one life that must never
// happen. After a crash the Collector continues from its checkpoint, and repeats what it had emitted since then, in
// order. If a snapshot had first emitted the last version, the versions in between are late.
func (v *Verdict) takeDisorder(e Evidence, before, now arrived) {
	if e.mayRepeat(before, now) {
		v.ReorderedAfterKill++
		return
	}
	v.Disorder = append(v.Disorder, fmt.Sprintf("%s of life %d arrived at %s after %s of life %d at %s%s", now.record, now.batch.Life,
		now.batch.At.Format(clock), before.record, before.batch.Life, before.batch.At.Format(clock), e.ends(before.batch, now.batch)))
}

const clock = "15:04:05.000"

// unsettled reports whether the Collector was killed between two batches, so soon after the first one that its
// checkpoint may not have been written.
func (e Evidence) unsettled(before, again *Batch) bool {
	life, ok := e.endOf(before, again)
	return ok && (life.Killed && life.Ended.Sub(before.At) <= checkpointDelay || life.full(before.At))
}

// full reports whether the checkpoint of a batch stored at that time could not be written until the life ended, because
// the disk was full.
func (l Life) full(at time.Time) bool {
	return !l.Unwritten.IsZero() && at.After(l.Unwritten.Add(-checkpointDelay)) &&
		(l.Written.IsZero() || l.Ended.Sub(l.Written) <= checkpointDelay)
}

// unknown reports whether a record was repeated because the Collector could not know that its batch was stored: either
// nothing else of that life was stored before the whole batch was repeated, or nothing of that life was stored
// afterwards.
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

// repeats reports whether two batches hold the same records.
func repeats(one, other *Batch) bool {
	return slices.EqualFunc(one.Records, other.Records, func(a, b harness.Record) bool {
		if a.Object == nil || b.Object == nil {
			return a.Object == b.Object && a.Event == b.Event && a.Resource == b.Resource
		}
		return *a.Object == *b.Object
	})
}

// ends describes how and when the life of the first batch ended, if the second is from another life.
func (e Evidence) ends(before, again *Batch) string {
	life, ok := e.endOf(before, again)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; the first life ended at %s, killed: %t", life.Ended.Format(clock), life.Killed)
}

// Findings returns the violations; none if every promise held.
func (v Verdict) Findings() []string {
	var found []string
	add := func(what string, all []string) {
		if len(all) > 0 {
			found = append(found, fmt.Sprintf("%d %s, among them: %q", len(all), what, all[:min(len(all), 5)]))
		}
	}
	add("differences between the fold and the LIST", v.Differences)
	add("revisions were neither emitted nor covered by a gap", v.Lost)
	add("records were repeated without an explanation", v.Unexplained)
	add("gaps have no explanation in the schedule", v.FalseGaps)
	add("records are out of order", v.Disorder)
	add("published positions went back", v.Retreats)
	add("records report changes that never happened", v.Invented)
	if v.Initial == 0 {
		found = append(found, "no initial state was completed")
	}
	return found
}
