package watchlist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
)

// frame is one raw watch event: its type and the bytes of its object. It is valid until the next frame is taken from
// the stream.
type frame struct {
	event  watch.EventType
	object []byte
}

const (
	framePrefix  = `{"type":"`
	frameObject  = `","object":`
	frameSuffix  = '}'
	eventTypeMax = 16
)

// parseFrame splits a line of a watch response without parsing the object. kube-apiserver always writes type before
// object and no white space; any other form goes through the standard decoder.
func parseFrame(line []byte) (frame, error) {
	line = bytes.TrimRight(line, "\r\n \t")
	if rest, ok := bytes.CutPrefix(line, []byte(framePrefix)); ok {
		end := bytes.IndexByte(rest[:min(len(rest), eventTypeMax)], '"')
		if end > 0 {
			object, ok := bytes.CutPrefix(rest[end:], []byte(frameObject))
			event, isKnown := eventType(rest[:end])
			if ok && isKnown && len(object) > 1 && object[0] == '{' && object[len(object)-1] == frameSuffix {
				return frame{event: event, object: object[:len(object)-1]}, nil
			}
		}
	}
	return parseUnusualFrame(line)
}

// eventType returns a known type without an allocation. Any other text may have to be decoded first.
func eventType(b []byte) (event watch.EventType, isKnown bool) {
	for _, known := range [...]watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(b) == string(known) {
			return known, true
		}
	}
	return "", false
}

var errNotAFrame = errors.New("not a watch event")

func parseUnusualFrame(line []byte) (frame, error) {
	var raw struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	// The decoder's own error may quote the input, which is not redacted.
	if json.Unmarshal(line, &raw) != nil || raw.Type == "" || len(raw.Object) == 0 || raw.Object[0] != '{' {
		return frame{}, errNotAFrame
	}
	return frame{event: raw.Type, object: raw.Object}, nil
}

// bookmark is the content of a BOOKMARK frame.
type bookmark struct {
	rv              version
	endsInitialList bool
}

func parseBookmark(object []byte) (bookmark, error) {
	var partial metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &partial); err != nil {
		return bookmark{}, errNotAFrame
	}
	return bookmark{
		rv:              parseVersion(partial.ResourceVersion),
		endsInitialList: partial.Annotations[metav1.InitialEventsAnnotationKey] == "true",
	}, nil
}

// statusError converts the object of an ERROR frame into an error.
func statusError(object []byte) error {
	var status metav1.Status
	err := json.Unmarshal(object, &status)
	if err == nil && status.Kind == "" {
		status.Message = "" // it may quote anything
	}
	if err != nil || status.Kind != "" && status.Kind != "Status" || status.Code == 0 && status.Reason == "" && status.Message == "" {
		return fmt.Errorf("server ended the watch: %w", errErrorWithoutStatus)
	}
	servertext.CleanStatus(&status)
	return fmt.Errorf("server ended the watch: %w", &apierrors.StatusError{ErrStatus: status})
}

// errUnknownType names the type of an event if it looks like one.
func errUnknownType(event watch.EventType) error {
	if len(event) > eventTypeMax || strings.ContainsFunc(string(event), func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return fmt.Errorf("unknown watch event type of %d bytes", len(event))
	}
	return fmt.Errorf("unknown watch event type %s", event)
}

var errErrorWithoutStatus = errors.New("error event without a status")

// decode reads the object of a frame. On the first try, an object that cannot be decoded is an error, because it may
// have been damaged on the way and the server will send it again. On the last try, only its identity is read and the
// record has no body, so that one bad object does not hide the others.
func (r *Reader) decode(object []byte, lastTry bool) (redact.Object, error) {
	obj, n, err := r.Plan.Decode(object)
	if err == nil && n != len(object) {
		err = fmt.Errorf("%d bytes follow the object", len(object)-n)
	}
	if err == nil {
		r.setKind(&obj)
		setCluster(&obj)
		return obj, nil
	}
	r.Observer.FrameUndecodable()
	if lastTry {
		if id, idErr := r.Plan.Identify(object); idErr == nil && id.UID != "" && id.ResourceVersion != "" {
			return redact.Object{Identity: id, APIVersion: r.API.APIVersion(r.Scope.Group), Kind: r.API.Kind}, nil
		}
	}
	return redact.Object{}, fmt.Errorf("%w of %s: %w", errUndecodable, r.Scope.Resource, err)
}
