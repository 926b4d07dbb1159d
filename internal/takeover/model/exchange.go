package model

import "slices"

// exchange reads and writes the progress object: a standby follows the published positions, a new leader writes its
// term, and the leader publishes what was accepted.
func (x *replica) exchange() {
	now := x.clock()
	if c := x.asked; c != nil {
		switch {
		case c.answered:
			x.asked = nil
			x.exchanged(c.progress, c.ok)
		case c.gaveUp():
			x.asked = nil
			if x.leading && !x.world.on(RuleOwnWriteUnanswered) {
				x.progress = x.wanted()
				return
			}
			x.fetch()
		}
		return
	}
	switch {
	case x.leading:
		if x.urgent || now >= x.askedAt+publishInterval {
			x.publish()
		}
	case now >= x.askedAt+publishInterval:
		x.fetch()
	}
}

// fetch reads the progress object. After a write without an answer it shows whether that arrived.
func (x *replica) fetch() {
	x.askedAt = x.clock()
	x.asked = x.send(func(c *call) { c.progress = x.world.cluster.progress.clone() })
}

// put writes the progress object.
func (x *replica) put(p progress) {
	always := x.leading && !x.world.on(RuleOptimisticWrites)
	x.askedAt = x.clock()
	x.asked = x.send(func(c *call) {
		var now progress
		now, c.ok = x.world.cluster.putProgress(p, always)
		c.progress = now.clone()
	})
}

// exchanged handles an answer, which in any case holds the object as it is now.
func (x *replica) exchanged(p progress, written bool) {
	x.fetched = true
	switch {
	case x.leading && written:
		x.progress = p
	case x.leading && p.term > x.term:
		x.progress = p
		x.demote("somebody has begun a later term")
	case x.leading: // the own object, perhaps written by an earlier request without an answer
		x.progress.resourceVersion = p.resourceVersion
		if p.term == x.term {
			x.progress = p
		}
	case written: // the new term is written
		x.lead(p, x.progress.term)
	default:
		x.progress = p
		if x.elector.holding && x.isProven() && !x.stopping {
			x.begin(p)
		}
	}
}

// begin writes a new term. From then on no earlier leader can publish: its object is not the current one.
func (x *replica) begin(p progress) {
	next := p.clone()
	next.term, next.holder, next.sealed = p.term+1, x.id, false
	if !x.world.on(RuleTermFirst) {
		x.lead(next, p.term)
		return
	}
	x.put(next)
}

// wanted is the object that the leader wants to publish.
func (x *replica) wanted() progress {
	p := x.progress.clone()
	p.term, p.holder = x.term, x.id
	p.sealed = x.stopping && len(x.queue) == 0 && x.batch == nil
	for k := range x.reads {
		switch {
		case x.reads[k]:
			until := version(0)
			if x.world.on(RuleAnnounce) {
				until = x.offers(k)
			}
			if end := x.ends(k); !p.readers[k].known && p.readers[k].ended == 0 && x.world.on(RuleEndAnnounced) {
				p.readers[k].ended = end
			}
			c := x.checkpoints[k]
			if !x.world.on(RulePublishAccepted) {
				c = c.clone()
				c.upto = max(c.upto, x.readers[k].watch.read)
			}
			p.readers[k] = c.put(p.readers[k], until, x.world)
		case !x.world.on(RuleOtherReadersKept):
			p.readers[k] = position{}
		}
	}
	return p
}

// offers is the latest version at which something in the queue, or in the batch on its way, introduces an object.
func (x *replica) offers(k int) version {
	until := introduced(x.queue, k)
	if x.batch != nil {
		until = max(until, introduced(x.batch.changes, k))
	}
	return until
}

// introduced is the latest version at which a change of a reader introduces an object; 0: none does.
func introduced(changes []*change, k int) version {
	latest := version(0)
	for _, c := range changes {
		if c.reader == k && c.introduces() {
			latest = max(latest, c.at)
		}
	}
	return latest
}

// ends is the version of a set whose end is in the queue.
func (x *replica) ends(k int) version {
	for _, c := range x.queue {
		if c.reader == k && c.kind == kindEnd {
			return c.at
		}
	}
	return 0
}

func (x *replica) publish() {
	p := x.wanted()
	if !x.urgent && samePositions(p, x.progress) {
		return
	}
	x.urgent = false
	x.world.verdict.publishing(x, p)
	x.witnessPublishes(p)
	x.put(p)
}

func samePositions(p, q progress) bool {
	return p.sealed == q.sealed && slices.EqualFunc(p.readers, q.readers, func(a, b position) bool {
		return a.known == b.known && a.w == b.w && a.at == b.at && a.ended == b.ended && a.until == b.until && a.many == b.many && a.denied == b.denied &&
			slices.Equal(a.owed, b.owed) && slices.Equal(a.seen, b.seen)
	})
}
