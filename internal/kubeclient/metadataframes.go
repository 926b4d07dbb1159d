package kubeclient

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const (
	frameLengthBytes   = 4 // big-endian
	metadataFrameBytes = 64 << 10
)

// metadataFrames converts a protobuf metadata watch to the lines of JSON of an ordinary watch. A malformed frame
// becomes a line that is not a watch event, so that the reader notices it. A frame cut off at the end is dropped, like
// a line without a newline.
//
// apimachinery's frame reader is not used: it reads each length and each frame from the body separately, and accepts
// any length.
type metadataFrames struct {
	body   io.ReadCloser
	buffer []byte // bytes of body from the first incomplete frame on
	lines  []byte
	unread []byte // rest of lines
	err    error  // returned after unread
}

func newMetadataFrames(body io.ReadCloser) io.ReadCloser { return &metadataFrames{body: body} }

func (m *metadataFrames) Close() error { return m.body.Close() }

func (m *metadataFrames) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(m.unread) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.fill()
	}
	n := copy(p, m.unread)
	m.unread = m.unread[n:]
	return n, nil
}

// fill reads from the body once and converts the frames that are complete by then. The buffer grows with the bytes
// received, not with the length that a frame claims.
func (m *metadataFrames) fill() {
	if len(m.buffer) == cap(m.buffer) {
		m.buffer = slices.Grow(m.buffer, max(len(m.buffer), metadataFrameBytes))
	}
	n, err := m.body.Read(m.buffer[len(m.buffer):cap(m.buffer)])
	m.buffer = m.buffer[:len(m.buffer)+n]
	m.err = err

	m.lines = m.lines[:0]
	rest := m.buffer
	for len(rest) >= frameLengthBytes {
		length := binary.BigEndian.Uint32(rest)
		if length > watchlist.MaxFrameBytes {
			m.err = watchlist.ErrFrameTooLarge // or its length is garbled: the start of the next frame is unknown
			break
		}
		end := frameLengthBytes + int(length)
		if len(rest) < end {
			break
		}
		m.lines = appendMetadataLine(m.lines, rest[frameLengthBytes:end])
		rest = rest[end:]
	}
	m.unread = m.lines
	if len(rest) < len(m.buffer) {
		m.buffer = m.buffer[:copy(m.buffer, rest)]
	}
}

// notAnEvent replaces a message that cannot be decoded: to the reader it is an undecodable event.
const notAnEvent = "{}\n"

// appendMetadataLine appends a protobuf watch event with the metadata of an object (metav1.WatchEvent) as a line of
// JSON. The line holds only the metadata that identify the object, and the annotation of an end marker. The rest, most
// of it managedFields, is skipped without being decoded.
func appendMetadataLine(to, message []byte) []byte {
	event, raw, ok := decodeWatchEvent(message)
	if !ok {
		return append(to, notAnEvent...)
	}
	start := len(to)
	to = append(to, `{"type":`...)
	to = appendQuoted(to, event)
	to = append(to, `,"object":`...)
	switch watch.EventType(event) {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		object, ok := decodeMetadata(raw)
		if !ok {
			return append(to[:start], notAnEvent...)
		}
		to = object.appendTo(to, string(event) == string(watch.Bookmark))
	case watch.Error:
		to = appendStatus(to, raw)
	default:
		to = append(to, "{}"...) // the content of such an event is unknown
	}
	return append(to, "}\n"...)
}

// decodeWatchEvent splits a metav1.WatchEvent. Neither part is copied.
func decodeWatchEvent(message []byte) (event, raw []byte, ok bool) {
	var extension []byte
	f := fields{rest: message}
	for f.next() {
		switch f.number {
		case 1:
			event = f.bytes()
		case 2:
			extension = f.bytes()
		}
	}
	inside := fields{rest: extension} // runtime.RawExtension
	for inside.next() {
		if inside.number == 1 {
			raw = inside.bytes()
		}
	}
	return event, raw, !f.bad && !inside.bad && len(event) > 0
}

// envelopePrefix begins everything that Kubernetes encodes as protobuf; a runtime.Unknown follows.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding-idl
var envelopePrefix = []byte("k8s\x00")

// envelope is a runtime.Unknown: an object and its type.
type envelope struct{ apiVersion, kind, object []byte }

func openEnvelope(raw []byte) (e envelope, ok bool) {
	message, ok := bytes.CutPrefix(raw, envelopePrefix)
	if !ok {
		return e, false
	}
	var typeMeta []byte
	f := fields{rest: message}
	for f.next() {
		switch f.number {
		case 1:
			typeMeta = f.bytes()
		case 2:
			e.object = f.bytes()
		}
	}
	inside := fields{rest: typeMeta} // runtime.TypeMeta
	for inside.next() {
		switch inside.number {
		case 1:
			e.apiVersion = inside.bytes()
		case 2:
			e.kind = inside.bytes()
		}
	}
	return e, !f.bad && !inside.bad
}

// partialMetadata holds the used fields of a metav1.PartialObjectMetadata.
type partialMetadata struct {
	envelope
	name, namespace, uid, resourceVersion []byte
	endsInitialEvents                     []byte // the annotation's value
}

func decodeMetadata(raw []byte) (p partialMetadata, ok bool) {
	if p.envelope, ok = openEnvelope(raw); !ok {
		return p, false
	}
	var meta []byte
	f := fields{rest: p.object}
	for f.next() {
		if f.number == 1 {
			meta = f.bytes()
		}
	}
	inside := fields{rest: meta} // metav1.ObjectMeta
	for inside.next() {
		switch inside.number {
		case 1:
			p.name = inside.bytes()
		case 3:
			p.namespace = inside.bytes()
		case 5:
			p.uid = inside.bytes()
		case 6:
			p.resourceVersion = inside.bytes()
		case 12:
			if value, ok := endMark(inside.bytes()); ok {
				p.endsInitialEvents = value
			}
		}
	}
	return p, !f.bad && !inside.bad
}

// endMark returns the value of an annotation if it is the one that marks the end of the initial events.
func endMark(annotation []byte) (value []byte, ok bool) {
	var key []byte
	f := fields{rest: annotation}
	for f.next() {
		switch f.number {
		case 1:
			key = f.bytes()
		case 2:
			value = f.bytes()
		}
	}
	return value, !f.bad && string(key) == metav1.InitialEventsAnnotationKey
}

func (p *partialMetadata) appendTo(to []byte, isBookmark bool) []byte {
	to = append(to, '{')
	to = appendMember(to, "kind", p.kind)
	to = appendMember(to, "apiVersion", p.apiVersion)
	to = appendComma(to)
	to = append(to, `"metadata":{`...)
	to = appendMember(to, "name", p.name)
	to = appendMember(to, "namespace", p.namespace)
	to = appendMember(to, "uid", p.uid)
	to = appendMember(to, "resourceVersion", p.resourceVersion)
	if isBookmark && len(p.endsInitialEvents) > 0 {
		to = appendComma(to)
		to = append(to, `"annotations":{"`+metav1.InitialEventsAnnotationKey+`":`...)
		to = appendQuoted(to, p.endsInitialEvents)
		to = append(to, '}')
	}
	return append(to, "}}"...)
}

// appendMember appends a member of a JSON object, unless its value is empty.
func appendMember(to []byte, key string, value []byte) []byte {
	if len(value) == 0 {
		return to
	}
	to = appendComma(to)
	to = append(to, '"')
	to = append(to, key...)
	to = append(to, `":`...)
	return appendQuoted(to, value)
}

func appendComma(to []byte) []byte {
	if to[len(to)-1] == '{' {
		return to
	}
	return append(to, ',')
}

// appendQuoted appends a text as a string of JSON.
func appendQuoted(to, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(string(text)) // a string cannot fail
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

// appendStatus appends a metav1.Status, or an object that the reader reports as an error without a status.
func appendStatus(to, raw []byte) []byte {
	var status metav1.Status
	e, ok := openEnvelope(raw)
	if !ok || status.Unmarshal(e.object) != nil {
		return append(to, "{}"...)
	}
	status.Kind, status.APIVersion = string(e.kind), string(e.apiVersion)
	content, err := json.Marshal(&status)
	if err != nil {
		return append(to, "{}"...)
	}
	return append(to, content...)
}

// fields iterates over the fields of a protobuf message without copying.
//
//	f := fields{rest: message}
//	for f.next() {
//		if f.number == 1 {
//			name = f.bytes()
//		}
//	}
//	// f.bad: the message is malformed
type fields struct {
	rest   []byte
	number protowire.Number
	bad    bool

	wireType protowire.Type
	value    []byte // of a field of type string, bytes or message
}

// next advances to the next field, and returns false at the end.
func (f *fields) next() bool {
	if f.bad || len(f.rest) == 0 {
		return false
	}
	var n int
	if f.number, f.wireType, n = protowire.ConsumeTag(f.rest); n < 0 {
		f.bad = true
		return false
	}
	f.rest = f.rest[n:]
	if f.wireType == protowire.BytesType {
		f.value, n = protowire.ConsumeBytes(f.rest)
	} else {
		n = protowire.ConsumeFieldValue(f.number, f.wireType, f.rest)
	}
	if n < 0 {
		f.bad = true
		return false
	}
	f.rest = f.rest[n:]
	return true
}

// bytes returns the field's value. A field of another wire type marks the message as bad.
func (f *fields) bytes() []byte {
	if f.wireType != protowire.BytesType {
		f.bad = true
		return nil
	}
	return f.value
}
