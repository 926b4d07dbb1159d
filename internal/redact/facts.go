package redact

import (
	"strconv"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// facts are what an object tells of itself, as the places where it does.
type facts struct {
	hasMetadata bool
	found       [notes]span // the first that was found of each; {0, 0} where there was none
	updated     time.Time

	owner         [ownerUID + 1]span // the owner so far; only the notes of owners are used
	hasOwner      bool
	ownerControls bool
}

// take notes the value data[s.from:s.to].
func (f *facts) take(data []byte, n note, s span) {
	switch n {
	case updated:
		if t := timeOf(data, s); t.After(f.updated) {
			f.updated = t
		}
	case ownerEnd:
		if data[s.from] == '{' {
			f.endOwner(data)
		}
	default:
		if f.found[n] == (span{}) && n.isToldBy(data[s.from]) {
			f.found[n] = s
		}
	}
}

// endOwner chooses between the owner that was passed and the one chosen before.
func (f *facts) endOwner(data []byte) {
	controller := f.found[ownerController]
	controls := string(data[controller.from:controller.to]) == "true"
	if !f.hasOwner || (controls && !f.ownerControls) {
		f.hasOwner, f.ownerControls = true, controls
		copy(f.owner[ownerAPIVersion:], f.found[ownerAPIVersion:ownerUID+1])
	}
	clear(f.found[ownerAPIVersion : ownerController+1])
}

// tell makes the facts into fields of the object, with strings that are parts of its JSON.
func (w *walk) tell(obj *Object, from int) {
	f := &w.facts
	str := func(s span) string { return w.stringOf(s, obj.JSON, from) }

	obj.UID = str(f.found[uid])
	obj.ResourceVersion = str(f.found[resourceVersion])
	obj.Namespace = str(f.found[namespace])
	obj.Name = str(f.found[name])
	obj.APIVersion = str(f.found[ownAPIVersion])
	obj.Kind = str(f.found[ownKind])
	obj.EventType = str(f.found[eventType])
	obj.Owner = Owner{
		APIVersion: str(f.owner[ownerAPIVersion]),
		Kind:       str(f.owner[ownerKind]),
		Name:       str(f.owner[ownerName]),
		UID:        str(f.owner[ownerUID]),
	}
	if s := f.found[generation]; s != (span{}) {
		obj.Generation, _ = strconv.ParseInt(string(w.data[s.from:s.to]), 10, 64)
	}
	obj.Times = Times{
		Created:  timeOf(w.data, f.found[created]),
		Deleted:  timeOf(w.data, f.found[deleted]),
		Updated:  f.updated,
		Observed: w.observed(),
	}
}

// observed returns the first time that is set of those that an Event may have.
func (w *walk) observed() time.Time {
	for n := eventSeriesTime; n <= eventFirstTime; n++ {
		if t := timeOf(w.data, w.facts.found[n]); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// stringOf returns what the string at s in the data stands for. It is a part of the JSON that was made from
// data[from:] where it is written there as it is.
func (w *walk) stringOf(s span, json string, from int) string {
	if s == (span{}) {
		return ""
	}
	inside := w.data[s.from+1 : s.to-1]
	if !isVerbatim(inside) {
		return jsonscan.Unquote(inside)
	}
	start := w.edits.offset(s.from+1) - from
	return json[start : start+len(inside)]
}

// timeOf returns the time at s in the data, and the zero time where there is none.
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
