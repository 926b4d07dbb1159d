package replay

import (
	"bytes"
	"encoding/binary"
	"mime"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
)

// watchForm returns the form of a watch's answer by the client's first accepted type: JSON for whole objects, JSON or
// protobuf for metadata.
func watchForm(r *http.Request) (form corpus.Form, contentType string) {
	switch mediaType, as := firstAccepted(r); {
	case as != "PartialObjectMetadata":
		return corpus.Full, jsonType
	case mediaType == runtime.ContentTypeProtobuf:
		return corpus.PartialEncoded, runtime.ContentTypeProtobuf + ";stream=watch"
	}
	return corpus.Partial, jsonType
}

func firstAccepted(r *http.Request) (mediaType, as string) {
	first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	mediaType, parameters, _ := mime.ParseMediaType(first) // every form has an answer
	return mediaType, parameters["as"]
}

// appendMessage appends a watch event as protobuf, with its length before it.
func appendMessage(to []byte, event string, object []byte) []byte {
	message := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: object}}
	size := message.Size()
	to = binary.BigEndian.AppendUint32(to, uint32(size)) //nolint:gosec // objects are small
	to = slices.Grow(to, size)
	if _, err := message.MarshalToSizedBuffer(to[len(to) : len(to)+size]); err != nil {
		panic(err) // the buffer has exactly its size
	}
	return to[:len(to)+size]
}

func encode(object runtime.Object) []byte {
	var out bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(object, &out); err != nil {
		panic(err) // it is our own
	}
	return out.Bytes()
}
