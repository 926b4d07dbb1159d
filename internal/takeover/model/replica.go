package model

import "fmt"

// millis is a time or a duration in milliseconds, of the world or of the clock of one replica.
type millis int64

const second = millis(1000)

const (
	leaseDuration   = 15 * second
	renewDeadline   = 10 * second
	retryPeriod     = 2 * second
	publishInterval = 1 * second
	drainTimeout    = 20 * second
	diskInterval    = 1 * second
	offerTimeout    = 6 * second
	redeliverFirst  = 3 * second
	redeliverMost   = 24 * second
)

// replica is one process of the receiver. What it knows of the others comes from the API server only.
type replica struct {
	world *world
	id    int
	// identity names the process in the Lease. A restarted one is somebody else, and must wait like everyone.
	identity int
	rate     float64 // of its monotonic clock

	up, stopping bool
	pausedUntil  millis
	cutUntil     millis // from the API server
	sinkCutUntil millis
	slowUntil    millis // its watches deliver nothing
	reads        []bool // the readers of its configuration
	nextReads    []bool // those of the next start; nil: the same

	disk []*checkpoint // nil: nothing was written. It outlives the process

	elector elector

	// Standby and leader.
	progress  progress // as last read or written
	asked     *call    // for the progress object
	askedAt   millis
	fetched   bool
	mirrors   []*mirror
	diskSaved millis

	// Leader.
	leading     bool
	number      int // see Leaders
	term        int
	ledAt       millis // when it began to lead, by the clock of the world
	readers     []*reader
	checkpoints []*checkpoint
	queue       []*change
	batch       *batch
	offeredAt   millis
	tryAt       millis
	urgent      bool // a batch waits for an announcement
	redelivery  []redelivery
	stopAt      millis
	released    bool
}

type redelivery struct {
	at, pause millis
	gapSent   bool
}

func (x *replica) String() string { return fmt.Sprintf("replica %d", x.id) }

// clock is the replica's monotonic clock. It goes on while the process is stopped.
func (x *replica) clock() millis { return millis(float64(x.world.now) * x.rate) }

func (x *replica) runs() bool { return x.up && x.world.now >= x.pausedUntil }

func (x *replica) reaches() bool { return x.world.now >= x.cutUntil }

// start starts the process as a standby that continues from its disk.
func (x *replica) start() {
	w := x.world
	n := len(w.cluster.resources)
	x.up, x.stopping, x.released, x.leading = true, false, false, false
	w.identities++
	if x.identity = w.identities; !w.on(RuleNewIdentity) {
		x.identity = x.id
	}
	x.elector = elector{next: x.clock() + millis(w.random.IntN(2000)), free: -1}
	x.progress, x.asked, x.fetched = progress{readers: make([]position, n)}, nil, false
	x.mirrors = make([]*mirror, n)
	x.queue, x.batch, x.readers, x.checkpoints = nil, nil, nil, nil
	for k := range x.mirrors {
		base := newCheckpoint()
		if x.disk[k] != nil {
			base = x.disk[k].clone()
		}
		x.mirrors[k] = newMirror(k, base, w)
	}
}

// kill ends the process at once.
func (x *replica) kill() {
	if x.leading {
		x.witnessEnds(nil)
	}
	x.world.abandon(x)
	x.up, x.leading, x.elector.holding = false, false, false
	x.queue, x.batch, x.readers, x.checkpoints, x.mirrors, x.asked = nil, nil, nil, nil, nil, nil
}

// run lets each part of the replica do something, in a random order, as its goroutines would.
func (x *replica) run() {
	if !x.runs() {
		return
	}
	parts := [...]byte{0, 1, 2, 3, 4, 5}
	for left := len(parts); left > 0 && x.up; left-- {
		i := x.world.random.IntN(left)
		part := parts[i]
		parts[i] = parts[left-1]
		switch part {
		case 0:
			x.elect()
		case 1:
			x.exchange()
		case 2:
			x.read()
		case 3:
			x.deliver()
		case 4:
			x.save()
		case 5:
			x.stop()
		}
	}
}

// read reads the resources: a standby for its mirrors, the leader to emit.
func (x *replica) read() {
	w := x.world
	if !x.reaches() || w.now < x.slowUntil || x.stopping {
		x.closeWatches()
		return
	}
	if w.random.IntN(80) == 0 {
		x.closeWatches()
	}
	for k, r := range w.cluster.resources {
		n := w.random.IntN(8)
		switch {
		case !x.reads[k]:
		case x.leading:
			x.tend(k)
			x.readers[k].follow(x, n)
		case !w.cold:
			x.mirrors[k].follow(r, w.cluster.server, n, w)
			x.mirrors[k].settle(x.progress.readers[k], w)
		}
	}
}

func (x *replica) closeWatches() {
	for k := range x.reads {
		if x.leading && x.readers[k] != nil {
			x.readers[k].watch.cursor = -1
		} else if !x.leading {
			x.mirrors[k].watch.cursor = -1
		}
	}
}

// lead begins to emit, with what the standby knows and what the last leader has published.
func (x *replica) lead(p progress, lastTerm int) {
	w := x.world
	n := len(x.reads)
	x.leading, x.term, x.progress, x.ledAt = true, p.term, p, w.now
	x.readers, x.checkpoints = make([]*reader, n), make([]*checkpoint, n)
	x.redelivery = make([]redelivery, n)
	x.queue, x.batch, x.urgent, x.tryAt = nil, nil, false, 0
	w.verdict.promoted(x)
	for k, m := range x.mirrors {
		if !x.reads[k] {
			continue
		}
		if w.cold || !m.started { // a cold standby begins to read only now
			m.follow(w.cluster.resources[k], w.cluster.server, 1<<30, w)
		}
		m.settle(p.readers[k], w)
		w.tracef("%s leads in term %d, r%d: published %+v; base %d complete %v led %d, holed %v %v, read %d, tail %d, history from %d, now %d", x, x.term, k, p.readers[k],
			m.base.upto, m.base.complete, m.base.led, m.holed, m.hole, m.watch.read, len(m.tail), w.cluster.resources[k].oldest, w.cluster.now)
		x.readers[k], x.checkpoints[k] = newReader(k, m, p.readers[k], lastTerm, w)
		x.checkpoints[k].led = p.term
	}
	x.witnessLeads(lastTerm)
	for k, m := range x.mirrors {
		switch {
		case !x.reads[k]:
		case p.readers[k].many:
			x.readers[k].restate(x)
		case w.Bodies && !m.holed && m.base.upto <= p.readers[k].w:
			x.readers[k].openGate(x, m)
		}
	}
}

// demote makes the leader a standby again. What was not accepted is read again if it ever leads again.
func (x *replica) demote(why string) {
	if !x.leading {
		return
	}
	w := x.world
	w.tracef("%s no longer leads: %s", x, why)
	for k, c := range x.checkpoints {
		if c == nil {
			continue
		}
		if !w.on(RuleReadAgain) {
			c.upto = max(c.upto, x.readers[k].watch.read)
		}
		x.mirrors[k] = newMirror(k, c, w)
	}
	x.witnessEnds(x.mirrors)
	x.leading, x.queue, x.batch, x.readers, x.checkpoints = false, nil, nil, nil, nil
	x.elector.holding = false
	x.asked = nil
	x.elector.next = x.clock() + retryPeriod
}

// save writes the checkpoints to disk: as the leader what was accepted, as a standby what the leader has published.
func (x *replica) save() {
	w := x.world
	if !w.disks || x.clock() < x.diskSaved+diskInterval {
		return
	}
	x.diskSaved = x.clock()
	for k := range x.reads {
		switch {
		case !x.reads[k]:
		case x.leading && x.checkpoints[k].isWhole():
			x.disk[k] = x.checkpoints[k].clone()
		case x.leading:
		case !w.on(RuleHoleNotStored) && x.mirrors[k].started:
			m := x.mirrors[k]
			x.disk[k] = newCheckpoint()
			x.disk[k].complete, x.disk[k].inventory, x.disk[k].upto = true, m.view(), m.watch.read
		case x.mirrors[k].base.isWhole():
			x.disk[k] = x.mirrors[k].base.clone()
		}
	}
}

// tend looks after what a refusing pipeline has left behind.
func (x *replica) tend(k int) {
	c, d := x.checkpoints[k], &x.redelivery[k]
	if x.clock() < d.at {
		return
	}
	due := false
	if !c.denied.none() && !d.gapSent {
		x.push(change{reader: k, kind: kindGap, reason: reasonDropped, gap: c.denied})
		d.gapSent, due = true, true
	}
	if c.broken {
		if len(x.queue) == 0 {
			x.readers[k].restate(x)
			due = true
		}
	} else if len(c.owed) > 0 {
		x.readers[k].redeliver(x)
		due = true
	}
	if due {
		d.pause = min(max(2*d.pause, redeliverFirst), redeliverMost)
		d.at = x.clock() + d.pause
	}
	if len(c.owed) == 0 && c.denied.none() {
		d.pause = 0
	}
}

// stop stops in order: read no more, deliver what was read, publish that, release the lease, and only then end.
func (x *replica) stop() {
	if !x.stopping {
		return
	}
	early := !x.world.on(RuleDrainThenRelease)
	if early && x.leading && !x.released {
		x.released = true
		x.elector.release(x)
	}
	drained := len(x.queue) == 0 && x.batch == nil
	late := x.clock() > x.stopAt+drainTimeout
	switch {
	case x.leading && !drained && !late:
	case x.leading && !x.progress.sealed && !late:
		x.urgent = true // exchange publishes the rest
	default:
		if x.elector.holding && !x.released {
			x.released = true
			x.elector.release(x)
			x.stopAt = min(x.stopAt, x.clock()-drainTimeout) // for the answer, no longer than a call takes
			x.demote("it stops")
		}
		if x.elector.asked == nil || x.elector.asked.gaveUp() {
			x.world.tracef("%s has stopped", x)
			x.kill()
		}
	}
}
