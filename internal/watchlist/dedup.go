package watchlist

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// dedup is the emitter of a reader that emits only the first and the last state of an object within an interval. The
// interval begins when a state is emitted. Later states are held back until it ends; a newer one replaces an older one.
//
// The reader treats a state that is held back like one in the queue: its position and inventory move past it. The
// checkpoint must not, or a crash would lose the state. While anything is held back, changes do not move the checkpoint's
// position. Instead it is moved to just before the oldest state held back, whenever that changes. After a crash the watch
// resumes there. The changes that were emitted in the meantime come again and are dropped as duplicates, because the
// checkpoint's inventory has the accepted version of each object, whatever its position is.
//
// Any other change of an object is emitted after the state of that object that is held back. A change that moves the
// position by itself, such as the end of a snapshot, is emitted after all states that are held back.
type dedup struct {
	next     Emitter
	options  *Options
	interval time.Duration

	mu      sync.Mutex
	windows map[Key]*window
	due     []*window // in the order in which they end
	oldest  *window   // list of the windows that hold a state back, in the order of these states' versions
	newest  *window
	passed  passage
	moved   version // where the checkpoint was last moved to

	wake chan struct{} // holds a token when the first window was opened
}

// window is the interval of one object.
type window struct {
	key        Key
	ends       time.Time
	suppressed int // states that were replaced since the last one that was emitted
	closed     bool

	held           *Change // the state that is held back, or nil
	before         version // everything up to this version came before held
	older, younger *window
}

// passage is the position of the changes that the reader has offered.
type passage struct {
	at     version  // of the last event
	before version  // all events up to this version were offered; none: unknown
	last   []Change // the events at the version at that did not move the checkpoint, as changes that do and are no records
}

// Holding bounds the bytes of the states that are held back.
type Holding struct{ left atomic.Int64 }

// NewHolding returns a bound of that many bytes.
func NewHolding(bytes int) *Holding {
	h := &Holding{}
	h.left.Store(int64(bytes))
	return h
}

// take reserves bytes and reports whether there were enough left. A negative number returns bytes.
func (h *Holding) take(bytes int) bool {
	if h == nil {
		return bytes <= 0
	}
	if h.left.Add(-int64(bytes)) < 0 && bytes > 0 {
		h.left.Add(int64(bytes))
		return false
	}
	return true
}

// heldOverhead is the approximate size of a held state without its object.
const heldOverhead = 1 << 10

func heldBytes(c *Change) int {
	if c == nil {
		return 0
	}
	return c.Bytes() + heldOverhead
}

func newDedup(o *Options) *dedup {
	return &dedup{next: o.Emitter, options: o, interval: o.DedupInterval, windows: make(map[Key]*window), wake: make(chan struct{}, 1)}
}

// start emits each held state when its window ends, in a goroutine of its own. The returned function ends that goroutine,
// waits for it, and emits all states that are still held back.
func (d *dedup) start(ctx context.Context) (stop func()) {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	running.Go(func() { d.run(ctx) })
	return func() {
		cancel()
		running.Wait()
		d.drain()
	}
}

func (d *dedup) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait, full := d.releaseDue()
		if full {
			if d.next.WaitForRoom(ctx) != nil {
				return
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// drain emits all held states. It gives up if the queue stays full: the checkpoint is before them, if there is one.
func (d *dedup) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), liveEmitTimeout)
	defer cancel()
	for !d.releaseAll() {
		if d.next.WaitForRoom(ctx) != nil {
			break
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	left := 0
	for w := d.oldest; w != nil; w = w.younger {
		left++
		d.options.Holding.take(-heldBytes(w.held))
	}
	if left > 0 {
		d.options.Logger.Warn("cannot emit the last states of some objects at shutdown, the queue is full",
			append(d.options.Scope.LogFields(), zap.Int("states", left))...)
	}
}

// WaitForRoom implements Emitter.
func (d *dedup) WaitForRoom(ctx context.Context) error { return d.next.WaitForRoom(ctx) }

// Offer implements Emitter.
func (d *dedup) Offer(c Change) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Closes || c.Rewinds || c.Type == Restated || c.Type == SnapshotBegin {
		return d.releaseAllLocked() && d.pass(c)
	}
	if c.Type == Advanced && d.oldest != nil {
		d.passed.close(parseVersion(c.ReachedVersion()))
		return true
	}
	w := d.windows[c.Key]
	if !concernsObject(c.Type) || w == nil {
		return d.pass(c)
	}
	now := time.Now()
	if c.Type == Modified && c.Origin == Live && c.IsRecord() && now.Before(w.ends) && d.canHold(&c) {
		if d.options.Holding.take(heldBytes(&c) - heldBytes(w.held)) {
			d.hold(w, c)
			return true
		}
		return d.passInstead(w, c)
	}
	if !d.release(w) {
		return false
	}
	if !now.Before(w.ends) {
		d.close(w)
	}
	return d.pass(c)
}

// concernsObject reports whether a change is about one object, whether or not it is a record.
func concernsObject(t Type) bool { return t.IsOfObject() || t == Known || t == Forgotten }

// canHold reports whether the change may be held back: a checkpoint can be kept before it only if its version is a new one.
func (d *dedup) canHold(c *Change) bool {
	rv := parseVersion(c.Object.ResourceVersion)
	return c.Advances && !rv.none() && rv != d.passed.at
}

// pass emits a change. It does not move the checkpoint while anything is held back.
func (d *dedup) pass(c Change) bool {
	if d.oldest == nil {
		if !d.offer(c) {
			return false
		}
		d.passed.move(&c, false)
	} else {
		still := c
		still.Advances = false
		if !d.offer(still) {
			return false
		}
		d.passed.move(&c, d.keeps())
	}
	switch c.Type {
	case Snapshot, Added, Modified:
		if c.IsRecord() {
			d.open(c.Key)
		}
	case Deleted, Forgotten:
		if w := d.windows[c.Key]; w != nil {
			d.close(w)
		}
	}
	return true
}

// offer emits a change, except one that is no record where no checkpoints are kept.
func (d *dedup) offer(c Change) bool {
	return !c.IsRecord() && !d.keeps() || d.next.Offer(c)
}

// keeps reports whether checkpoints are kept.
func (d *dedup) keeps() bool { return d.options.Restore != nil }

// open opens the window of an object whose state was emitted, unless it is open.
func (d *dedup) open(key Key) {
	if d.windows[key] != nil {
		return
	}
	w := &window{key: key, ends: time.Now().Add(d.interval)}
	d.windows[key] = w
	d.due = append(d.due, w)
	if len(d.due) == 1 {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// close ends a window that holds nothing back.
func (d *dedup) close(w *window) {
	w.closed = true
	if d.windows[w.key] == w {
		delete(d.windows, w.key)
	}
}

// hold holds a state back instead of the one before.
func (d *dedup) hold(w *window, c Change) {
	if w.held != nil {
		d.suppress(w)
		d.unlink(w)
	}
	d.passed.move(&c, false)
	w.held, w.before = &c, d.passed.before
	w.older, w.younger = d.newest, nil
	if d.newest != nil {
		d.newest.younger = w
	} else {
		d.oldest = w
	}
	d.newest = w
	d.moveCheckpoint()
}

// passInstead emits a state for which there are not enough bytes left, instead of the held one.
func (d *dedup) passInstead(w *window, c Change) bool {
	c.Suppressed = w.suppressed
	if w.held != nil {
		c.Suppressed++
	}
	if !d.pass(c) {
		return false
	}
	if w.held != nil {
		d.options.Holding.take(-heldBytes(w.held))
		d.suppress(w)
		d.unlink(w)
		w.held = nil
		d.moveCheckpoint()
	}
	w.suppressed = 0
	return true
}

// suppress counts the held state as one that is never emitted.
func (d *dedup) suppress(w *window) {
	w.suppressed++
	d.options.Observer.Suppressed(suppressedState)
}

func (d *dedup) unlink(w *window) {
	if w.older != nil {
		w.older.younger = w.younger
	} else {
		d.oldest = w.younger
	}
	if w.younger != nil {
		w.younger.older = w.older
	} else {
		d.newest = w.older
	}
	w.older, w.younger = nil, nil
}

// release emits the held state of a window.
func (d *dedup) release(w *window) bool {
	if w.held == nil {
		return true
	}
	c := *w.held
	c.Suppressed, c.Advances = w.suppressed, false
	if !d.offer(c) {
		return false
	}
	d.options.Holding.take(-heldBytes(w.held))
	if d.keeps() && parseVersion(c.Object.ResourceVersion) == d.passed.at {
		d.passed.note(&c)
	}
	d.unlink(w)
	w.held, w.suppressed = nil, 0
	d.moveCheckpoint()
	return true
}

// releaseDue emits the held states of the windows that have ended. It returns the time until the next one ends, or that
// the queue is full.
func (d *dedup) releaseDue() (wait time.Duration, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.due) > 0 {
		w := d.due[0]
		if wait = time.Until(w.ends); wait > 0 && !w.closed {
			return wait, false
		}
		if !d.release(w) {
			return 0, true
		}
		d.close(w)
		d.due[0] = nil
		d.due = d.due[1:]
	}
	d.due = nil
	return d.interval, false
}

func (d *dedup) releaseAll() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.releaseAllLocked()
}

func (d *dedup) releaseAllLocked() bool {
	for d.oldest != nil {
		if !d.release(d.oldest) {
			return false
		}
	}
	return true
}

// moveCheckpoint moves the checkpoint to just before the oldest held state, or to the last event if none is held back. If
// the queue is full, a later call or change moves it.
func (d *dedup) moveCheckpoint() {
	if !d.keeps() {
		return
	}
	to := d.passed.before
	if d.oldest != nil {
		to = d.oldest.before
	}
	if !to.none() && to != d.moved {
		if !d.next.Offer(d.noRecord(Change{Type: Advanced, Object: atVersion(to)})) {
			return
		}
		d.moved = to
	}
	if d.oldest != nil {
		return
	}
	for len(d.passed.last) > 0 {
		if !d.next.Offer(d.noRecord(d.passed.last[0])) {
			return
		}
		d.passed.last = d.passed.last[1:]
	}
}

func (d *dedup) noRecord(c Change) Change {
	c.Scope, c.ReadAt = &d.options.Scope, d.options.Now()
	return c
}

// move notes a change that was offered. With note, the change did not move the checkpoint.
func (p *passage) move(c *Change, note bool) {
	rv := parseVersion(c.ReachedVersion())
	switch {
	case c.Closes, c.Type == Advanced:
		p.close(rv)
	case c.Type == Restated: // it is about everything before its version
		*p = passage{at: rv}
	case c.Advances:
		if rv != p.at {
			*p = passage{at: rv, before: p.at, last: p.last[:0]}
		}
		if note {
			p.note(c)
		}
	}
}

// close notes that all events up to a version were offered.
func (p *passage) close(rv version) { *p = passage{at: rv, before: rv} }

// note adds a change that moves the checkpoint in the place of c, which did not.
func (p *passage) note(c *Change) {
	n := Change{Type: Known, Key: c.Key, Advances: true}
	if c.Type == Deleted || c.Type == Forgotten {
		n.Type = Forgotten
	}
	n.Object.Identity = c.Object.Identity.Clone()
	p.last = append(p.last, n)
}
