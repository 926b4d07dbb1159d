package entity

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Options configure the events.
type Options struct {
	// Legacy writes the attributes that the Collector's k8s_cluster receiver has by default, which are older than the
	// specification.
	Legacy bool
	// ReportInterval is the longest time between two state events of an entity that does not change; 0: there is no such
	// time.
	ReportInterval time.Duration
}

// Entities makes entity events from the changes of a receiver. Reads and Learn are safe for concurrent use. All other
// methods are for the goroutine that delivers.
type Entities struct {
	options Options
	names   names

	sent  map[watchlist.Key]uint64 // hash of the last accepted state of each entity
	built map[watchlist.Key]uint64 // the same for the last Append, until it is known whether it was accepted; 0: deleted

	waiting waiting

	readsNodes atomic.Bool

	mu    sync.Mutex
	known map[known]string // UIDs
}

// known is the name of an object that others refer to by name, or whose name is its identity.
type known struct {
	schema.GroupResource
	name string
}

var nodes = schema.GroupResource{Resource: "nodes"}

// New returns an Entities that knows no objects yet.
func New(o Options) *Entities {
	names := specification
	if o.Legacy {
		names = legacy
	}
	return &Entities{
		options: o, names: names,
		sent: make(map[watchlist.Key]uint64), built: make(map[watchlist.Key]uint64),
		known: make(map[known]string),
	}
}

// Reads notes that a resource is read. If nodes are, the UID of each pod's node becomes known sooner or later.
func (e *Entities) Reads(resource schema.GroupResource) {
	if resource == nodes {
		e.readsNodes.Store(true)
	}
}

// Learns reports whether Learn needs to know the objects of a resource.
func Learns(resource schema.GroupResource) bool {
	return resource == nodes || isKnownByName(resource)
}

// isKnownByName reports whether the entities of a resource are identified by their names, because the conventions define
// no UID for them.
func isKnownByName(resource schema.GroupResource) bool {
	_, uid, conventional := record.ConventionOf(resource)
	return conventional && uid == ""
}

// Learn learns of an object without a change, such as from a checkpoint. A pod has only the name of its node, but the
// identity of a node is its UID.
func (e *Entities) Learn(resource schema.GroupResource, name, uid string) {
	if !Learns(resource) || name == "" || uid == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if of := (known{resource, name}); e.known[of] != uid {
		of.name = strings.Clone(name)
		e.known[of] = strings.Clone(uid)
	}
}

// forget forgets an object. It reports whether no other object has its name by now.
func (e *Entities) forget(resource schema.GroupResource, name, uid string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := known{resource, name}
	if now := e.known[of]; now != "" && now != uid {
		return false
	}
	delete(e.known, of)
	return true
}

func (e *Entities) uidOfNode(name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known[known{nodes, name}]
}

// concerns reports whether the change is one of an entity. Kubernetes Events are observations, not entities, and an object
// without an identity cannot be one.
func concerns(c *watchlist.Change) bool {
	return c.Type.IsOfObject() && !scope.IsEvents(c.Scope.GroupResource) && identify(c) != target{}
}

// Append appends the events of a batch of changes. within returns the scope for them, and is called only if there are any.
// Repeated for the same batch, it appends them again. Accepted or Dropped then end the batch.
func (e *Entities) Append(changes []watchlist.Change, within func() plog.ScopeLogs) {
	clear(e.built)
	events := lazyEvents{within: within}
	for i := range changes {
		if c := &changes[i]; concerns(c) {
			e.append(&events, c)
		}
	}
	if len(changes) > 0 {
		e.waiting.resolve(e.uidOfNode, func(key watchlist.Key, s *state) {
			e.built[key] = s.hash()
			e.fillState(events.next(), s, changes[len(changes)-1].ReadAt)
		})
	}
}

// Accepted is called when the consumer has accepted the events of the last Append.
func (e *Entities) Accepted() {
	for key, hash := range e.built {
		if hash == 0 {
			delete(e.sent, key)
		} else {
			e.sent[key] = hash
		}
	}
	clear(e.built)
	e.waiting.removeResolved()
}

// Dropped is called when the consumer has permanently refused the events of the last Append.
func (e *Entities) Dropped() {
	clear(e.built)
	e.waiting.resolved = nil
}

// lazyEvents creates the scope of the events with the first one.
type lazyEvents struct {
	within  func() plog.ScopeLogs
	records *plog.LogRecordSlice
}

func (l *lazyEvents) next() plog.LogRecord {
	if l.records == nil {
		of := l.within()
		of.Scope().Attributes().PutBool("otel.entity.event_as_log", true) // as the k8s_cluster receiver marks it
		records := of.LogRecords()
		l.records = &records
	}
	return l.records.AppendEmpty()
}

func (e *Entities) append(events *lazyEvents, c *watchlist.Change) {
	resource := c.Scope.GroupResource
	if c.Type == watchlist.Deleted {
		e.waiting.remove(c.Key)
		e.built[c.Key] = 0
		// Another object may have the name, and so the identity, of one that a comparison finds to be gone.
		isLast := e.forget(resource, c.Object.Name, c.Object.UID)
		if isLast || !isKnownByName(resource) {
			e.fillDelete(events.next(), c)
		}
		return
	}
	e.Learn(resource, c.Object.Name, c.Object.UID)
	s, node := e.stateOf(c)
	if node != "" && e.readsNodes.Load() {
		e.waiting.add(node, c.Key, &s)
	} else {
		e.waiting.remove(c.Key)
	}
	hash := s.hash()
	last, ok := e.built[c.Key]
	if !ok {
		last = e.sent[c.Key]
	}
	e.built[c.Key] = hash
	if c.Type != watchlist.Modified || hash != last {
		e.fillState(events.next(), &s, c.ReadAt)
	}
}

func (e *Entities) fillDelete(event plog.LogRecord, c *watchlist.Change) {
	event.SetObservedTimestamp(pcommon.NewTimestampFromTime(c.ReadAt))
	event.SetTimestamp(pcommon.NewTimestampFromTime(record.Happened(c)))
	e.names.setEvent(event, e.names.deleted)
	e.names.put(event.Attributes(), identify(c))
}

// fillState makes the event of a state at the time at which it was read: the Timestamp is when the event was generated,
// not when the object changed.
func (e *Entities) fillState(event plog.LogRecord, s *state, at time.Time) {
	event.SetObservedTimestamp(pcommon.NewTimestampFromTime(at))
	event.SetTimestamp(pcommon.NewTimestampFromTime(at))
	e.names.setEvent(event, e.names.state)
	attributes := event.Attributes()
	attributes.EnsureCapacity(5)
	e.names.put(attributes, s.target)
	e.names.putInterval(attributes, e.options.ReportInterval)
	description := attributes.PutEmptyMap(e.names.description)
	description.EnsureCapacity(len(s.description))
	for _, a := range s.description {
		description.PutStr(a.key, a.value)
	}
	if e.names.relationships == "" || len(s.relationships) == 0 {
		return
	}
	list := attributes.PutEmptySlice(e.names.relationships)
	list.EnsureCapacity(len(s.relationships))
	for _, r := range s.relationships {
		each := list.AppendEmpty().SetEmptyMap()
		each.EnsureCapacity(3)
		each.PutStr("relationship.type", r.kind)
		e.names.put(each, r.target)
	}
}
