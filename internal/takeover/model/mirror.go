package model

import (
	"maps"
	"slices"
)

func sortedKeys[V any](m map[uid]V) []uid {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// watch is a stream of the events of a resource after a version. Events of one version arrive one by one, and that they
// are complete is known only when a later one or a bookmark arrives.
type watch struct {
	read   version // everything up to it was read
	openAt version // of the version after it, these objects
	seen   []uid
	cursor int // of the open stream in the log; -1: not open
}

func watchFrom(read version) watch { return watch{read: read, cursor: -1} }

// open opens the stream if it is not, and reports whether the server still has the history.
func (s *watch) open(r *resource) bool {
	if s.cursor < 0 {
		if !r.keeps(s.read) {
			return false
		}
		s.cursor = r.after(s.read)
	}
	return true
}

// next returns the next event that was not read yet.
func (s *watch) next(r *resource) (event, bool) {
	for s.cursor < len(r.log) {
		e := r.log[s.cursor]
		s.cursor++
		if e.at == s.openAt && slices.Contains(s.seen, e.uid) {
			continue
		}
		if e.at != s.openAt {
			s.read, s.openAt, s.seen = e.at-1, e.at, nil
		}
		s.seen = append(s.seen[:len(s.seen):len(s.seen)], e.uid)
		return e, true
	}
	return event{}, false
}

// bookmark notes that everything up to a version was read.
func (s *watch) bookmark(at version) { s.read, s.openAt, s.seen = at, 0, nil }

// sighting is a change that a standby has read and that the leader has not published yet.
type sighting struct {
	event
	net bool // not from the watch: a difference between two snapshots
}

// mirror is a standby's view of one reader. It reads identities and versions only. Its base is the checkpoint that the
// leader would have written at the published position, its tail what was read after that.
type mirror struct {
	reader  int
	base    *checkpoint
	tail    []sighting
	watch   watch
	started bool // the resource was read

	// What happened in the hole is not known, only its net result.
	holed bool
	hole  span

	opened  version // of the last event before the hole
	witness Witness // nil: nobody looks
	number  int
	numbers func() int // returns the next number
}

func newMirror(reader int, base *checkpoint, w *world) *mirror {
	m := &mirror{reader: reader, base: base, witness: w.Witness, numbers: func() int { w.mirrors++; return w.mirrors }}
	if base.isWhole() {
		m.started, m.watch = true, watchFrom(base.upto)
	} else {
		m.base = newCheckpoint()
	}
	m.witnessBegin()
	return m
}

// follow reads up to n events, and takes a snapshot if the history is gone or there is nothing to continue from.
func (m *mirror) follow(r *resource, s *server, n int, w *world) {
	switch {
	case !m.started:
		m.jump(r, s.now, -1)
	case !m.watch.open(r):
		m.jump(r, s.now, m.contiguous())
	case len(m.tail) > w.mostTail && w.Bodies: // the queue is full, as for a leader whose pipeline blocks
		m.watch.cursor = -1
		return
	case len(m.tail) > w.mostTail: // memory is bounded: begin again from the base, which is known
		m.tail, m.holed, m.watch.openAt = nil, false, 0
		known := version(-1)
		if m.base.complete {
			known = m.base.upto
		}
		m.witnessBegin()
		m.jump(r, s.now, known)
	}
	for ; n > 0; n-- {
		e, ok := m.watch.next(r)
		if !ok {
			if w.random.IntN(10) == 0 {
				m.watch.bookmark(s.now)
				if m.witness != nil {
					m.witness.Bookmark(m.number, int(s.now))
				}
			}
			return
		}
		if m.witness != nil {
			m.witness.Read(m.number, e.seen())
		}
		m.tail = append(m.tail, sighting{event: e})
	}
}

// jump reads a snapshot, which hides what came and went since known.
func (m *mirror) jump(r *resource, now, known version) {
	view, before := m.view(), len(m.tail)
	for _, u := range r.sorted() {
		if o := r.objects[u]; view[u] != o.at || o.at == 0 {
			m.tail = append(m.tail, sighting{event{at: o.at, uid: u, verb: modified}, true})
		}
	}
	for _, u := range sortedKeys(view) {
		if _, ok := r.objects[u]; !ok {
			m.tail = append(m.tail, sighting{event{at: now, uid: u, verb: deleted}, true})
		}
	}
	if m.witness != nil {
		var differences []Seen
		for _, s := range m.tail[before:] {
			differences = append(differences, s.seen())
		}
		m.witness.Snapshot(m.number, int(now), differences)
	}
	if !m.holed {
		m.opened = m.watch.openAt
	}
	m.holed, m.hole, m.started = true, span{known, now}, true
	m.watch = watchFrom(now)
	m.watch.open(r)
}

// view is what the standby has read: the objects that exist.
func (m *mirror) view() map[uid]version {
	view := maps.Clone(m.base.inventory)
	for _, s := range m.tail {
		s.apply(view)
	}
	return view
}

func (s sighting) apply(inventory map[uid]version) {
	if s.verb == deleted {
		delete(inventory, s.uid)
	} else {
		inventory[s.uid] = s.at
	}
}

// contiguous is the version up to which everything is known that was created, even if it is gone.
func (m *mirror) contiguous() version {
	if m.holed {
		return m.hole.from
	}
	return m.watch.read
}

// settle moves the base to the published position.
func (m *mirror) settle(p position, w *world) {
	defer m.witnessSettled(p)
	if !m.started || !p.known {
		return
	}
	upto := p.w
	if !w.on(RuleFollowPublished) {
		upto = m.watch.read
	}
	if m.holed && (upto >= m.hole.to || !w.on(RuleHoleUntilPassed)) {
		m.holed = false
		m.base.complete = true
	}
	settled := 0
	for _, s := range m.tail {
		known := s.at <= upto
		if s.net { // the net result of a hole, which is known as a whole
			known = !m.holed
		}
		if !known {
			break
		}
		s.apply(m.base.inventory)
		settled++
	}
	m.tail = m.tail[settled:]
	if m.base.complete {
		m.base.upto = max(m.base.upto, min(upto, m.contiguous()))
		m.base.at, m.base.seen, m.base.hole = 0, nil, 0
	}
}

// knows returns the version up to which the mirror knows everything that earlier leaders may have introduced.
func (m *mirror) knows(p position, term int) version {
	known := m.contiguous()
	if m.base.complete && m.base.led == term && m.base.upto >= m.base.inherited { // it was the last leader itself
		known = max(known, p.until)
	}
	return known
}

// ready reports whether a takeover would know which objects the backend may have.
func (m *mirror) ready(p position, term int) bool {
	return m.started && (!p.known || m.knows(p, term) >= p.until)
}
