package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Options are the seed of a run, and what differs from the usual.
type Options struct {
	Seed uint64
	// Off is a rule that is not followed; 0: all are.
	Off Rule
	// Bodies makes standbys keep whole objects behind a closed gate instead of identities: a new leader then emits what
	// it kept, and needs no history for it.
	Bodies bool

	Plain *Plain // nil: random settings

	Witness Witness // of standbys; nil: nobody looks
	Leaders Leaders // the same of leaders

	faults []fault // nil: those of the seed
	trace  bool
}

// Plain are settings without surprises, to see what a single kind of fault does.
type Plain struct {
	Replicas int
	Window   int // events in the history of each resource
	NoDisks  bool
}

const (
	tick      = millis(100)
	activeFor = 200 * second
	quietFor  = 300 * second
)

// world is one run.
type world struct {
	Options
	random     *rand.Rand
	now        millis
	cluster    *cluster
	pipeline   pipeline
	replicas   []*replica
	order      []*replica // in which they run
	calls      []*call
	laters     []later
	verdict    *verdict
	epochs     int
	identities int
	mirrors    int // so far
	leaders    int // the same

	moodUntil millis
	disks     bool // replicas have a storage
	cold      bool // standbys read nothing
	mostQueue int
	mostBatch int
	mostTail  int
	pace      int // writes in ten ticks

	schedule []fault
	lines    []string
}

func (w *world) on(r Rule) bool { return w.Off != r }

func (w *world) tracef(format string, args ...any) {
	if w.trace {
		w.lines = append(w.lines, fmt.Sprintf("%7.1fs ", float64(w.now)/1000)+fmt.Sprintf(format, args...))
	}
}

// newWorld makes the run of a seed. Faults have a random sequence of their own, so that a run without one of them is
// otherwise the same for as long as possible.
func newWorld(o Options) *world {
	settings := rand.New(rand.NewPCG(o.Seed, 1))
	w := &world{Options: o, random: rand.New(rand.NewPCG(o.Seed, 2))}
	w.disks = settings.IntN(4) > 0
	w.cold = settings.IntN(6) == 0
	w.mostQueue, w.mostBatch, w.mostTail = 5+settings.IntN(60), 2+settings.IntN(8), 60+settings.IntN(400)
	w.pace = 3 + settings.IntN(20)
	w.pipeline.poison = settings.IntN(4) == 0
	replicas, resources := 1+settings.IntN(4), 1+settings.IntN(3)
	window := func() int { return 20 + settings.IntN(40<<settings.IntN(5)) }
	if p := o.Plain; p != nil {
		w.disks, w.cold, w.pipeline.poison = !p.NoDisks, false, false
		w.mostQueue, w.mostBatch, w.mostTail, replicas = 200, 10, 100_000, p.Replicas
		window = func() int { return p.Window }
	}
	w.cluster = &cluster{server: newServer(resources, window)}
	w.verdict = newVerdict(w)
	w.cluster.lease.holder = nobody
	w.cluster.progress = progress{readers: make([]position, resources)}
	w.cluster.wrote = w.verdict.wrote
	for range 25 {
		w.write()
	}
	for i := range replicas {
		x := &replica{world: w, id: i, rate: 0.97 + 0.06*settings.Float64(), disk: make([]*checkpoint, resources)}
		for range resources {
			x.reads = append(x.reads, true)
		}
		w.replicas = append(w.replicas, x)
		x.start()
	}
	w.order = slices.Clone(w.replicas)
	if w.schedule = o.faults; w.schedule == nil {
		w.schedule = schedule(rand.New(rand.NewPCG(o.Seed, 3)), replicas, activeFor)
	}
	return w
}

func (w *world) write() {
	r := w.cluster.resources[w.random.IntN(len(w.cluster.resources))]
	w.cluster.change(r, w.random)
}

// run runs the world until everything is quiet, and judges it.
func (w *world) run() {
	next := 0
	for ; w.now < activeFor+quietFor; w.now += tick {
		active := w.now < activeFor
		if active {
			for n := w.random.IntN(w.pace); n >= 10 || n > 0 && w.random.IntN(10) < n; n -= 10 {
				w.write()
			}
			for ; next < len(w.schedule) && w.schedule[next].at <= w.now; next++ {
				w.strike(w.schedule[next])
			}
		} else if w.now == activeFor {
			w.heal()
		}
		if w.now >= w.moodUntil {
			w.pipeline.mood = moodFine
		}
		w.doLaters()
		w.deliverCalls()
		w.handleBatches()
		w.random.Shuffle(len(w.order), func(i, j int) { w.order[i], w.order[j] = w.order[j], w.order[i] })
		for _, x := range w.order {
			x.run()
		}
		w.verdict.watch()
		if !active && w.isQuiet() {
			break
		}
	}
	w.verdict.judge()
}

// heal ends all faults, and gives every replica the whole configuration.
func (w *world) heal() {
	w.tracef("all faults end")
	w.moodUntil = 0
	w.laters = nil
	for _, x := range w.replicas {
		x.pausedUntil, x.cutUntil, x.sinkCutUntil, x.slowUntil = 0, 0, 0, 0
		whole := true
		for k := range x.reads {
			whole = whole && x.reads[k]
			x.reads[k] = true
		}
		if x.nextReads = nil; !whole || x.stopping || !x.up {
			w.killFor(x, 0)
		}
	}
}

// isQuiet reports whether a leader has emitted and published everything.
func (w *world) isQuiet() bool {
	if len(w.pipeline.flying) > 0 {
		return false
	}
	for _, x := range w.replicas {
		if !x.up || !x.leading || len(x.queue) > 0 || x.batch != nil {
			continue
		}
		done := true
		for k, c := range x.checkpoints {
			for u := range c.owed {
				done = done && w.pipeline.poisoned(u)
			}
			done = done && (c.denied.none() || w.verdict.isReported(k, c.denied)) && c.isWhole() && c.upto >= w.cluster.now && w.cluster.progress.readers[k].w >= w.cluster.now
		}
		if done {
			return true
		}
	}
	return false
}
