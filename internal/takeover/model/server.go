package model

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// version is a resourceVersion. All resources share one sequence, as the revisions of etcd do.
type version int

// uid identifies an object. An object that is created again under its old name has a new one.
type uid int

type verb uint8

const (
	added verb = iota + 1
	modified
	deleted
)

type event struct {
	at      version
	uid     uid
	verb    verb
	content int
	noop    bool // the content is that of the version before
}

type object struct {
	at      version
	content int
}

// resource is what the API server holds of a resource: its objects, and a history from which a watch can start.
type resource struct {
	log     []event
	objects map[uid]object
	alive   []uid // in the order of their creation, so that random choices are deterministic
	oldest  version
	window  int // events in the history
}

// keeps reports whether a watch can start from a version. Otherwise it is answered 410.
func (r *resource) keeps(from version) bool { return from >= r.oldest }

// after returns the index of the first event after a version.
func (r *resource) after(from version) int {
	i, _ := slices.BinarySearchFunc(r.log, from+1, func(e event, v version) int { return int(e.at - v) })
	return i
}

func (r *resource) sorted() []uid { return slices.Sorted(maps.Keys(r.objects)) }

type server struct {
	now       version
	resources []*resource
	nextUID   uid
	contents  int
}

func newServer(resources int, window func() int) *server {
	s := &server{}
	for range resources {
		s.resources = append(s.resources, &resource{objects: map[uid]object{}, window: window()})
	}
	return s
}

// change is one random write to a resource. Sometimes several objects are deleted at one version, as Events are when
// their lease expires.
func (s *server) change(r *resource, random *rand.Rand) {
	s.now++
	switch n := random.IntN(100); {
	case len(r.alive) < 4 || n < 28:
		s.nextUID++
		s.put(r, s.nextUID, added, s.newContent())
	case n < 60:
		s.put(r, r.alive[random.IntN(len(r.alive))], modified, s.newContent())
	case n < 74:
		u := r.alive[random.IntN(len(r.alive))]
		s.put(r, u, modified, r.objects[u].content)
	case n < 97:
		s.remove(r, random.IntN(len(r.alive)))
	default:
		for range min(3, len(r.alive)) {
			s.remove(r, random.IntN(len(r.alive)))
		}
	}
	if n := len(r.log) - r.window; n > 0 {
		r.oldest = max(r.oldest, r.log[n-1].at)
	}
}

func (s *server) newContent() int { s.contents++; return s.contents }

func (s *server) put(r *resource, u uid, v verb, content int) {
	r.log = append(r.log, event{at: s.now, uid: u, verb: v, content: content, noop: v == modified && r.objects[u].content == content})
	r.objects[u] = object{at: s.now, content: content}
	if v == added {
		r.alive = append(r.alive, u)
	}
}

func (s *server) remove(r *resource, i int) {
	u := r.alive[i]
	r.alive = slices.Delete(r.alive, i, i+1)
	r.log = append(r.log, event{at: s.now, uid: u, verb: deleted})
	delete(r.objects, u)
}

// forget drops the whole history of a resource, as a compaction together with a restart of the API server does. A watch
// from any earlier version is answered 410, even if nothing has happened since.
func (s *server) forget(r *resource) { r.oldest = s.now }
