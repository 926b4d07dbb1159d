package record

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/cut"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// noObject is the JSON of an object that is not in the records. It is not empty, which means that only the identity of the
// object is known.
const noObject = "{}"

const (
	// nesting is more than the tags and lengths around the object and the paths of what was cut take in a record.
	nesting = 64
	// learnedLater is more than the attributes of a pod's workload take, which may become known while the change is queued.
	learnedLater = 512
	// attributesAsARule is more than the attributes of nearly all records take.
	attributesAsARule = 8 << 10
	// messageShare is the part (1/messageShare) of a record that the message of an Event may take beside its object.
	messageShare = 4
)

// Fit gives the object of a change the form in which it is queued: without what its record will not hold, and so that the
// record takes at most MaxBytes as protobuf in OTLP. Attributes other than the object are not cut, so that a record whose
// other attributes alone are larger stays larger.
func (b *Builder) Fit(c *watchlist.Change) {
	if !c.Type.IsOfObject() || c.Object.JSON == "" {
		return
	}
	form := b.objectForm(c)
	if form == ObjectNone {
		if left := b.withoutObject(c); len(left) != len(c.Object.JSON) {
			c.Object = c.Object.WithJSON(left)
		}
	}
	if limit := b.options.MaxBytes; limit > 0 && c.Diff != nil {
		c.Diff = c.Diff.Within(limit / diffShare)
	}
	if limit := b.options.MaxBytes; limit > 0 && b.atMost(c) > limit {
		b.fitInto(c, form, limit)
	}
}

// withoutObject returns the JSON of an object that is not in its record: what entity events are made of, if there are any.
func (b *Builder) withoutObject(c *watchlist.Change) string {
	if !b.options.Entities || scope.IsEvents(c.Scope.GroupResource) {
		return noObject
	}
	data := unsafe.Slice(unsafe.StringData(c.Object.JSON), len(c.Object.JSON)) // never written to
	out := []byte(`{"metadata":{`)
	if metadata, ok := jsonscan.MemberNamed(data, 0, "metadata"); ok {
		for _, key := range []string{"labels", "ownerReferences"} {
			if member, ok := jsonscan.MemberNamed(data, metadata.Value, key); ok {
				if out[len(out)-1] != '{' {
					out = append(out, ',')
				}
				out = append(append(append(out, '"'), key...), `":`...)
				out = append(out, data[member.Value:member.End]...)
			}
		}
	}
	return string(append(out, '}', '}'))
}

// atMost returns how many bytes the record of a change takes at most, unless its attributes are very large.
func (b *Builder) atMost(c *watchlist.Change) int {
	bytes := attributesAsARule + cut.MaxGrowth*len(c.Object.JSON) + c.Diff.Bytes()
	if e := c.Object.Event; e != nil {
		bytes += len(e.Note) + len(e.Reason) + len(e.Action) + len(e.ReportingController) + len(e.ReportingInstance) + len(e.Regarding.FieldPath)
	}
	return bytes
}

func (b *Builder) fitInto(c *watchlist.Change, form ObjectMode, limit int) {
	json := c.Object.JSON
	rest := *c // the record without its object
	rest.Object.JSON = noObject
	left := limit - b.size(&rest) - nesting
	if b.showsMessage(c) {
		room := left + len(c.Object.Event.Note)
		if form != ObjectNone {
			room = limit / messageShare
		}
		if cutMessage(&rest, room) {
			left = limit - b.size(&rest) - nesting
		}
	}
	if form != ObjectNone {
		as := cut.Text
		if form == ObjectMap {
			as = cut.Map
		}
		var paths []string
		json, paths = cut.Fit(json, left, as)
		for _, path := range paths {
			if !slices.Contains(rest.Cut, path) {
				rest.Cut = append(rest.Cut, path)
			}
		}
	}
	if len(rest.Cut) > 0 {
		rest.Object = rest.Object.WithJSON(json)
		*c = rest
	}
}

// size returns how many bytes the record of a change takes as protobuf in OTLP.
func (b *Builder) size(c *watchlist.Change) int {
	record := plog.NewLogRecord()
	switch b.formatOf(c) {
	case FormatWatchlist:
		b.fill(record, c, b.ClusterUID())
	case FormatK8sObjects:
		fillK8sObject(record, c)
	case FormatK8sEvents:
		fillK8sEvent(record, c, eventOf(c))
	}
	size := (&plog.ProtoMarshaler{}).LogRecordSize(record)
	if c.Object.Pod != nil {
		size += learnedLater
	}
	return size
}

// showsMessage reports whether the record has the message of an Event, besides the object.
func (b *Builder) showsMessage(c *watchlist.Change) bool {
	if c.Object.Event == nil {
		return false
	}
	switch b.formatOf(c) {
	case FormatK8sObjects:
		return false
	case FormatK8sEvents:
		return true
	}
	return b.options.Body == BodySummary || b.hasMessage(c)
}

// cutMessage shortens the message of an Event to about that many bytes, and reports whether it did.
func cutMessage(c *watchlist.Change, room int) bool {
	note := c.Object.Event.Note
	if len(note) <= room {
		return false
	}
	mark := fmt.Sprintf("… [TRUNCATED len=%d]", len(note))
	event := *c.Object.Event
	event.Note = strings.ToValidUTF8(note[:max(0, room-len(mark))], "") + mark
	c.Object.Event = &event
	c.Cut = append(c.Cut, messageKey(c.Scope))
	return true
}

// messageKey returns the key of the message in Events of a scope.
func messageKey(s *scope.Scope) string {
	if s.Group == "" {
		return "message"
	}
	return "note"
}
