package model

import (
	"fmt"
	"slices"
)

// Violation is something that must not happen.
type Violation struct {
	Kind string
	Text string
}

func (v Violation) String() string { return v.Kind + ": " + v.Text }

const (
	violLost     = "lost"
	violRepeated = "repeated"
	violLate     = "begun too late"
	violTwo      = "two leaders"
	violBack     = "position went back"
	violSlow     = "published late"
	violMissed   = "deletion missed"
	violStale    = "stale"
	violFalse    = "false deletion"
	violSet      = "needless set"
	violStuck    = "not quiet"
)

// recordKey identifies the record of a change, like its id does.
type recordKey struct {
	uid  uid
	at   version
	kind kind
}

// excuse is an object in a term.
type excuse struct {
	term, reader int
	uid          uid
}

// stored is a record that the backend has.
type stored struct {
	*change
	batch *batch
}

// view is what a consumer has built from the records of one reader.
type view struct {
	objects map[uid]viewed
	sets    map[int]*viewedSet
	floor   millis // records that were observed before it are superseded by a complete set
	member  map[uid]bool
	whole   version // of the first complete set
	known   bool
}

type viewed struct {
	at       version
	content  int
	observed millis
	exists   bool
	deleted  bool // final: another object of the name has another UID
}

type viewedSet struct {
	begun   bool
	began   millis
	members map[uid]bool
}

// stats count what a run did.
type stats struct {
	Runs, Events, Takeovers, Gaps, InGaps, Sets, Repeats int

	readers int
}

func (s *stats) add(t stats) {
	s.Runs++
	s.Events += t.Events
	s.Takeovers += t.Takeovers
	s.Gaps += t.Gaps
	s.InGaps += t.InGaps
	s.Sets += t.Sets
	s.Repeats += t.Repeats
	s.readers += t.readers
}

// verdict sees everything and judges a run.
type verdict struct {
	w          *world
	violations []Violation

	records [][]stored // by reader, in order of arrival
	views   []*view
	spans   [][]span // of the gap records that were stored, by reader

	newest    int // the latest term that has begun a batch
	published []map[int]version
	ever      []bool // a position was published
	proofs    map[*replica]millis
	answered  map[int][]version // by term and reader: the latest live record that was settled
	sealed    map[int]bool
	// excused are records that may be repeated in a term, since they were refused in it or owed at its beginning.
	excused  map[excuse]bool
	readyFor map[*replica]millis // since when it could lead

	stats stats
}

func newVerdict(w *world) *verdict {
	n := len(w.cluster.resources)
	v := &verdict{w: w, stats: stats{readers: n}, records: make([][]stored, n), spans: make([][]span, n), ever: make([]bool, n), proofs: map[*replica]millis{},
		answered: map[int][]version{}, sealed: map[int]bool{}, excused: map[excuse]bool{}, readyFor: map[*replica]millis{}}
	for range n {
		v.views = append(v.views, &view{objects: map[uid]viewed{}, sets: map[int]*viewedSet{}})
		v.published = append(v.published, map[int]version{})
	}
	return v
}

func (v *verdict) violated(kind, format string, args ...any) {
	v.violations = append(v.violations, Violation{kind, fmt.Sprintf(format, args...)})
	v.w.tracef("VIOLATION %s", v.violations[len(v.violations)-1])
}

// promoted notes that a replica begins to lead.
func (v *verdict) promoted(x *replica) {
	v.stats.Takeovers++
	v.answered[x.term] = make([]version, len(x.reads))
	for k, p := range x.progress.readers {
		for _, u := range p.owed {
			v.excused[excuse{x.term, k, u}] = true
		}
	}
}

// proved notes when the request was sent that last proved that a replica leads.
func (v *verdict) proved(x *replica, sent millis) { v.proofs[x] = max(v.proofs[x], sent) }

// begun checks that a replica which begins a batch certainly leads.
func (v *verdict) begun(x *replica, b *batch) {
	if late := x.clock() - v.proofs[x] - renewDeadline; late > 0 {
		v.violated(violLate, "%s begins a batch %d ms after the deadline", x, late)
	}
	if b.term < v.newest {
		v.violated(violTwo, "%s begins a batch in term %d after one of term %d", x, b.term, v.newest)
	}
	v.newest = max(v.newest, b.term)
	for _, c := range b.changes {
		v.w.tracef("%s offers %s", x, c)
	}
}

// settled notes that a replica knows the outcome of a batch.
func (v *verdict) settled(x *replica, b *batch) {
	for i, c := range b.changes {
		if b.denies[i] {
			v.excused[excuse{x.term, c.reader, c.uid}] = true
		}
		if c.live && c.isRecord() && !x.checkpoints[c.reader].broken {
			v.answered[x.term][c.reader] = max(v.answered[x.term][c.reader], c.at)
		}
	}
}

// publishing checks that a leader publishes all that was settled.
func (v *verdict) publishing(x *replica, p progress) {
	for k, at := range v.answered[x.term] {
		if x.reads[k] && !x.checkpoints[k].broken && p.readers[k].w < at-1 {
			v.violated(violSlow, "%s publishes r%d at %d although it was accepted up to %d", x, k, p.readers[k].w, at)
		}
	}
}

// wrote checks a write of the progress object.
func (v *verdict) wrote(before, after progress) {
	for k := range after.readers {
		p, q := before.readers[k], after.readers[k]
		if q.w < p.w || p.known && !q.known {
			v.violated(violBack, "r%d is published at %d in term %d, after %d in term %d", k, q.w, after.term, p.w, before.term)
		}
		if q.w > p.w {
			v.published[k][after.term] = max(v.published[k][after.term], q.w)
		}
		v.ever[k] = v.ever[k] || q.known
	}
	if after.sealed {
		v.sealed[after.term] = true
	}
}

// watch follows which replicas could lead.
func (v *verdict) watch() {
	for _, x := range v.w.replicas {
		if !x.runs() || !x.reaches() || x.stopping || v.w.now < x.slowUntil || !x.isReady() || x.leading {
			delete(v.readyFor, x)
		} else if _, ok := v.readyFor[x]; !ok {
			v.readyFor[x] = v.w.now
		}
	}
}

// restated checks that a set was needed.
func (v *verdict) restated(x *replica, r *reader) {
	v.stats.Sets++
	v.answered[x.term][r.number] = 0
	if !r.since && v.ever[r.number] {
		v.violated(violSet, "%s begins the initial state of r%d anew although a position was published", x, r.number)
	}
	if !r.since || v.w.cold || r.before.many || x.checkpoints[r.number].broken {
		return
	}
	for y, since := range v.readyFor {
		if y != x && y.reads[r.number] && v.w.now-since > leaseDuration*3 && x.term == v.w.cluster.progress.term && v.fresh(x) {
			v.violated(violSet, "%s restates r%d although %s has been ready for %d ms", x, r.number, y, v.w.now-since)
		}
	}
}

// fresh reports whether a replica has only just begun to lead.
func (v *verdict) fresh(x *replica) bool { return v.w.now-x.ledAt < second }

// store applies a record as a consumer would.
func (v *verdict) store(c *change, b *batch, count int) {
	k := c.reader
	v.records[k] = append(v.records[k], stored{c, b})
	o := v.views[k]
	switch c.kind {
	case kindGap:
		v.spans[k] = append(v.spans[k], c.gap)
	case kindBegin:
		set := o.set(c.epoch)
		set.begun, set.began = true, c.observed
	case kindSnapshot:
		o.set(c.epoch).members[c.uid] = true
		o.apply(c)
	case kindEnd:
		o.end(c, count)
	default:
		o.apply(c)
	}
}

func (o *view) set(epoch int) *viewedSet {
	if o.sets[epoch] == nil {
		o.sets[epoch] = &viewedSet{members: map[uid]bool{}}
	}
	return o.sets[epoch]
}

// apply stores or removes an object. A batch whose call was cancelled may arrive late, so versions are compared, and
// what was observed before a complete set began and is not in it stays away.
func (o *view) apply(c *change) {
	before := o.objects[c.uid]
	switch {
	case before.deleted, c.at < before.at:
	case c.kind == kindDeleted:
		o.objects[c.uid] = viewed{at: c.at, deleted: true}
	case c.observed < o.floor && !o.member[c.uid]:
	default:
		o.objects[c.uid] = viewed{c.at, c.content, c.observed, true, false}
	}
}

// end concludes from a complete set: objects that are not in it, and have no record that was observed since its begin,
// are gone.
func (o *view) end(c *change, count int) {
	set := o.set(c.epoch)
	if !set.begun || len(set.members) < count {
		return
	}
	if !o.known {
		o.known, o.whole = true, c.at
	}
	for u, seen := range o.objects {
		if seen.exists && !set.members[u] && seen.observed < set.began {
			seen.exists = false
			o.objects[u] = seen
		}
	}
	if set.began > o.floor {
		o.floor, o.member = set.began, set.members
	}
}

// judge checks what only the end of a run shows.
func (v *verdict) judge() {
	if !v.w.isQuiet() {
		v.violated(violStuck, "after %d ms without faults", v.w.now-activeFor)
	}
	for k, r := range v.w.cluster.resources {
		v.stats.Events += len(r.log)
		v.judgeLost(k, r)
		v.judgeRepeats(k)
		v.judgeState(k, r)
	}
}

// isReported reports whether a gap record covers a stretch.
func (v *verdict) isReported(k int, s span) bool {
	return slices.ContainsFunc(v.spans[k], func(t span) bool { return t.from <= s.from && s.to <= t.to })
}

func (v *verdict) judgeLost(k int, r *resource) {
	type emission struct {
		uid uid
		at  version
	}
	emitted := map[emission]bool{}
	for _, s := range v.records[k] {
		if s.isOfObject() {
			emitted[emission{s.uid, s.at}] = true
		}
	}
	for _, e := range r.log {
		if e.noop || emitted[emission{e.uid, e.at}] || e.at <= v.views[k].whole {
			continue
		}
		v.stats.InGaps++
		if !slices.ContainsFunc(v.spans[k], func(s span) bool { return s.from < e.at && e.at <= s.to }) {
			v.violated(violLost, "r%d u%d@%d is neither stored nor in a gap", k, e.uid, e.at)
		}
	}
}

func (v *verdict) judgeRepeats(k int) {
	first := map[recordKey]stored{}
	for _, s := range v.records[k] {
		if !s.isOfObject() || s.kind == kindSnapshot || s.inferred {
			continue
		}
		key := recordKey{s.uid, s.at, s.kind}
		if s.kind == kindModified { // what one leader emits as added, another may find as modified
			key.kind = kindAdded
		}
		before, ok := first[key]
		if !ok {
			first[key] = s
			continue
		}
		v.stats.Repeats++
		if s.batch.begun < before.batch.begun { // it was stored late
			before, s = s, before
			first[key] = before
		}
		if !before.batch.noted || v.excused[excuse{s.batch.term, k, s.uid}] {
			continue // it was not known to be accepted
		}
		at := version(0)
		for term, w := range v.published[k] {
			if term < s.batch.term {
				at = max(at, w)
			}
		}
		switch {
		case before.batch.term == s.batch.term:
			v.violated(violRepeated, "r%d u%d@%d in one term", k, s.uid, s.at)
		case before.batch.term < s.batch.term && s.at <= at:
			v.violated(violRepeated, "r%d u%d@%d in term %d although %d was published before", k, s.uid, s.at, s.batch.term, at)
		case before.batch.term < s.batch.term && v.sealed[before.batch.term]:
			v.violated(violRepeated, "r%d u%d@%d in term %d after an orderly stop", k, s.uid, s.at, s.batch.term)
		}
	}
}

func (v *verdict) judgeState(k int, r *resource) {
	for _, u := range sortedKeys(v.views[k].objects) {
		seen := v.views[k].objects[u]
		o, exists := r.objects[u]
		switch {
		case seen.deleted && exists:
			v.violated(violFalse, "r%d u%d", k, u)
		case seen.exists && !exists && !v.w.pipeline.poisoned(u):
			v.violated(violMissed, "r%d u%d@%d", k, u, seen.at)
		case exists && (!seen.exists || seen.content != o.content) && !v.w.pipeline.poisoned(u):
			v.violated(violStale, "r%d u%d@%d is at %d", k, u, seen.at, o.at)
		}
	}
	for _, u := range r.sorted() {
		if _, ok := v.views[k].objects[u]; !ok && !v.w.pipeline.poisoned(u) {
			v.violated(violStale, "r%d u%d@%d is not stored", k, u, r.objects[u].at)
		}
	}
}
