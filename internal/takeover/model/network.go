package model

// call is a request to the API server. It takes effect when it arrives, and its answer may be lost, late, or ignored by
// someone who has given up.
type call struct {
	from      *replica
	sentLocal millis // by the clock of the sender
	arrives   millis
	answers   millis
	do        func(*call)
	done      bool // it has taken effect
	answered  bool
	lost      bool

	// The answer.
	ok       bool // whether a write succeeded
	lease    lease
	progress progress
}

const callTimeout = 5 * second

// send sends a request. What do reads and writes is that of the time of its arrival.
func (x *replica) send(do func(*call)) *call {
	w := x.world
	c := &call{from: x, sentLocal: x.clock(), do: do}
	c.arrives = w.now + x.latency()
	c.answers = c.arrives + x.latency()
	w.calls = append(w.calls, c)
	return c
}

func (x *replica) latency() millis {
	switch n := x.world.random.IntN(100); {
	case n < 90 || x.world.Plain != nil:
		return millis(1 + x.world.random.IntN(60))
	case n < 99:
		return millis(100 + x.world.random.IntN(1500))
	default:
		return millis(2000 + x.world.random.IntN(12000)) // it waits somewhere on the way
	}
}

// gaveUp reports whether the sender no longer waits.
func (c *call) gaveUp() bool { return c.from.clock() > c.sentLocal+callTimeout }

func (w *world) deliverCalls() {
	kept := w.calls[:0]
	for _, c := range w.calls {
		cut := w.now < c.from.cutUntil
		if !c.done && !c.lost && w.now >= c.arrives {
			if c.lost = cut; !cut {
				c.do(c)
				c.done = true
			}
		}
		if c.done && w.now >= c.answers {
			if cut {
				c.lost = true
			}
			c.answered = !c.lost
			continue
		}
		if !c.lost {
			kept = append(kept, c)
		}
	}
	clear(w.calls[len(kept):])
	w.calls = kept
}
