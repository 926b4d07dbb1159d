package elector

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// badExtension calls like the real one: everyone in turn and with a lock held. A receiver before us may take its time.
type badExtension struct {
	mu          sync.Mutex
	leads       bool
	before      time.Duration // how long another receiver's callback takes
	start       func(context.Context)
	stop        func()
	slowest     time.Duration // of our callbacks
	registering time.Duration // how long registering takes
}

func (b *badExtension) SetCallBackFuncs(start func(context.Context), stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	time.Sleep(b.registering)
	b.start, b.stop = start, stop
	if b.leads {
		b.call(func() { start(context.Background()) })
	}
}

func (b *badExtension) call(callback func()) {
	began := time.Now()
	callback()
	b.slowest = max(b.slowest, time.Since(began))
}

func (b *badExtension) startedLeading(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leads = true
	time.Sleep(b.before)
	b.call(func() { b.start(ctx) })
}

func (b *badExtension) stoppedLeading() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leads = false
	time.Sleep(b.before)
	b.call(b.stop)
}

// follower is an Extension that runs.
type follower struct {
	*Extension
	extension *badExtension
	live      context.Context // that the extension may give
	end       func()          // and waits
}

func follow(t *testing.T, b *badExtension) *follower {
	t.Helper()
	f := &follower{extension: b, Extension: NewExtension(ExtensionOptions{Callbacks: b, RenewDeadline: renewDeadline, LeaseDuration: leaseDuration})}
	ctx, cancel := context.WithCancel(t.Context())
	f.live = t.Context()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	f.end = func() {
		began := time.Now()
		cancel()
		<-done
		assert.Zero(t, time.Since(began), "the end waited for the extension")
	}
	t.Cleanup(f.end)
	synctest.Wait()
	return f
}

// prove writes the own term, as of now.
func (f *follower) prove(term int) { f.Proved(term, time.Now()) }

func (f *follower) is() string {
	switch candidate, leads := f.Candidate(), f.Leads(); {
	case leads && candidate:
		return "leads"
	case leads:
		return "leads and is no candidate"
	case candidate:
		return "candidate"
	}
	return "nothing"
}

// Each case does something to a replica and to its extension, and states what the replica is afterwards.
func TestCallbacks(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for name, test := range map[string]struct {
		extension func(*badExtension)
		do        func(f *follower)
		want      string
	}{
		"before any call":  {do: func(*follower) {}, want: "nothing"},
		"start":            {do: func(f *follower) { f.start(f.live) }, want: "candidate"},
		"start and proof":  {do: func(f *follower) { f.start(f.live); f.prove(1) }, want: "leads"},
		"proof alone":      {do: func(f *follower) { f.prove(1) }, want: "nothing"},
		"proof then start": {do: func(f *follower) { f.prove(1); time.Sleep(time.Second); f.start(f.live) }, want: "candidate"},
		"start twice":      {do: func(f *follower) { f.start(f.live); f.prove(1); f.start(f.live) }, want: "leads"},
		"start twice and stop": {do: func(f *follower) {
			f.start(f.live)
			f.prove(1)
			f.start(f.live)
			f.stop()
		}, want: "nothing"},
		"stop alone":        {do: func(f *follower) { f.stop(); f.stop() }, want: "nothing"},
		"stop before start": {do: func(f *follower) { f.stop(); f.start(gone) }, want: "nothing"},
		"started again": {do: func(f *follower) {
			f.start(f.live)
			f.prove(1)
			f.stop()
			f.start(f.live)
		}, want: "candidate"},
		"started again, and an answer to the term before": {do: func(f *follower) {
			f.start(f.live)
			sent := time.Now()
			time.Sleep(time.Second)
			f.stop()
			f.start(f.live)
			f.Proved(1, sent)
		}, want: "candidate"},
		"context ended, and stop is late": {do: func(f *follower) {
			ctx, cancel := context.WithCancel(f.live)
			f.start(ctx)
			f.prove(1)
			cancel()
		}, want: "nothing"},
		"context ended, and started again before stop": {do: func(f *follower) {
			ctx, cancel := context.WithCancel(f.live)
			f.start(ctx)
			f.prove(1)
			cancel()
			time.Sleep(time.Second)
			f.start(f.live)
		}, want: "candidate"},
		"led when registered":     {extension: func(b *badExtension) { b.leads = true }, do: func(f *follower) { f.prove(1) }, want: "leads"},
		"called after the end":    {do: func(f *follower) { f.end(); f.start(f.live); f.prove(1); f.stop(); f.start(f.live) }, want: "nothing"},
		"ended as the leader":     {do: func(f *follower) { f.start(f.live); f.prove(1); f.end() }, want: "nothing"},
		"ended while registering": {extension: func(b *badExtension) { b.leads = true; b.registering = time.Hour }, do: func(f *follower) { f.end(); time.Sleep(2 * time.Hour) }, want: "nothing"},
		"behind a slow receiver": {extension: func(b *badExtension) { b.before = time.Minute }, do: func(f *follower) {
			f.extension.startedLeading(f.live)
			f.prove(1)
		}, want: "leads"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				extension := &badExtension{}
				if test.extension != nil {
					test.extension(extension)
				}
				f := follow(t, extension)
				test.do(f)
				assert.Equal(t, test.want, f.is())
				synctest.Wait()
				assert.Equal(t, test.want, f.is())
				f.end()
				time.Sleep(2 * time.Hour) // until it has registered
				extension.mu.Lock()
				defer extension.mu.Unlock()
				assert.Zero(t, extension.slowest, "a callback waited")
			})
		})
	}
}

// Leadership lasts as long as its last proof, and every change of it is signalled.
func TestExtensionDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, &badExtension{leads: true})
		next := func(want string) time.Time {
			t.Helper()
			<-f.Changes()
			assert.Equal(t, want, f.is())
			return time.Now()
		}
		next("candidate")
		began := time.Now()
		f.Proved(1, began)
		next("leads")
		time.Sleep(renewDeadline / 2)
		f.Proved(1, began.Add(3*time.Second))
		deadline, leads := f.Deadline()
		assert.True(t, leads)
		assert.Equal(t, began.Add(3*time.Second+renewDeadline), deadline)
		f.Proved(1, began.Add(2*time.Second)) // an answer that comes late shortens nothing
		assert.WithinDuration(t, deadline, next("candidate"), 2*time.Millisecond)
		_, leads = f.Deadline()
		assert.False(t, leads)
		f.prove(1)
		next("leads")
		f.extension.stoppedLeading()
		next("nothing")
		f.extension.startedLeading(f.live)
		next("candidate")
		f.end()
		next("nothing")
	})
}

// Whoever begins to lead waits until the deadline of the leader before is certainly over.
func TestOtherReplicaMayStillLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, &badExtension{})
		f.OtherTerm(7, time.Now())
		time.Sleep(5 * time.Second)
		f.OtherTerm(7, time.Now())
		read := time.Now()
		f.extension.startedLeading(f.live)
		for time.Since(read) < renewDeadline {
			f.prove(8)
			require.Equal(t, "candidate", f.is(), time.Since(read))
			time.Sleep(time.Second)
		}
		for f.is() != "leads" {
			f.prove(8)
			time.Sleep(10 * time.Millisecond)
			require.Less(t, time.Since(read), leaseDuration)
		}
		assert.Greater(t, time.Since(read), renewDeadline*6/5)
	})
}

// Usually the leader before has not written for so long that its successor leads at once.
func TestOtherReplicaIsLongGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, &badExtension{})
		f.OtherTerm(7, time.Now())
		time.Sleep(leaseDuration)
		f.extension.startedLeading(f.live)
		f.prove(8)
		assert.Equal(t, "leads", f.is())
	})
}

// A replica whose term was replaced leaves the other one alone, although its extension does not know yet.
func TestReplacedTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, &badExtension{})
		f.OtherTerm(7, time.Now())
		time.Sleep(time.Minute)
		f.extension.startedLeading(f.live)
		f.OtherTerm(7, time.Now())
		assert.Equal(t, "candidate", f.is(), "the leader before has not noticed yet")
		f.prove(8)
		time.Sleep(leaseDuration) // the process was stopped
		f.OtherTerm(9, time.Now())
		assert.Equal(t, "nothing", f.is())
		sent := time.Now()
		time.Sleep(leaseDuration - time.Second)
		assert.Equal(t, "nothing", f.is())
		time.Sleep(2 * time.Second)
		assert.Equal(t, "candidate", f.is(), "it is still told to lead, so the other replica is mistaken")
		f.Proved(9, sent.Add(-time.Second))
		assert.Equal(t, "candidate", f.is(), "a write of the old term")
		f.prove(10)
		assert.Equal(t, "leads", f.is())
		f.OtherTerm(11, time.Now())
		f.extension.stoppedLeading()
		f.extension.startedLeading(f.live)
		assert.Equal(t, "candidate", f.is(), "the extension says so again")
	})
}

// Replicas whose extensions call what they like, also several at once, and whose processes are stopped at any time: never
// do two lead, nor does one begin a batch after one of a later term. In the end one leads.
func TestExtensionsThatAreMistaken(t *testing.T) {
	batches, terms := 0, 0
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0))}
			for i := range 3 {
				r := &process{world: w, identity: i, follower: follow(t, &badExtension{})}
				w.processes = append(w.processes, r)
			}
			w.run()
			batches += w.batches
			terms += w.object.term
		})
	}
	t.Logf("%d batches in %d terms", batches, terms)
	assert.Greater(t, batches, 5000)
	assert.Greater(t, terms, 200)
}

// world is the API server with the progress object, and what is observed of the replicas.
type world struct {
	t         *testing.T
	seed      uint64
	processes []*process
	calm      time.Time // from then on there are no faults

	mu      sync.Mutex
	random  *rand.Rand
	object  progress
	newest  int // the highest term of a batch
	batches int
}

type progress struct{ version, term, holder int }

func (w *world) below(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) run() {
	w.calm = time.Now().Add(10 * time.Minute)
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	for _, p := range w.processes {
		all.Go(func() { p.write(ctx) })
		all.Go(func() { p.deliver(ctx) })
	}
	for time.Now().Before(w.calm) {
		time.Sleep(time.Duration(w.below(20_000)) * time.Millisecond)
		p := w.processes[w.below(len(w.processes))]
		switch w.below(5) {
		case 0, 1:
			p.extension.startedLeading(p.live)
		case 2:
			p.extension.stoppedLeading()
		case 3: // as usual
			for _, other := range w.processes {
				other.extension.stoppedLeading()
			}
			p.extension.startedLeading(p.live)
		case 4:
			p.pause(time.Duration(w.below(60_000)) * time.Millisecond)
		}
	}
	last := w.processes[0]
	for _, p := range w.processes {
		p.extension.stoppedLeading()
	}
	last.extension.startedLeading(last.live)
	time.Sleep(time.Minute + renewDeadline*6/5 + 10*time.Second) // after the longest pause
	assert.Equal(w.t, "leads", last.is(), "seed %d", w.seed)
	cancel()
	all.Wait()
}

// process is a replica with what writes its term into the progress object, and what delivers batches.
type process struct {
	*world
	*follower
	identity int

	mu    sync.Mutex
	until time.Time // the process is stopped
	term  int       // its own; 0: none
	read  progress
}

func (p *process) pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(d)
}

// step is a point at which the process may be stopped.
func (p *process) step(ctx context.Context, d time.Duration) {
	for {
		p.mu.Lock()
		d = max(d, time.Until(p.until))
		p.mu.Unlock()
		if d <= 0 || ctx.Err() != nil {
			return
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		d = 0
	}
}

func (p *process) write(ctx context.Context) {
	delay := func() time.Duration { return time.Duration(p.below(300)) * time.Millisecond }
	for ctx.Err() == nil {
		p.step(ctx, time.Second)
		if !p.Candidate() {
			p.mu.Lock()
			p.term = 0
			p.mu.Unlock()
		}
		p.mu.Lock()
		wanted := p.read
		wanted.holder, wanted.term = p.identity+1, p.term
		p.mu.Unlock()
		if wanted.term == 0 {
			wanted.term = p.read.term + 1
		}
		if !p.Candidate() || !p.put(ctx, wanted, delay) {
			p.get(ctx, delay)
		}
	}
}

func (p *process) put(ctx context.Context, wanted progress, delay func() time.Duration) bool {
	sent := time.Now()
	p.step(ctx, delay())
	w := p.world
	w.mu.Lock()
	ok := w.object.version == wanted.version
	if ok {
		wanted.version++
		w.object = wanted
	}
	w.mu.Unlock()
	p.step(ctx, delay())
	if !ok {
		return false
	}
	p.mu.Lock()
	p.read, p.term = wanted, wanted.term
	p.mu.Unlock()
	p.Proved(wanted.term, sent)
	return true
}

func (p *process) get(ctx context.Context, delay func() time.Duration) {
	p.step(ctx, delay())
	w := p.world
	w.mu.Lock()
	object := w.object
	w.mu.Unlock()
	p.step(ctx, delay())
	p.mu.Lock()
	changed := object.version != p.read.version
	p.read = object
	other := object.holder != p.identity+1
	if other {
		p.term = 0
	}
	p.mu.Unlock()
	if changed && other {
		p.OtherTerm(object.term, time.Now())
	}
}

func (p *process) deliver(ctx context.Context) {
	w := p.world
	for ctx.Err() == nil {
		p.step(ctx, 100*time.Millisecond)
		p.mu.Lock()
		term := p.term
		p.mu.Unlock()
		if term == 0 || !p.Leads() {
			continue
		}
		for _, other := range w.processes {
			if other != p && other.Leads() {
				w.t.Errorf("seed %d: %d and %d lead", w.seed, p.identity, other.identity)
			}
		}
		w.mu.Lock()
		if term < w.newest {
			w.t.Errorf("seed %d: a batch of term %d after one of term %d", w.seed, term, w.newest)
		}
		w.newest = max(w.newest, term)
		w.batches++
		w.mu.Unlock()
	}
}
