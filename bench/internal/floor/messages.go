package floor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// messages reads protobuf messages, each preceded by its length.
func (r *reader) messages(body io.Reader) error {
	return split(body, messageEnd, func(framed []byte) { r.message(framed[lengthBytes:]) })
}

const lengthBytes = 4

// messageEnd returns where the first message ends; 0: not yet.
func messageEnd(rest []byte, _ int) int {
	if len(rest) < lengthBytes {
		return 0
	}
	if end := lengthBytes + int(binary.BigEndian.Uint32(rest)); end <= len(rest) {
		return end
	}
	return 0
}

// A message begins with its type, which is field 1.
var (
	bookmarkMessage = []byte("\x0a\x08BOOKMARK")
	endAnnotation   = []byte(metav1.InitialEventsAnnotationKey)
)

func (r *reader) message(message []byte) {
	isBookmark := bytes.HasPrefix(message, bookmarkMessage)
	r.count(isBookmark, isBookmark && bytes.Contains(message, endAnnotation), func() string { return versionIn(message) })
}

// versionIn decodes the whole message. It is used only if times are recorded, normally for JSON.
func versionIn(message []byte) string {
	var event metav1.WatchEvent
	var envelope runtime.Unknown
	var object metav1.PartialObjectMetadata
	if err := event.Unmarshal(message); err != nil {
		return ""
	}
	raw := bytes.TrimPrefix(event.Object.Raw, []byte("k8s\x00"))
	if errors.Join(envelope.Unmarshal(raw), object.Unmarshal(envelope.Raw)) != nil {
		return ""
	}
	return object.ResourceVersion
}
