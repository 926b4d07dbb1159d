package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

type faultKind uint8

const (
	faultKill         faultKind = iota // kill -9; started again after a while
	faultLoseDisk                      // the same, and its disk is gone
	faultPause                         // SIGSTOP, later SIGCONT
	faultCut                           // no connection to the API server
	faultCutSink                       // no connection to the pipeline
	faultSlow                          // its watches deliver nothing
	faultStop                          // an orderly stop; started again after a while
	faultConfig                        // the same, and it is started with another configuration, which lacks a reader
	faultKillAll                       // all replicas are killed, and started at different times
	faultKillAllTwice                  // and killed again soon after
	faultLeaderGone                    // the leader is killed, and its disk is gone
	faultLag                           // the leader stops while the watches of the others deliver nothing
	faultForget                        // the API server's history of one resource is gone
	faultForgetAll                     // of all
	faultMood                          // the pipeline changes its mood
	faultKinds
)

var faultNames = [...]string{"kill", "lose disk of", "pause", "cut off", "cut from pipeline", "slow watches of", "stop", "reconfigure", "kill all", "kill all twice",
	"kill the leader and its disk", "stop the leader before lagging", "forget history of", "forget all history", "pipeline"}

// fault is one entry of the schedule.
type fault struct {
	at    millis
	kind  faultKind
	which int
	lasts millis
	// spread are the additional times after which replicas are started when all were killed.
	spread []millis
}

func (f fault) String() string {
	s := fmt.Sprintf("%6.1fs %s", float64(f.at)/1000, faultNames[f.kind])
	if f.kind == faultMood {
		s += " " + moodNames[f.which%int(moods)]
	} else {
		s += fmt.Sprintf(" %d", f.which)
	}
	return s + fmt.Sprintf(" for %.1fs", float64(f.lasts)/1000)
}

// schedule makes the faults of a seed.
func schedule(random *rand.Rand, replicas int, until millis) []fault {
	pace := 2000 + random.IntN(12_000)
	var faults []fault
	for at := millis(random.IntN(10_000)); ; {
		at += millis(random.IntN(2 * pace))
		if at >= until {
			return faults
		}
		f := fault{at: at, kind: faultKind(random.IntN(int(faultKinds))), which: random.IntN(60)}
		if f.kind >= faultKillAll && f.kind <= faultLeaderGone && random.IntN(2) == 0 {
			f.kind = faultMood
		}
		f.lasts = millis(random.IntN(1000 << random.IntN(7)))
		for range replicas {
			f.spread = append(f.spread, millis(random.IntN(500<<random.IntN(7))))
		}
		faults = append(faults, f)
	}
}

// later is something that the world does at a time.
type later struct {
	at millis
	do func()
}

func (w *world) after(d millis, do func()) { w.laters = append(w.laters, later{w.now + d, do}) }

func (w *world) doLaters() {
	due := w.laters
	w.laters = nil
	for _, l := range due {
		if l.at <= w.now {
			l.do()
		} else {
			w.laters = append(w.laters, l)
		}
	}
}

// strike lets a fault happen.
func (w *world) strike(f fault) {
	w.tracef("fault: %s", f)
	x := w.replicas[f.which%len(w.replicas)]
	end := w.now + f.lasts
	switch f.kind {
	case faultKill:
		w.killFor(x, f.lasts)
	case faultLoseDisk:
		clear(x.disk)
		w.killFor(x, f.lasts)
	case faultPause:
		x.pausedUntil = max(x.pausedUntil, end)
	case faultCut:
		x.cutUntil = max(x.cutUntil, end)
	case faultCutSink:
		x.sinkCutUntil = max(x.sinkCutUntil, end)
	case faultSlow:
		x.slowUntil = max(x.slowUntil, end)
	case faultStop, faultConfig:
		if f.kind == faultConfig {
			x.nextReads = slices.Clone(x.reads)
			for k := range x.nextReads {
				x.nextReads[k] = len(x.reads) == 1 || k != f.which%len(x.reads)
			}
		}
		w.stopFor(x, f.lasts)
	case faultKillAll:
		w.killAll(f)
	case faultKillAllTwice:
		w.killAll(f)
		w.after(f.lasts+second*5, func() { w.killAll(f) })
	case faultLeaderGone:
		for _, y := range w.replicas {
			if y.leading {
				clear(y.disk)
				w.killFor(y, f.lasts)
			}
		}
	case faultLag:
		for _, y := range w.replicas {
			if !y.leading {
				y.slowUntil = max(y.slowUntil, end+20*second)
			} else {
				w.after(second*3, func() { w.stopFor(y, f.lasts) })
			}
		}
	case faultForget:
		w.cluster.forget(w.cluster.resources[f.which%len(w.cluster.resources)])
	case faultForgetAll:
		for _, r := range w.cluster.resources {
			w.cluster.forget(r)
		}
	case faultMood:
		w.pipeline.mood = mood(f.which % int(moods))
		w.moodUntil = end
	}
}

func (w *world) killAll(f fault) {
	for i, x := range w.replicas {
		w.killFor(x, f.spread[i])
	}
}

func (w *world) killFor(x *replica, d millis) {
	if x.up {
		x.kill()
	}
	w.startLater(x, d)
}

// startLater starts a replica after a while, unless it is running by then.
func (w *world) startLater(x *replica, d millis) {
	w.after(d, func() {
		if !x.up {
			w.tracef("%s starts", x)
			if x.nextReads != nil {
				x.reads, x.nextReads = x.nextReads, nil
			}
			x.pausedUntil = 0
			x.start()
		}
	})
}

// stopFor stops a replica in order, and starts it again after a while, or once it has stopped.
func (w *world) stopFor(x *replica, d millis) {
	if !x.up || x.stopping {
		return
	}
	x.stopping, x.stopAt = true, x.clock()
	var again func()
	again = func() {
		if x.up && x.stopping {
			w.after(second, again)
			return
		}
		w.startLater(x, 0)
	}
	w.after(max(d, second), again)
}
