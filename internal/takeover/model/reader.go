package model

import "slices"

const (
	reasonExpired  = "expired"
	reasonTakeover = "takeover"
	reasonDropped  = "dropped"
)

// entry is what the leader has emitted of an object. Version 0: it may have been emitted, in an unknown version.
type entry struct {
	at      version
	content int     // 0: not known
	emitted version // of the last record; later versions had the same content
}

// reader reads a resource for the leader. It continues from a checkpoint like the reader of a restarted process: with a
// watch from the position or, if the history is gone, by comparing a snapshot with the inventory.
type reader struct {
	number    int
	inventory map[uid]entry
	watch     watch

	// What the last leader published as accepted is noted and not emitted.
	before position
	// A comparison is possible once everything that was introduced up to until is known, and the hole was passed.
	// Everything up to known was when the term began.
	known, until, hole version

	gapFrom version // of the next gap: everything up to it was accepted, or is in the queue
	since   bool    // the initial state was accepted by somebody
}

// newReader continues from what a standby knows. It adds to the checkpoint what may have been emitted since.
func newReader(number int, m *mirror, p position, term int, w *world) (*reader, *checkpoint) {
	r := &reader{number: number, inventory: map[uid]entry{}, before: p, until: p.until, known: m.knows(p, term), since: p.known}
	c := newCheckpoint()
	c.complete, c.denied, c.many = p.known, p.denied, p.many && w.on(RuleSetOwedUntilWhole)
	switch {
	case !m.holed || p.until <= r.known:
		c.upto = p.w
		if r.known < p.w && w.on(RuleBeginWhereRead) {
			c.upto = m.base.upto
		}
		for u, at := range m.base.inventory {
			c.inventory[u] = at
		}
		for _, s := range m.tail { // what the last leader may have introduced
			if _, ok := c.inventory[s.uid]; !ok && !s.net && s.verb != deleted && s.at <= p.until && w.on(RulePerhapsEmitted) {
				c.inventory[s.uid] = 0
			}
		}
	default:
		// The view is that of a later version. Objects that were deleted until then are not in it, but the watch from
		// the position reports them.
		c.upto, c.hole = p.w, max(m.watch.read, m.watch.openAt)
		if !w.on(RuleHoleToView) {
			c.hole = m.hole.to
		}
		c.inventory = m.view()
		r.known, r.hole = -1, c.hole
	}
	if r.known < p.until && w.on(RuleInherited) {
		c.inherited = p.until
	}
	for _, u := range p.owed {
		c.owed[u], c.inventory[u] = true, 0
	}
	for u, at := range c.inventory {
		r.inventory[u] = entry{at: at, emitted: at}
	}
	r.watch = watchFrom(c.upto)
	if c.upto == p.w {
		c.at, c.seen = p.at, p.seen
	}
	r.gapFrom = max(c.upto, p.w, p.ended)
	return r, c
}

// accepted reports whether the last leader published a version of an object as accepted.
func (r *reader) accepted(u uid, at version) bool {
	return at <= r.before.w || at == r.before.at && slices.Contains(r.before.seen, u)
}

// follow reads up to n events, and compares or begins anew if the history is gone.
func (r *reader) follow(x *replica, n int) {
	res := x.world.cluster.resources[r.number]
	if !r.since {
		r.restate(x)
		return
	}
	if !r.watch.open(res) {
		r.recover(x)
		return
	}
	for ; n > 0 && len(x.queue) < x.world.mostQueue; n-- {
		e, ok := r.watch.next(res)
		if !ok {
			if x.world.random.IntN(10) == 0 {
				r.watch.bookmark(x.world.cluster.now)
				r.gapFrom = max(r.gapFrom, r.watch.read)
				x.push(change{reader: r.number, kind: kindAdvanced, closes: r.watch.read})
			}
			return
		}
		r.observe(x, e)
	}
}

// openGate emits what a standby has kept whole, and goes on from there.
func (r *reader) openGate(x *replica, m *mirror) {
	for _, s := range m.tail {
		r.observe(x, s.event)
	}
	r.watch = m.watch
	r.gapFrom = max(r.gapFrom, r.watch.read)
}

// observe turns a watch event into a change.
func (r *reader) observe(x *replica, e event) {
	w := x.world
	c := change{reader: r.number, uid: e.uid, at: e.at, content: e.content, live: true, closes: e.at - 1}
	if !w.on(RuleClosedVersions) {
		c.closes = e.at
	}
	r.gapFrom = max(r.gapFrom, r.watch.read)
	before, ok := r.inventory[e.uid]
	silent := r.accepted(e.uid, e.at) && w.on(RuleSilentToPublished)
	if silent && x.checkpoints[r.number].owed[e.uid] {
		x.push(change{reader: r.number, kind: kindAdvanced, closes: c.closes})
		return
	}
	now := entry{e.at, e.content, e.at}
	switch {
	case silent && e.verb == deleted:
		c.kind = kindForgotten
	case silent:
		c.kind = kindKnown
	case e.verb == deleted:
		c.kind = kindDeleted
	case ok && before.content == e.content:
		c.kind = kindUnchanged
		now.emitted = before.emitted
	case e.verb == added:
		c.kind = kindAdded
	default:
		c.kind = kindModified
	}
	if e.verb == deleted {
		delete(r.inventory, e.uid)
	} else {
		r.inventory[e.uid] = now
	}
	x.push(c)
}

// recover compares a snapshot with the inventory because the history is gone. It is impossible while objects may have
// been emitted that nobody here has heard of: their deletion would never be emitted.
func (r *reader) recover(x *replica) {
	w := x.world
	whole := r.watch.read >= r.hole && r.until <= max(r.known, r.watch.read)
	if !whole && w.on(RuleHoleRestates) {
		r.restate(x)
		return
	}
	res, now := w.cluster.resources[r.number], w.cluster.now
	w.tracef("%s compares r%d (%d,%d]", x, r.number, r.gapFrom, now)
	owed := x.checkpoints[r.number].owed
	for _, u := range res.sorted() {
		o, before := res.objects[u], r.inventory[u]
		c := change{reader: r.number, kind: kindModified, uid: u, at: o.at, content: o.content}
		after := entry{o.at, o.content, o.at}
		switch {
		case before.at == o.at:
			continue
		case r.accepted(u, o.at) && !owed[u] && w.on(RuleAcceptedByVersion):
			c.kind = kindKnown
		case before.content == o.content:
			c.kind, after.emitted = kindUnchanged, before.emitted
		case before.at == 0:
			c.kind = kindAdded
		}
		r.inventory[u] = after
		x.push(c)
	}
	for _, u := range sortedKeys(r.inventory) {
		if _, ok := res.objects[u]; !ok {
			delete(r.inventory, u)
			x.push(change{reader: r.number, kind: kindDeleted, uid: u, at: now, inferred: true})
		}
	}
	x.push(change{reader: r.number, kind: kindGap, reason: reasonExpired, gap: span{r.gapFrom, now}, closes: now})
	w.verdict.stats.Gaps++
	r.arrive(now, res)
}

// restate emits everything as a set of snapshots, which replaces what the backend has: what is not in it is gone. It is
// the initial state, and what remains if nobody knows what the backend has.
func (r *reader) restate(x *replica) {
	w := x.world
	res, now := w.cluster.resources[r.number], w.cluster.now
	c := x.checkpoints[r.number]
	w.epochs++
	w.tracef("%s restates r%d at %d as set %d, gap from %d", x, r.number, now, w.epochs, r.gapFrom)
	w.verdict.restated(x, r)
	c.hole = now
	if !r.since {
		c.hole = 0
	}
	begin := change{reader: r.number, kind: kindBegin, epoch: w.epochs}
	if !r.since && !w.on(RuleInitialWhole) {
		c.complete, c.upto = true, now
	}
	x.push(begin)
	clear(r.inventory)
	for _, u := range res.sorted() {
		o := res.objects[u]
		r.inventory[u] = entry{o.at, o.content, o.at}
		x.push(change{reader: r.number, kind: kindSnapshot, uid: u, at: o.at, content: o.content, epoch: w.epochs})
	}
	if (r.since || r.gapFrom > 0) && now > r.gapFrom {
		x.push(change{reader: r.number, kind: kindGap, reason: reasonTakeover, gap: span{r.gapFrom, now}})
	}
	x.push(change{reader: r.number, kind: kindEnd, epoch: w.epochs, at: now, closes: now})
	r.since = true
	r.until, r.hole, r.before = 0, 0, position{}
	r.arrive(now, res)
}

func (r *reader) arrive(now version, res *resource) {
	r.watch = watchFrom(now)
	r.watch.open(res)
	r.gapFrom = now
}

// dropped notes a record that was refused permanently: its object has no known version, or still exists for the backend.
func (r *reader) dropped(c *change) {
	before, ok := r.inventory[c.uid]
	switch {
	case c.kind == kindDeleted && !ok, ok && before.emitted == c.at:
		r.inventory[c.uid] = entry{}
	}
}

// redeliver emits the objects again whose newest record was refused. It waits until the stream has caught up.
func (r *reader) redeliver(x *replica) {
	res := x.world.cluster.resources[r.number]
	if r.watch.cursor != len(res.log) {
		return
	}
	for _, u := range sortedKeys(x.checkpoints[r.number].owed) {
		if before, ok := r.inventory[u]; ok && before.at != 0 {
			continue // a newer record is under way
		}
		if o, ok := res.objects[u]; ok {
			r.inventory[u] = entry{o.at, o.content, o.at}
			x.push(change{reader: r.number, kind: kindAdded, uid: u, at: o.at, content: o.content})
			continue
		}
		delete(r.inventory, u)
		x.push(change{reader: r.number, kind: kindDeleted, uid: u, at: x.world.cluster.now, inferred: true})
	}
}
