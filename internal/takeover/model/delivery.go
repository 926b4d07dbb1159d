package model

func (x *replica) push(c change) {
	c.observed = x.world.now
	x.queue = append(x.queue, &c)
	x.witnessQueues(&c)
}

// deliver offers the queue to the pipeline in batches, in order. A batch is offered until the pipeline has accepted or
// refused each of its records.
func (x *replica) deliver() {
	for range 4 {
		if !x.leading || !x.deliverOne() {
			return
		}
	}
}

func (x *replica) deliverOne() bool {
	w := x.world
	if b := x.batch; b != nil && b.answered && !b.refuses && !b.noted {
		b.noted = true
		x.settle(b)
		x.batch = nil
		return true
	}
	if !x.isProven() {
		x.demote("the deadline has passed")
		return false
	}
	if b := x.batch; b != nil {
		switch {
		case b.noted, b.answered: // refused for now
			if !b.noted {
				b.noted = true
				x.tryAt = x.clock() + millis(w.random.IntN(1000))
			}
		case x.clock() > x.offeredAt+offerTimeout: // no answer: it is offered again
		default:
			return false
		}
		if x.clock() < x.tryAt {
			return false
		}
		x.offer(b.changes)
		return false
	}
	changes := x.cut()
	if len(changes) == 0 {
		return false
	}
	records := false
	for _, c := range changes {
		records = records || c.isRecord()
		p := x.progress.readers[c.reader]
		if c.introduces() && c.at > p.until && w.on(RuleAnnounce) || c.kind == kindEnd && !p.known && p.ended == 0 && w.on(RuleEndAnnounced) {
			x.urgent = true
			return false // it waits until the progress object says so
		}
	}
	x.queue = x.queue[len(changes):]
	if !records {
		for _, c := range changes {
			x.checkpoints[c.reader].accept(c, w)
		}
		x.witnessSettles(changes, nil)
		return true
	}
	x.witnessOffers(changes)
	for _, c := range changes {
		if !c.introduces() {
			continue
		}
		x.checkpoints[c.reader].introduce(c.uid)
		if d := x.disk[c.reader]; d != nil && d.led == x.term && w.on(RuleIntroducedOnDisk) {
			d.introduce(c.uid)
		}
	}
	x.offer(changes)
	return false
}

// cut takes the next batch. The end of a set states how many of its snapshots were accepted, so it comes after them, in
// a batch of its own.
func (x *replica) cut() []*change {
	n := min(len(x.queue), x.world.mostBatch)
	for i, c := range x.queue[:n] {
		if c.kind == kindEnd {
			n = max(i, 1)
			break
		}
	}
	return x.queue[:n:n]
}

func (x *replica) offer(changes []*change) {
	for _, c := range changes {
		if c.kind == kindEnd {
			set := &x.checkpoints[c.reader].set
			if c.count = set.accepted; !x.world.on(RuleSetCountsAccepted) {
				c.count = len(set.members)
			}
		}
	}
	b := &batch{from: x, term: x.term, changes: changes}
	x.batch, x.offeredAt = b, x.clock()
	x.world.verdict.begun(x, b)
	x.world.offer(b)
}

// settle notes the outcome of a batch.
func (x *replica) settle(b *batch) {
	w := x.world
	w.verdict.settled(x, b)
	x.witnessSettles(b.changes, b.denies)
	for i, c := range b.changes {
		if c.kind == kindGap && c.reason == reasonDropped {
			x.redelivery[c.reader].gapSent = false
		}
		checkpoint := x.checkpoints[c.reader]
		if !b.denies[i] {
			checkpoint.accept(c, w)
			continue
		}
		checkpoint.drop(c, w)
		if c.isOfObject() {
			x.readers[c.reader].dropped(c)
		}
	}
}
