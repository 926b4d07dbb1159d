package record

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// BodyMode is what the body of a record is.
type BodyMode uint8

const (
	BodyMap     BodyMode = iota // the object, as a map
	BodyJSON                    // the object, as one JSON string
	BodySummary                 // one sentence
	BodyNone                    // nothing
)

// ObjectMode is the form of the object in an attribute, in records whose body is not the object.
type ObjectMode uint8

const (
	ObjectNone ObjectMode = iota // no attribute
	ObjectMap
	ObjectJSON
)

// objectForm returns the form of the object in the records of a scope, in the body or an attribute; ObjectNone if they do
// not hold it.
func (b *Builder) objectForm(c *watchlist.Change) ObjectMode {
	o := &b.options
	switch b.formatOf(c) {
	case FormatK8sObjects:
		return ObjectMap
	case FormatK8sEvents:
		return ObjectNone
	}
	switch {
	case o.Body == BodySummary || o.Body == BodyNone:
		return o.Object
	case b.hasMessage(c):
		return ObjectNone
	case o.Body == BodyJSON:
		return ObjectJSON
	}
	return ObjectMap
}

// hasMessage reports whether the body of the change's record is the message of an Event.
func (b *Builder) hasMessage(c *watchlist.Change) bool {
	o := &b.options
	return scope.IsEvents(c.Scope.GroupResource) && o.EventBody == EventMessage && (o.Body == BodyMap || o.Body == BodyJSON)
}

// setBody sets the body of an object's record, and the object as an attribute if the body is another one. The object is
// nowhere if only its identity is known.
func (b *Builder) setBody(record plog.LogRecord, c *watchlist.Change) {
	switch {
	case b.options.Body == BodySummary:
		record.Body().SetStr(summary(c))
	case b.options.Body == BodyNone:
	case b.hasMessage(c):
		if e := c.Object.Event; e != nil && e.Note != "" {
			record.Body().SetStr(e.Note)
		}
		return
	default:
		setObject(record, record.Body(), c.Object.JSON, b.options.Body == BodyJSON)
		return
	}
	if b.options.Object != ObjectNone && c.Object.JSON != "" {
		if !setObject(record, record.Attributes().PutEmpty(keyObjectManifest), c.Object.JSON, b.options.Object == ObjectJSON) {
			record.Attributes().Remove(keyObjectManifest)
		}
	}
}

// setStreamBody sets the body of a record of the stream.
func (b *Builder) setStreamBody(record plog.LogRecord, c *watchlist.Change) {
	switch {
	case b.options.Body == BodyNone:
	case c.Type == watchlist.Gap && c.Gap != nil:
		record.Body().SetStr(GapSentence(c))
	case b.options.Body == BodySummary:
		record.Body().SetStr(frameSentence(c))
	}
}

// setObject sets the value to the object, or names the reason why it cannot.
func setObject(record plog.LogRecord, v pcommon.Value, json string, asText bool) (ok bool) {
	switch {
	case json == "":
	case asText:
		v.SetStr(json)
	default:
		if err := bodyMap(v.SetEmptyMap(), json); err != nil {
			// The reader has already decoded this object, so this is a bug. The object did change, but half an object would
			// be misleading.
			pcommon.NewValueEmpty().CopyTo(v)
			record.Attributes().PutStr(keyBodyError, err.Error())
			return false
		}
	}
	return true
}
