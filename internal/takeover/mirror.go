package takeover

import (
	"context"
	"slices"
	"sync"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// maxTail is how many changes a standby holds for which the leader has not published that they were accepted. Beyond it,
// reading pauses, as that of a leader does whose queue is full.
const maxTail = 200_000

// Mirror is a standby's view of one reader. Its readers read identities only. What they read is its tail, until the leader
// has published that it was accepted; then it becomes part of the checkpoint, which is the one that the leader would write.
// It is the [watchlist.Emitter] of its reader.
type Mirror struct {
	accepted func([]watchlist.Change) // updates the checkpoint

	// IsStill asks the server whether nothing has happened after one version and up to another. nil: it is not asked.
	IsStill func(ctx context.Context, from, to string) bool

	mu   sync.Mutex
	tail []waiting
	room chan struct{} // closed when the tail has become shorter; nil: nobody waits
	base bool          // the checkpoint is complete
	bad  bool          // the resource cannot be read
	read string        // everything up to it was read in order; "": nothing was

	published string // the position that was last published
	// setBack: the reader has found that etcd was set back. The hole is then between two histories. Unless its snapshot is ahead of
	// every version that was read or published before, nothing tells which of them a published position is of, until the leader has
	// begun another generation.
	setBack, ahead bool

	// A hole is a stretch of history of which only a snapshot was read, not what came and went in it. The snapshot's changes
	// begin at holeAt of the tail. They end at holeEnd if it is complete, else with the tail. Everything up to the version
	// holeFrom was read before it.
	holed           bool
	first           bool // the hole is the first snapshot of a reader that has no checkpoint
	compactAt       int  // the length of the tail at which an incomplete hole is compacted
	holeAt, holeEnd int
	holeFrom        string
	holeTo          string // the version of the snapshot; "" while it is incomplete

	// waits is the stretch that the server is to be asked about, and asked how often it was.
	waits stretch
	asked int
}

// stretch is the history after one version and up to another.
type stretch struct{ from, to string }

// NewMirror returns the mirror of a reader that has read nothing. accepted is called with changes that the leader has
// published as accepted, in order.
func NewMirror(accepted func([]watchlist.Change)) *Mirror { return &Mirror{accepted: accepted} }

// Restored notes the checkpoint from which the reader continues.
func (m *Mirror) Restored(p watchlist.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.base, m.read = p.ResourceVersion != "" && p.Takeover == nil, p.ResourceVersion
}

// SetFault notes whether the resource cannot be read at present, for instance because a right is missing.
func (m *Mirror) SetFault(isFault bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bad = isFault
}

// Offer implements watchlist.Emitter. A snapshot is never kept waiting: the leader's position passes it only as a whole.
func (m *Mirror) Offer(c watchlist.Change) bool {
	stored, ok := m.offer(c)
	if stored {
		identity := waitingOf(&c)
		m.accepted([]watchlist.Change{identity.change()})
	}
	return ok
}

// offer reports whether there was room for a change, or whether it is to be stored instead. While a reader without a
// checkpoint reads its first snapshot, nobody relies on what is stored: without a position it is no checkpoint. So the
// objects need not wait in the tail, where they would take more than in the checkpoint, but only the position does.
func (m *Mirror) offer(c watchlist.Change) (stored, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inSnapshot := m.holed && m.holeTo == ""
	if len(m.tail) >= maxTail && !inSnapshot && c.Type != watchlist.Ended {
		return false, false
	}
	if inSnapshot && len(m.tail) >= m.compactAt {
		m.compactLocked()
	}
	switch {
	case !beginsHole(&c), inSnapshot:
	case m.holed:
		m.holeTo = "" // what was read in between becomes part of the hole
		m.compactAt = len(m.tail) + maxTail
	default:
		m.compactAt = len(m.tail) + maxTail
		m.holed, m.holeAt, m.holeFrom, m.holeTo = true, len(m.tail), m.read, ""
		m.first = !m.base && m.read == ""
	}
	m.setBack = m.setBack || c.IsOfSetBack()
	if m.first && isBare(&c) {
		return true, true
	}
	m.tail = append(m.tail, waitingOf(&c))
	if m.holed && m.holeTo == "" && (c.Closes || c.Verifies) {
		m.holeTo, m.holeEnd, m.first = c.ReachedVersion(), len(m.tail), false
		m.ahead = watchlist.VersionBefore(later(m.published, m.read), m.holeTo)
	}
	switch {
	case c.Closes, c.Type == watchlist.Advanced:
		m.read = later(m.read, c.ReachedVersion())
	case c.Advances:
		m.read = later(m.read, c.Object.ResourceVersion)
	}
	return false, true
}

// compactLocked removes from an incomplete hole what later changes of the same objects supersede, since it settles as a whole.
// Otherwise it would grow for as long as snapshots fail beside a stream.
func (m *Mirror) compactLocked() {
	hole := m.tail[m.holeAt:]
	last := make(map[watchlist.Key]watchlist.Type)
	first := len(hole)
	for i := len(hole) - 1; i >= 0; i-- {
		c := &hole[i]
		if c.typ.IsOfObject() || c.typ == watchlist.Known || c.typ == watchlist.Unchanged || c.typ == watchlist.Forgotten {
			// One that says that nothing has changed is to be read with the change before it.
			if later, ok := last[c.key]; ok && (later != watchlist.Unchanged || c.typ == watchlist.Unchanged) {
				continue
			}
			last[c.key] = c.typ
		}
		first--
		hole[first] = *c
	}
	n := copy(hole, hole[first:])
	clear(hole[n:])
	m.tail = m.tail[:m.holeAt+n]
	m.compactAt = len(m.tail) + max(n, maxTail)
}

// isBare reports whether a change concerns one object and moves no position.
func isBare(c *watchlist.Change) bool {
	switch c.Type {
	case watchlist.Known, watchlist.Deleted, watchlist.Forgotten:
		return !c.Advances && !c.Closes && !c.Verifies
	}
	return false
}

// beginsHole reports whether a change belongs to a snapshot that stands for history.
func beginsHole(c *watchlist.Change) bool {
	return c.Type == watchlist.Suspected || c.Type == watchlist.Known || c.Origin == watchlist.Initial || c.Closes
}

// WaitForRoom implements watchlist.Emitter.
func (m *Mirror) WaitForRoom(ctx context.Context) error {
	m.mu.Lock()
	if len(m.tail) < maxTail {
		m.mu.Unlock()
		return nil
	}
	if m.room == nil {
		m.room = make(chan struct{})
	}
	room := m.room
	m.mu.Unlock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Settle moves the checkpoint to what the leader has published.
func (m *Mirror) Settle(p *Position) {
	if !p.Known() || p.SetBack {
		return
	}
	m.mu.Lock()
	m.published = p.W
	n := m.settledLocked(p)
	settled := m.tail[:n:n]
	m.tail = m.tail[n:]
	if len(m.tail) == 0 {
		m.tail = nil // or it would keep all the memory of its longest
	}
	if n > 0 && m.room != nil {
		close(m.room)
		m.room = nil
	}
	m.mu.Unlock()
	for chunk := range slices.Chunk(settled, 512) { // a change takes much more memory than one that waits
		changes := make([]watchlist.Change, len(chunk))
		for i := range chunk {
			changes[i] = chunk[i].change()
		}
		m.accepted(changes)
	}
}

// settledLocked returns how many changes of the tail were accepted. The net result of a hole is known as a whole.
func (m *Mirror) settledLocked(p *Position) int {
	n := 0
	for n < len(m.tail) {
		if m.holed && n == m.holeAt {
			if m.holeTo == "" || !p.passed(m.holeTo) || m.setBack && !m.ahead {
				break
			}
			n = m.holeEnd
			m.holed, m.base, m.setBack = false, true, false
			continue
		}
		if c := &m.tail[n]; c.version() != "" && !p.covers(c.version(), c.key) {
			break
		}
		n++
	}
	if m.holed {
		m.holeAt -= n
		m.holeEnd -= n
	}
	return n
}

// IsReady reports whether a takeover would know which objects the backend may have, or waiting for that is of no use. led:
// this replica led last, and has stored what it offered.
func (m *Mirror) IsReady(p *Position, led bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bad || m.readyLocked(p, led)
}

func (m *Mirror) readyLocked(p *Position, led bool) bool {
	switch {
	case m.holed && m.holeTo == "", m.read == "":
		return false // a snapshot is being read
	case !p.Known(), p.SetBack && !led:
		return true // whoever leads emits the initial state
	case !m.base:
		return false
	case led:
		return true
	case m.setBack:
		return false
	}
	return atLeast(m.contiguousLocked(), p.until())
}

// contiguousLocked is the version up to which everything is known that was created, even if it is gone.
func (m *Mirror) contiguousLocked() string {
	if m.holed {
		return m.holeFrom
	}
	return m.read
}

// atLeast reports whether a version is another one or later.
func atLeast(a, b string) bool { return a == b || watchlist.VersionBefore(b, a) }

// Whole reports whether the checkpoint, once it has followed the position, holds every object that was emitted, together
// with those that it returns: they may have been, after the position.
func (m *Mirror) Whole(p *Position, led bool) (perhaps []redact.Identity, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.base || !m.readyLocked(p, led) {
		return nil, false
	}
	end := len(m.tail)
	if m.holed {
		end = m.holeAt
	}
	for i := range m.tail[:end] {
		c := &m.tail[i]
		if c.typ == watchlist.Added && atLeast(p.until(), c.id.ResourceVersion) {
			perhaps = append(perhaps, c.id)
		}
	}
	return perhaps, true
}

// maxAsked is how often the server is asked about the same stretch. Another server than the leader's may lag behind for a while.
const maxAsked = 3

// isToAsk returns the stretch from the published position up to the snapshot, and reports whether nothing else keeps the mirror
// from being ready. It has to be the same stretch as at the last call: where something happens, the leader passes it much sooner.
func (m *Mirror) isToAsk(p *Position) (about stretch, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.IsStill == nil || !m.holed || m.holeTo == "" || m.bad || m.setBack || !p.Known() || !p.Closed || p.Anew || p.SetBack || p.passed(m.holeTo) || m.readyLocked(p, false) {
		m.waits = stretch{}
		return stretch{}, false
	}
	about = stretch{p.W, m.holeTo}
	if m.waits != about {
		m.waits, m.asked = about, 0
		return stretch{}, false
	}
	m.asked++
	return about, m.asked <= maxAsked
}

// still notes that nothing has happened in a stretch. Then the position at its end is the published one.
func (m *Mirror) still(about stretch) {
	m.mu.Lock()
	isSame := m.holed && m.holeTo == about.to
	m.mu.Unlock()
	if isSame {
		m.Settle(&Position{W: about.to, Closed: true})
	}
}

// isSetBack reports whether the reader has found that etcd was set back, which the leader has not published yet.
func (m *Mirror) isSetBack() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.setBack
}

// Tail returns how many changes wait for the leader.
func (m *Mirror) Tail() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.tail)
}

// Mirrors holds the mirrors of a standby.
type Mirrors struct {
	mu  sync.Mutex
	all map[scope.Scope]*Mirror
}

// NewMirrors returns an empty set.
func NewMirrors() *Mirrors { return &Mirrors{all: make(map[scope.Scope]*Mirror)} }

// Add adds the mirror of a scope.
func (s *Mirrors) Add(of scope.Scope, m *Mirror) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[of] = m
}

// Of returns the mirror of a scope, or nil.
func (s *Mirrors) Of(of scope.Scope) *Mirror {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[of]
}

// each calls f with every mirror.
func (s *Mirrors) each(f func(of scope.Scope, m *Mirror)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, m := range s.all {
		f(of, m)
	}
}

// SetBack returns the readers that have found that etcd was set back, by their keys in the progress.
func (s *Mirrors) SetBack() (keys []string) {
	s.each(func(of scope.Scope, m *Mirror) {
		if m.isSetBack() {
			keys = append(keys, Key(of))
		}
	})
	return keys
}

// Settle moves every checkpoint to what the leader has published.
func (s *Mirrors) Settle(p *Progress) {
	s.each(func(of scope.Scope, m *Mirror) {
		if published, ok := p.Readers[Key(of)]; ok {
			m.Settle(&published)
		}
	})
}

// maxAsking bounds how many questions are asked at once. Each is an open watch for a few seconds.
const maxAsking = 32

// Ask asks the server about the mirrors that would be ready if nothing has happened since the leader's last bookmark. On a
// resource that does not change, its next one can take a minute.
func (s *Mirrors) Ask(ctx context.Context, p *Progress) {
	var asking sync.WaitGroup
	slots := make(chan struct{}, maxAsking)
	s.each(func(of scope.Scope, m *Mirror) {
		published := p.Readers[Key(of)]
		about, ok := m.isToAsk(&published)
		if !ok {
			return
		}
		asking.Go(func() {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-slots }()
			if m.IsStill(ctx, about.from, about.to) {
				m.still(about)
			}
		})
	})
	asking.Wait()
}

// Ready reports how many of the mirrors are ready.
func (s *Mirrors) Ready(p *Progress, led bool) (ready, of int) {
	s.each(func(is scope.Scope, m *Mirror) {
		published := p.Readers[Key(is)]
		if of++; m.IsReady(&published, led) {
			ready++
		}
	})
	return ready, of
}

// Continued reports how many of the mirrors' readers would continue from a published position, and how many would begin anew.
func (s *Mirrors) Continued(p *Progress) (continued, anew int) {
	s.each(func(of scope.Scope, _ *Mirror) {
		if at := p.Readers[Key(of)]; at.continues() {
			continued++
		} else {
			anew++
		}
	})
	return continued, anew
}

// Handover returns from where a leader's reader continues. m is its mirror in this replica, or nil, and own is its checkpoint.
func (p *Progress) Handover(of scope.Scope, m *Mirror, own checkpoint.Own, led bool) checkpoint.Handover {
	published := p.Readers[Key(of)]
	h := published.handover()
	h.Generation, h.SetBack = p.Generation, published.SetBack
	isWhole := m != nil && own.ResourceVersion != "" && !own.Incomplete
	switch {
	case !published.Known():
		h.Anew, h.FromRV = true, published.Ended
	case published.Anew, h.SetBack && (!led || !isWhole): // only the last leader knows what it has emitted since
		h.Anew, h.FromRV, h.ResourceVersion = true, published.W, ""
	case isWhole:
		h.Perhaps, h.Whole = m.Whole(&published, led)
		h.Whole = h.Whole || h.SetBack // it has stored what it offered
	}
	return h
}
