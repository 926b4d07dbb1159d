package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

const leaseName = "watchlist"

// start returns the position from which the leader of a term continues: the last one that was published before its term. Nothing
// of an earlier term can be published later.
func (e Evidence) start(term int, namespace string) harness.Point {
	var at harness.Point
	for _, p := range e.Published {
		if p.Term >= term {
			break
		}
		at = pointOf(p, namespace)
	}
	return at
}

// reached returns when it was first published that the version was reached at which a gap begins.
func (e Evidence) reached(g Gap) time.Time {
	for _, p := range e.Published {
		if at := pointOf(p, g.Namespace); at.IsKnown() && number(at.W) >= g.From {
			return p.At
		}
	}
	return time.Time{}
}

// pointOf returns the position of the reader of a namespace, which may be that of all namespaces.
func pointOf(p harness.Publication, namespace string) harness.Point {
	if at, ok := p.Readers[namespace]; ok {
		return at
	}
	return p.Readers[""]
}

// mayRepeat reports whether one record may come after another one of an earlier term, although that is the same or a later version
// of the object: the earlier term did not end in order, and its last position does not cover the record.
func (e Evidence) mayRepeat(before, now arrived) bool {
	if !e.Replicas {
		return e.unsettled(before.batch, now.batch)
	}
	ended, ok := e.endOf(before.batch, now.batch)
	if !ok || !ended.Killed {
		return false
	}
	at := e.start(now.batch.Life, now.record.Namespace)
	switch {
	case !at.IsKnown():
		return e.mayBeginAnew(now.record.Namespace, now.batch)
	case at.Covers(now.record):
		return false
	case now.record.Origin == "live": // after a comparison the position moves only when all of it was accepted
		return ended.Ended.Sub(before.batch.At) <= publishedWithin
	}
	return true
}

// mayDeleteAgain reports whether the deletion of an object may be emitted although that was already done in an earlier term. An
// inferred deletion has the version of a snapshot, so that the versions of both may differ.
func (e Evidence) mayDeleteAgain(before, now arrived) bool {
	ended, ok := e.endOf(before.batch, now.batch)
	if !ok || !ended.Killed {
		return false
	}
	at := e.start(now.batch.Life, now.record.Namespace)
	if !at.Covers(before.record) {
		return true
	}
	// A position says nothing about what a relist finds, since the stream passes the version of a relist before that is emitted.
	return before.record.Inferred && ended.Ended.Sub(before.batch.At) <= checkpointDelay
}

// mayBeginAnew reports whether a term has to emit the initial state of a namespace although an earlier one has begun it: its
// end was accepted in none of them long enough ago to be published. Until then there is no position, only the time.
func (e Evidence) mayBeginAnew(namespace string, again *Batch) bool {
	if e.start(again.Life, namespace).IsKnown() {
		return false
	}
	for _, batch := range e.Batches {
		if batch.Life >= again.Life {
			continue
		}
		ended, _ := e.endOf(batch, again)
		isLong := !ended.Killed || ended.Ended.Sub(batch.At) > checkpointDelay
		if isLong && slices.ContainsFunc(batch.Records, func(r harness.Record) bool {
			return r.Resource == e.Resource && r.Event == "k8s.snapshot.end" && streamText(r, "k8s.namespace.name") == namespace
		}) {
			return false
		}
	}
	return true
}

// mayEndAgain reports whether the initial state of a namespace may be complete once more.
func (e Evidence) mayEndAgain(namespace string, before, again *Batch) bool {
	if !e.Replicas {
		return e.unsettled(before, again)
	}
	return again.Life > before.Life && e.mayBeginAnew(namespace, again)
}

// endOf returns how the life of a batch ended, if another one is of a later life.
func (e Evidence) endOf(before, again *Batch) (Life, bool) {
	if again.Life > before.Life {
		for _, life := range e.Lives {
			if life.Number == before.Life {
				return life, true
			}
		}
	}
	return Life{}, false
}

// retreats returns where a published position is before an earlier one, or gone.
func (e Evidence) retreats() []string {
	var found []string
	last := map[string]harness.Point{}
	for _, p := range e.Published {
		for namespace, at := range p.Readers {
			if before := last[namespace]; before.IsKnown() && at.IsBefore(before) {
				found = append(found, fmt.Sprintf("%s in namespace %q: %s in term %d after %s", e.Resource, namespace, at.W, p.Term, before.W))
			}
			last[namespace] = at
		}
	}
	return found
}

// published returns what the replicas have published of the readers of a resource, by namespace instead of by key.
func (r *run) published(publications []harness.Publication, o *objects) []harness.Publication {
	var published []harness.Publication
	for _, p := range publications {
		readers := map[string]harness.Point{}
		for _, of := range r.wording.scopes(o) {
			if at, ok := p.Readers[takeover.Key(of)]; ok {
				readers[of.Namespace] = at
			}
		}
		p.Readers = readers
		published = append(published, p)
	}
	return published
}

// unpublished returns what is missing of what the replicas have published, for any reader.
func (r *run) unpublished(published []harness.Publication) []string {
	var found []string
	for _, p := range published {
		if p.Term == 0 {
			found = append(found, fmt.Sprintf("nobody can read what was published at revision %d", p.Revision))
		}
	}
	for _, o := range all {
		for _, of := range r.wording.scopes(o) {
			if len(published) == 0 || !published[len(published)-1].Readers[takeover.Key(of)].IsKnown() {
				found = append(found, fmt.Sprintf("no position of %s is published at the end", of))
			}
		}
	}
	return found
}
