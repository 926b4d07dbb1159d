package model

// elector competes for the Lease. Others' leases end when they have not changed for leaseDuration by the own clock, so
// clocks need not agree, only run at about the same rate.
type elector struct {
	holding bool
	proof   millis // when the request was sent that last proved that the lease is held, by the own clock
	lease   lease  // as last read
	changed millis // when that was first read
	free    millis // since when nobody has held it; -1: somebody does
	next    millis // time of the next try

	asked   *call
	writing bool
}

// elect tries to take or renew the lease.
func (x *replica) elect() {
	e := &x.elector
	now := x.clock()
	if e.asked != nil {
		switch {
		case e.asked.answered:
			x.elected()
		case e.asked.gaveUp():
			e.asked = nil
			e.retry(x)
		}
		return
	}
	if x.released || x.stopping && !x.leading {
		return
	}
	if e.holding && now > e.proof+renewDeadline {
		e.holding = false
	}
	if now < e.next {
		return
	}
	e.writing = false
	e.asked = x.send(func(c *call) { c.lease = x.world.cluster.lease })
}

func (e *elector) retry(x *replica) {
	e.next = x.clock() + retryPeriod
	if !e.holding {
		e.next += millis(x.world.random.IntN(int(retryPeriod * 12 / 10)))
	}
}

// elected handles an answer.
func (x *replica) elected() {
	e := &x.elector
	now := x.clock()
	answer := e.asked
	e.asked = nil
	if e.writing {
		if answer.ok {
			e.lease, e.changed, e.free = answer.lease, now, -1
			if e.lease.holder == nobody {
				return // it was released
			}
			e.holding = true
			x.world.verdict.proved(x, answer.sentLocal)
			if e.proof = answer.sentLocal; !x.world.on(RuleProofFromStart) {
				e.proof = now
			}
		}
		e.retry(x)
		return
	}
	if answer.lease != e.lease || e.changed == 0 {
		e.lease, e.changed = answer.lease, now
	}
	mine := e.lease.holder == x.identity
	if !mine && e.holding {
		e.holding = false
		x.demote("somebody else holds the lease")
	}
	if !mine && e.lease.holder != nobody && now <= e.changed+leaseDuration {
		e.free = -1
		e.retry(x)
		return
	}
	if e.free < 0 {
		e.free = now
	}
	if !mine && !x.isReady() && now < e.free+leaseDuration && x.world.on(RuleReadyFirst) {
		e.retry(x)
		return
	}
	e.write(x, x.identity)
}

// write asks for a holder of the lease, on top of what was read.
func (e *elector) write(x *replica, holder int) {
	wanted := lease{e.lease.resourceVersion, holder}
	e.writing = true
	e.asked = x.send(func(c *call) { c.lease, c.ok = x.world.cluster.putLease(wanted) })
}

// isReady reports whether the replica knows, for each of its readers, what the backend may have. Others wait, so that
// those who do can lead. A cold standby never knows before it leads.
func (x *replica) isReady() bool {
	if x.world.cold || x.leading {
		return true
	}
	if !x.fetched {
		return false
	}
	for k, m := range x.mirrors {
		if x.reads[k] && !m.ready(x.progress.readers[k], x.progress.term) {
			return false
		}
	}
	return true
}

// isProven reports whether the lease is certainly held: nobody else can hold it before leaseDuration has passed since
// the request that proved it was sent.
func (x *replica) isProven() bool {
	return x.elector.holding && x.clock() <= x.elector.proof+renewDeadline || !x.world.on(RuleDeadline)
}

// release gives the lease up, so that the next replica need not wait until it ends.
func (e *elector) release(x *replica) { e.write(x, nobody) }
