package model

import "maps"

// checkpoint is what a replica knows of what the pipeline has accepted of one reader. The leader advances it with each
// accepted change; it is what a standby follows, what is written to disk, and where a reader continues.
type checkpoint struct {
	complete  bool    // there is one: the initial state was accepted, and the inventory is that at upto
	upto      version // everything up to it was accepted
	at        version // of the objects in seen, the events at this version too
	seen      []uid
	inventory map[uid]version // 0: the object may have been emitted, in an unknown version
	owed      map[uid]bool    // objects whose newest record was refused permanently
	many      bool            // so many that they are not known: all is emitted again
	denied    span
	led       int // the term in which this was the leader's; what was introduced up to its end is in the inventory
	// unless earlier leaders introduced something up to this version, and upto has not passed it
	inherited version

	// Until upto has passed it, the inventory is not that at upto: it comes from a snapshot at this version.
	hole version

	set struct { // the set of snapshots that is being accepted
		epoch    int
		begun    bool
		members  map[uid]bool // false: refused
		accepted int
	}
	broken bool // the begin or end of the set was refused, so a consumer cannot complete it
}

func newCheckpoint() *checkpoint {
	return &checkpoint{inventory: map[uid]version{}, owed: map[uid]bool{}}
}

func (c *checkpoint) clone() *checkpoint {
	n := *c
	n.inventory, n.owed, n.set.members = maps.Clone(c.inventory), maps.Clone(c.owed), maps.Clone(c.set.members)
	return &n
}

// isWhole reports whether the inventory holds every object that the backend may have.
func (c *checkpoint) isWhole() bool {
	return c.complete && c.upto >= c.hole && !c.broken && !c.many
}

// introduce notes an object before the pipeline receives it for the first time.
func (c *checkpoint) introduce(u uid) {
	if _, ok := c.inventory[u]; !ok {
		c.inventory[u] = 0
	}
}

// accept notes a change that the pipeline has accepted, or that needs no acceptance.
func (c *checkpoint) accept(ch *change, w *world) {
	switch ch.kind {
	case kindSnapshot, kindAdded, kindModified, kindKnown:
		c.inventory[ch.uid] = ch.at
		delete(c.owed, ch.uid)
	case kindUnchanged:
		if !c.owed[ch.uid] {
			c.inventory[ch.uid] = ch.at
		}
	case kindDeleted, kindForgotten:
		delete(c.inventory, ch.uid)
		delete(c.owed, ch.uid)
	case kindGap:
		if ch.reason == reasonDropped && c.denied == ch.gap {
			c.denied = span{}
		}
	case kindBegin:
		c.set.begun = true
	}
	c.member(ch, true, w)
	c.close(ch)
}

// drop notes a change whose record the pipeline has refused permanently. The position moves on with it.
func (c *checkpoint) drop(ch *change, w *world) {
	lost := span{ch.at - 1, ch.at}
	switch {
	case ch.isOfObject():
		c.inventory[ch.uid] = 0
		c.owed[ch.uid] = true
		c.denied = c.denied.and(lost)
	case ch.kind == kindGap:
		c.denied = c.denied.and(ch.gap)
	}
	c.member(ch, false, w)
	c.close(ch)
}

// member follows the set of snapshots, which replaces the inventory when it is complete.
func (c *checkpoint) member(ch *change, accepted bool, w *world) {
	switch {
	case ch.kind == kindBegin:
		c.set.epoch, c.set.begun, c.set.accepted, c.set.members = ch.epoch, accepted, 0, map[uid]bool{}
	case ch.kind == kindSnapshot && ch.epoch == c.set.epoch:
		c.set.members[ch.uid] = accepted
		if accepted {
			c.set.accepted++
		}
	case ch.kind == kindEnd:
		whole := c.set.begun && c.set.epoch == ch.epoch && accepted
		if whole || !w.on(RuleSetBegunAnew) {
			c.broken, c.many = false, false
			for u := range c.inventory {
				if _, ok := c.set.members[u]; !ok {
					delete(c.inventory, u)
				}
			}
			for u := range c.owed {
				if member, ok := c.set.members[u]; !ok || member {
					delete(c.owed, u)
				}
			}
		} else {
			c.broken = true
		}
	}
}

func (c *checkpoint) close(ch *change) {
	if c.broken {
		return
	}
	if ch.closes >= c.upto && ch.closes > 0 {
		c.complete = c.complete || ch.kind == kindEnd || ch.kind == kindGap
		c.upto = ch.closes
	}
	if ch.live && c.complete {
		if ch.at > c.at {
			c.at, c.seen = ch.at, nil
		}
		c.seen = append(c.seen[:len(c.seen):len(c.seen)], ch.uid)
	}
}

// put makes the position the one to publish. An earlier one stays if the checkpoint is behind it.
func (c *checkpoint) put(p position, until version, w *world) position {
	if c.complete && (c.upto >= p.w || !p.known || !w.on(RuleNeverBack)) {
		p.known, p.w = true, c.upto
		p.at, p.seen = 0, nil
		if c.at == c.upto+1 {
			p.at, p.seen = c.at, c.seen
		}
	}
	p.until = max(p.until, until, p.w)
	if w.on(RuleDenialsPublished) {
		p.owed, p.many = nil, c.many || len(c.owed) > mostOwed
		if !p.many {
			p.owed = sortedKeys(c.owed)
		}
		p.denied = c.denied
	}
	return p
}

// mostOwed is how many owed objects fit the progress object.
const mostOwed = 4
