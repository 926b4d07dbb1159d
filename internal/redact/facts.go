package redact

import (
	"bytes"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// note identifies which fact about its object a value holds.
type note uint8

const (
	nothing note = iota

	// Facts of any object, at any depth, that decide how its other members are masked.
	kindOfObject
	versionOfObject
	dataOfObject
	binaryDataOfObject
	itemsOfObject
	dataOfTemplate
	dataBelow // data of a template, which the kind of its own object does not decide
	pairName
	pairValue
	headerName
	headerValue
	commandOfObject
	argumentsOfObject

	// Facts of the object itself.
	ownMetadata
	ownKind
	ownAPIVersion
	uid
	resourceVersion
	namespace
	name
	generation
	created
	deleted

	// Of its managedFields, one entry after the other.
	updated
	managerName
	managerOperation
	managerSubresource
	managerEnd

	// Facts of its owner references, one after the other.
	ownerAPIVersion
	ownerKind
	ownerName
	ownerUID
	ownerController
	ownerEnd

	// Facts of Events. The times are in order of precedence.
	eventType
	eventSeriesTime
	eventLastTime
	eventTime
	eventFirstTime
	eventReason
	eventAction
	eventNote
	eventController
	eventInstance
	eventCount
	eventSeries
	eventSource
	eventRegarding

	// Of pods.
	podNode
	podPhase
	podIP
	podStarted
	podTemplate

	notes
)

func (n note) isKind() bool { return n == kindOfObject || n == ownKind || n == ownerKind }

// matches reports whether a value that starts with this byte can hold the fact.
func (n note) matches(first byte) bool {
	switch n {
	case generation, eventCount:
		return first == '-' || first-'0' <= 9
	case eventSeries, eventSource, eventRegarding:
		return first == '{'
	case ownerController:
		return first == 't' || first == 'f'
	default:
		return first == '"'
	}
}

// facts holds the positions of an object's facts.
type facts struct {
	hasMetadata bool
	found       [notes]span // the first of each that was found; {0, 0} if there was none
	writers     writers

	owner         [ownerUID + 1]span // the current owner; only the notes of owners are used
	hasOwner      bool
	ownerControls bool
}

// take notes the value data[s.from:s.to].
func (f *facts) take(data []byte, n note, s span) {
	switch n {
	case updated:
		f.writers.wroteAt(timeOf(data, s))
	case managerEnd:
		f.writers.end(data, f.found[managerName:managerSubresource+1])
	case ownerEnd:
		if data[s.from] == '{' {
			f.endOwner(data)
		}
	default:
		if f.found[n] == (span{}) && n.matches(data[s.from]) {
			f.found[n] = s
		}
	}
}

// endOwner chooses between the current owner and the one chosen before.
func (f *facts) endOwner(data []byte) {
	controller := f.found[ownerController]
	controls := string(data[controller.from:controller.to]) == "true"
	if !f.hasOwner || (controls && !f.ownerControls) {
		f.hasOwner, f.ownerControls = true, controls
		copy(f.owner[ownerAPIVersion:], f.found[ownerAPIVersion:ownerUID+1])
	}
	clear(f.found[ownerAPIVersion : ownerController+1])
}

// describe sets the fields of the object from the facts, with strings that are slices of its JSON.
func (w *walk) describe(obj *Object, from int) {
	f := &w.facts
	str := func(s span) string { return w.stringOf(s, obj.JSON, from) }

	obj.UID = str(f.found[uid])
	obj.ResourceVersion = str(f.found[resourceVersion])
	obj.Namespace = str(f.found[namespace])
	obj.Name = str(f.found[name])
	obj.APIVersion = str(f.found[ownAPIVersion])
	obj.Kind = str(f.found[ownKind])
	obj.Owner = Owner{
		APIVersion: str(f.owner[ownerAPIVersion]),
		Kind:       str(f.owner[ownerKind]),
		Name:       str(f.owner[ownerName]),
		UID:        str(f.owner[ownerUID]),
		Controls:   f.ownerControls,
	}
	obj.Managers = w.managers()
	obj.Scaler = w.manager(&w.facts.writers.scaler)
	if s := f.found[generation]; s != (span{}) {
		obj.Generation, _ = strconv.ParseInt(string(w.data[s.from:s.to]), 10, 64)
	}
	obj.Times = Times{
		Created:  timeOf(w.data, f.found[created]),
		Deleted:  timeOf(w.data, f.found[deleted]),
		Updated:  f.writers.newest,
		Observed: w.observed(),
	}
	switch w.plan.particulars {
	case ofEvents:
		obj.Event = w.event(str)
	case ofPods:
		obj.Pod = w.pod(str)
	}
}

// observed returns the first set time among those of an Event.
func (w *walk) observed() time.Time {
	for n := eventSeriesTime; n <= eventFirstTime; n++ {
		if t := timeOf(w.data, w.facts.found[n]); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// stringOf returns the text of the string at s in the data. If the JSON made from data[from:] contains the text
// unchanged, the result is a slice of it. Dropped or masked text is not there and is copied: an offset into the JSON
// would point at something else.
func (w *walk) stringOf(s span, json string, from int) string {
	if s == (span{}) {
		return ""
	}
	for _, u := range w.unseenTexts {
		if u.span == s {
			return u.text
		}
	}
	inside := span{s.from + 1, s.to - 1}
	switch edits, masked := w.edits.overlapping(inside); {
	case masked:
		return Masked
	case len(edits) > 0:
		return jsonscan.Unquote([]byte(edits.apply(w.data, inside.from, inside.to)))
	case w.edits.covers(inside) || !isVerbatim(w.data[inside.from:inside.to]):
		w.buffer = jsonscan.AppendUnquoted(w.buffer[:0], w.data[inside.from:inside.to])
		return string(w.buffer)
	}
	start := w.edits.offset(inside.from) - from
	return json[start : start+inside.to-inside.from]
}

// timeOf returns the time at s in the data, or the zero time if there is none.
func timeOf(data []byte, s span) time.Time {
	var t time.Time
	if s == (span{}) || data[s.from] != '"' {
		return t
	}
	inside := data[s.from+1 : s.to-1]
	if !isVerbatim(inside) {
		inside = []byte(jsonscan.Unquote(inside))
	}
	if t.UnmarshalText(inside) != nil {
		return time.Time{}
	}
	return t.UTC()
}

// isVerbatim reports whether the inside of a string is identical to its text.
func isVerbatim(inside []byte) bool {
	return bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside)
}

// writers holds the positions of the newest entries of managedFields.
type writers struct {
	at     time.Time // of the current entry
	newest time.Time
	// The last of the newest entries for the object itself or a subresource other than its status, and the last of those
	// for its status. Times have whole seconds, and a controller often follows a change of the spec within the same one.
	entries [2]writer
	scaler  writer // the last entry for the subresource scale without a time
}

type writer struct {
	at                           time.Time
	name, operation, subresource span
}

// wroteAt adds a time of the current entry. Entries have one, but a text may repeat it.
func (w *writers) wroteAt(at time.Time) {
	if at.After(w.newest) {
		w.newest = at
	}
	if w.at.IsZero() {
		w.at = at
	}
}

// end adds the current entry, which is complete. found holds its parts in the order of their notes.
func (w *writers) end(data []byte, found []span) {
	e := writer{at: w.at, name: found[0], operation: found[1], subresource: found[2]}
	w.at = time.Time{}
	clear(found)
	which := &w.entries[0]
	if s := e.subresource; s.to-s.from == len(`"status"`) && string(data[s.from:s.to]) == `"status"` {
		which = &w.entries[1]
	}
	if e.name == (span{}) {
		return
	}
	if s := e.subresource; e.at.IsZero() && s.to-s.from == len(`"scale"`) && string(data[s.from:s.to]) == `"scale"` {
		w.scaler = e
	}
	if !e.at.IsZero() && !e.at.Before(which.at) {
		*which = e
	}
}

// last returns the newest entries, at most one of each kind.
func (w *writers) last() (entries []writer) {
	switch first, second := w.entries[0].at, w.entries[1].at; {
	case first.After(second):
		return w.entries[:1]
	case second.After(first):
		return w.entries[1:]
	case first.IsZero():
		return nil
	}
	return w.entries[:]
}

// writer returns a hash of who wrote last and when. While it stays the same, managedFields show no other writer.
func (f *facts) writer(key *sumKey, data []byte) uint16 {
	var sum uint64
	for _, e := range f.writers.last() {
		sum += key.of(data[e.name.from:e.name.to]) ^ uint64(e.at.UnixNano())
	}
	return uint16(sum ^ sum>>16 ^ sum>>32)
}

// managers returns who wrote last. managedFields are not in the JSON, so the names are kept by the plan.
func (w *walk) managers() (managers [2]Manager) {
	for i, e := range w.facts.writers.last() {
		managers[i] = w.manager(&e)
	}
	return managers
}

func (w *walk) manager(e *writer) Manager {
	return Manager{
		Name:        w.plan.managers.name(w, e.name),
		Operation:   w.plan.managers.name(w, e.operation),
		Subresource: w.plan.managers.name(w, e.subresource),
	}
}

// managerTable keeps the names of managers, of which there are few, so that not every object needs its own copy.
type managerTable struct {
	mu    sync.Mutex
	names map[string]string // redacted, by the inside of the string
}

// mostManagers is how many names are kept. A program may use another name each time.
const mostManagers = 1000

func (t *managerTable) name(w *walk, s span) string {
	if s == (span{}) {
		return ""
	}
	inside := w.data[s.from+1 : s.to-1]
	switch string(inside) {
	case "Update":
		return "Update"
	case "Apply":
		return "Apply"
	case "status":
		return "status"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.names[string(inside)]
	if ok {
		return name
	}
	name = jsonscan.Unquote(inside)
	if w.changes([]byte(name)) {
		name = Masked
	}
	if t.names == nil {
		t.names = make(map[string]string)
	}
	if len(t.names) < mostManagers {
		t.names[string(inside)] = name
	}
	return name
}
