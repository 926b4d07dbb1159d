package kubeclient

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/framer"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// encoded returns a frame as an API server writes it: with apimachinery's own serializer and framer.
func encoded(tb testing.TB, event string, object runtime.Object) []byte {
	tb.Helper()
	var raw bytes.Buffer
	require.NoError(tb, protobuf.NewSerializer(nil, nil).Encode(object, &raw))
	return encodedRaw(tb, event, raw.Bytes())
}

func encodedRaw(tb testing.TB, event string, raw []byte) []byte {
	tb.Helper()
	message, err := (&metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: raw}}).Marshal()
	require.NoError(tb, err)
	return framed(tb, message)
}

func framed(tb testing.TB, message []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	_, err := framer.NewLengthDelimitedFrameWriter(&out).Write(message)
	require.NoError(tb, err)
	return out.Bytes()
}

func metadataOf(meta metav1.ObjectMeta) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
		ObjectMeta: meta,
	}
}

// fullMetadata has something in every field that a server fills.
func fullMetadata() *metav1.PartialObjectMetadata {
	yes, grace, now := true, int64(30), metav1.Unix(1_700_000_000, 0)
	return metadataOf(metav1.ObjectMeta{
		Name: "web-1", GenerateName: "web-", Namespace: "shop", UID: "0a1b", ResourceVersion: "42", Generation: 3,
		CreationTimestamp: now, DeletionTimestamp: &now, DeletionGracePeriodSeconds: &grace,
		Labels:          map[string]string{"app": "web"},
		Annotations:     map[string]string{"password": "sentinel", "k8s.io/initial-events-end": "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "0a1c", Controller: &yes}},
		Finalizers:      []string{"example.com/wait"},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:phase":{}}}`), Subresource: "status",
		}},
	})
}

func linesOf(body io.Reader) (string, error) {
	content, err := io.ReadAll(newMetadataFrames(io.NopCloser(body)))
	return string(content), err
}

const fullLine = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` +
	`"metadata":{"name":"web-1","namespace":"shop","uid":"0a1b","resourceVersion":"42"}}`

func TestMetadataFrames(t *testing.T) {
	marker := metadataOf(metav1.ObjectMeta{
		ResourceVersion: "50",
		Annotations:     map[string]string{"k8s.io/initial-events-end": "true", "other": "sentinel"},
	})
	tests := map[string]struct {
		frame []byte
		want  string
	}{
		"added":    {encoded(t, "ADDED", fullMetadata()), `{"type":"ADDED","object":` + fullLine + "}\n"},
		"modified": {encoded(t, "MODIFIED", fullMetadata()), `{"type":"MODIFIED","object":` + fullLine + "}\n"},
		"deleted":  {encoded(t, "DELETED", fullMetadata()), `{"type":"DELETED","object":` + fullLine + "}\n"},
		"bookmark": {
			encoded(t, "BOOKMARK", metadataOf(metav1.ObjectMeta{ResourceVersion: "49"})),
			`{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"49"}}}` + "\n",
		},
		"end marker": {
			encoded(t, "BOOKMARK", marker),
			`{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` +
				`"metadata":{"resourceVersion":"50","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n",
		},
		"cluster-scoped, and names to be quoted": {
			encoded(t, "ADDED", metadataOf(metav1.ObjectMeta{Name: "system:a\"b\\c\n\u2028<é", UID: "u\xff", ResourceVersion: "1"})),
			`{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` +
				`"metadata":{"name":"system:a\"b\\c\n\u2028\u003cé","uid":"u\ufffd","resourceVersion":"1"}}}` + "\n",
		},
		"empty object": {
			encoded(t, "ADDED", &metav1.PartialObjectMetadata{}),
			`{"type":"ADDED","object":{"metadata":{}}}` + "\n",
		},
		"unknown type":                   {encoded(t, "RE\"NAMED", fullMetadata()), `{"type":"RE\"NAMED","object":{}}` + "\n"},
		"unknown type of something else": {encodedRaw(t, "NEW", []byte("sentinel")), `{"type":"NEW","object":{}}` + "\n"},

		// To the reader these are undecodable.
		"empty message":           {framed(t, nil), "{}\n"},
		"no type":                 {encoded(t, "", fullMetadata()), "{}\n"},
		"no object":               {encodedRaw(t, "ADDED", nil), "{}\n"},
		"object in another form":  {encodedRaw(t, "ADDED", []byte(`{"metadata":{"name":"sentinel"}}`)), "{}\n"},
		"garbage":                 {framed(t, []byte("sentinel")), "{}\n"},
		"garbage in the envelope": {encodedRaw(t, "ADDED", []byte("k8s\x00sentinel")), "{}\n"},
		"garbage in the object": {
			encoded(t, "ADDED", &runtime.Unknown{Raw: []byte("\x0a\x08\x0a\x20sentinel")}), "{}\n",
		},
		"name of another wire type": {
			encoded(t, "ADDED", &runtime.Unknown{Raw: []byte("\x0a\x02\x08\x01")}), "{}\n",
		},
		"error without a status": {encodedRaw(t, "ERROR", []byte("k8s\x00sentinel")), `{"type":"ERROR","object":{}}` + "\n"},
		"error with garbage for a status": {
			encoded(t, "ERROR", &runtime.Unknown{Raw: []byte("\xffsentinel")}), `{"type":"ERROR","object":{}}` + "\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := linesOf(bytes.NewReader(append(tt.frame, encoded(t, "DELETED", fullMetadata())...)))
			require.NoError(t, err)
			assert.Equal(t, tt.want+`{"type":"DELETED","object":`+fullLine+"}\n", got, "and the next frame is read as ever")
			assert.NotContains(t, got, "sentinel")
		})
	}
}

// The status in the last event decides how a watch continues, so it has to be complete.
func TestMetadataFramesCarryTheWholeStatus(t *testing.T) {
	for name, status := range map[string]metav1.Status{
		"expired": {Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old resource version: 1 (9)"},
		"too large": {
			Status: metav1.StatusFailure, Code: 504, Reason: metav1.StatusReasonTimeout, Message: "Too large resource version: 9, current: 1",
			Details: &metav1.StatusDetails{
				RetryAfterSeconds: 1, Name: "x", Group: "apps", Kind: "deployments", UID: "u",
				Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version", Field: "f"}},
			},
		},
		"paged": {ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more"}, Code: 500, Message: "a\nb"},
	} {
		t.Run(name, func(t *testing.T) {
			status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
			line, err := linesOf(bytes.NewReader(encoded(t, "ERROR", &status)))
			require.NoError(t, err)
			want, err := json.Marshal(status)
			require.NoError(t, err)
			assert.Equal(t, `{"type":"ERROR","object":`+string(want)+"}\n", line)
		})
	}
}

func TestMetadataFramesAgreeWithJSON(t *testing.T) {
	for name, object := range map[string]*metav1.PartialObjectMetadata{
		"full":           fullMetadata(),
		"cluster-scoped": metadataOf(metav1.ObjectMeta{Name: "node-1", UID: "u", ResourceVersion: "18446744073709551615"}),
		"empty":          metadataOf(metav1.ObjectMeta{}),
		"odd names":      metadataOf(metav1.ObjectMeta{Name: "a<b>&\"\\\t\x7f\U0001f600\xc3", Namespace: "\u2029", UID: "\x00"}),
	} {
		t.Run(name, func(t *testing.T) {
			line, err := linesOf(bytes.NewReader(encoded(t, "ADDED", object)))
			require.NoError(t, err)
			content, err := json.Marshal(object)
			require.NoError(t, err)
			var got struct{ Object metav1.PartialObjectMetadata }
			var want metav1.PartialObjectMetadata
			require.NoError(t, json.Unmarshal([]byte(line), &got))
			require.NoError(t, json.Unmarshal(content, &want))
			want.ObjectMeta = metav1.ObjectMeta{
				Name: want.Name, Namespace: want.Namespace, UID: want.UID, ResourceVersion: want.ResourceVersion,
			}
			assert.Equal(t, want, got.Object)
		})
	}
}

// threeFrames returns some frames, and the end of each.
func threeFrames(t *testing.T) (stream []byte, ends []int) {
	for _, event := range []string{"ADDED", "NEW", "BOOKMARK"} {
		stream = append(stream, encoded(t, event, fullMetadata())...)
		ends = append(ends, len(stream))
	}
	return stream, ends
}

func TestMetadataFramesCutAnywhere(t *testing.T) {
	stream, ends := threeFrames(t)
	broken := errors.New("broken")
	for cut := range len(stream) + 1 {
		whole := 0
		for _, end := range ends {
			if end <= cut {
				whole++
			}
		}
		got, err := linesOf(bytes.NewReader(stream[:cut]))
		require.NoError(t, err, "the response may end anywhere")
		assert.Equal(t, whole, strings.Count(got, "\n"), "cut after %d bytes", cut)

		got, err = linesOf(io.MultiReader(bytes.NewReader(stream[:cut]), iotest.ErrReader(broken)))
		require.ErrorIs(t, err, broken)
		assert.Equal(t, whole, strings.Count(got, "\n"), "broken after %d bytes", cut)
	}
}

func TestMetadataFramesInAnyPieces(t *testing.T) {
	stream, _ := threeFrames(t)
	large := metadataOf(metav1.ObjectMeta{Name: "large", UID: "u", ResourceVersion: "7", Annotations: map[string]string{"a": strings.Repeat("x", 300_000)}})
	stream = append(stream, encoded(t, "ADDED", large)...)
	stream = append(stream, stream...)
	want, err := linesOf(bytes.NewReader(stream))
	require.NoError(t, err)
	require.Equal(t, 8, strings.Count(want, "\n"))
	for name, pieces := range map[string]func(io.Reader) io.Reader{
		"one byte at a time": iotest.OneByteReader, "halves": iotest.HalfReader, "the end with the last bytes": iotest.DataErrReader,
	} {
		got, err := linesOf(pieces(bytes.NewReader(stream)))
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	require.NoError(t, iotest.TestReader(newMetadataFrames(io.NopCloser(bytes.NewReader(stream))), []byte(want)))
}

// A frame is returned as soon as it is complete, not when the next one arrives.
func TestMetadataFramesDoNotWait(t *testing.T) {
	reader, writer := io.Pipe()
	frames := newMetadataFrames(reader)
	go func() {
		_, _ = writer.Write(encoded(t, "ADDED", fullMetadata()))
	}()
	line := make([]byte, 1<<10)
	n, err := frames.Read(line)
	require.NoError(t, err)
	assert.Equal(t, `{"type":"ADDED","object":`+fullLine+"}\n", string(line[:n]))
	require.NoError(t, frames.Close())
	_, err = writer.Write([]byte("more"))
	require.ErrorIs(t, err, io.ErrClosedPipe, "the body is closed")
}

// After a garbled length, the rest is no longer a stream.
func TestMetadataFramesBoundFrames(t *testing.T) {
	head := encoded(t, "ADDED", fullMetadata())
	for _, length := range []uint32{watchlist.MaxFrameBytes + 1, 1 << 31, 1<<32 - 1} {
		stream := binary.BigEndian.AppendUint32(bytes.Clone(head), length)
		got, err := linesOf(io.MultiReader(bytes.NewReader(stream), iotest.ErrReader(errors.New("read on"))))
		require.ErrorIs(t, err, watchlist.ErrFrameTooLarge)
		assert.Equal(t, 1, strings.Count(got, "\n"), "complete frames before the fault count")
	}
}

// A length alone allocates no memory: the bytes have to arrive.
func TestMetadataFramesAllocateAsBytesArrive(t *testing.T) {
	stream := binary.BigEndian.AppendUint32(nil, watchlist.MaxFrameBytes)
	stream = append(stream, "a few bytes"...)
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	got, err := linesOf(bytes.NewReader(stream))
	goruntime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

// Nearly all frames hold objects, and none of these needs an allocation.
func TestMetadataFramesAllocations(t *testing.T) {
	frame := encoded(t, "ADDED", fullMetadata())[4:]
	line := make([]byte, 0, 1<<10)
	assert.Zero(t, testing.AllocsPerRun(100, func() { line = appendMetadataLine(line[:0], frame) }))
}

// Whatever replaces frames, a message or an object, every line is JSON, and the sizes of the pieces read do not matter.
func FuzzMetadataFrames(f *testing.F) {
	status := &metav1.Status{
		Code: 410, Reason: metav1.StatusReasonExpired,
		Details: &metav1.StatusDetails{RetryAfterSeconds: 1, Causes: []metav1.StatusCause{{Type: "x"}}},
	}
	for _, object := range []runtime.Object{fullMetadata(), status} {
		var raw bytes.Buffer
		require.NoError(f, protobuf.NewSerializer(nil, nil).Encode(object, &raw))
		f.Add(raw.Bytes())
		for _, event := range []string{"ADDED", "BOOKMARK", "ERROR", "NEW"} {
			frame := encodedRaw(f, event, raw.Bytes())
			f.Add(frame)
			f.Add(frame[frameLengthBytes:])
		}
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		message := framed(t, data)
		for _, stream := range [][]byte{
			data, append(message, data...), encodedRaw(t, "ADDED", data), encodedRaw(t, "BOOKMARK", data), encodedRaw(t, "ERROR", data),
		} {
			got, err := linesOf(bytes.NewReader(stream))
			require.True(t, err == nil || errors.Is(err, watchlist.ErrFrameTooLarge), "%v", err)
			require.True(t, got == "" || strings.HasSuffix(got, "\n"))
			for line := range strings.Lines(got) {
				require.True(t, json.Valid([]byte(line)), "%q", line)
			}
			inHalves, halvesErr := linesOf(iotest.HalfReader(bytes.NewReader(stream)))
			require.Equal(t, got, inHalves)
			require.Equal(t, err, halvesErr)
		}
	})
}

// The server chooses the form of the answer.
func TestMetadataInTheFormOfTheServer(t *testing.T) {
	frame := encoded(t, "ADDED", fullMetadata())
	line := `{"type":"ADDED","object":` + fullLine + "}\n"
	watch := watchlist.Request{Scope: pods, API: podAPI, SendInitialEvents: true, MetadataOnly: true}
	tests := map[string]struct {
		request     watchlist.Request
		contentType string
		body, want  string
	}{
		"protobuf":                {watch, "application/vnd.kubernetes.protobuf;stream=watch", string(frame), line},
		"protobuf, other writing": {watch, `Application/Vnd.Kubernetes.Protobuf; charset="utf-8"`, string(frame), line},
		"JSON":                    {watch, "application/json", line, line},
		"no type":                 {watch, "", line, line},
		"objects are JSON":        {watchlist.Request{Scope: pods, API: podAPI}, "application/json", line, line},
		"a page is JSON":          {watchlist.Request{Scope: pods, API: podAPI, List: true, MetadataOnly: true}, "application/json", `{"items":[]}`, `{"items":[]}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{tt.contentType}
				_, _ = io.WriteString(w, tt.body)
			})
			body, err := client.Open(t.Context(), tt.request)
			require.NoError(t, err)
			content, err := io.ReadAll(body)
			require.NoError(t, err)
			require.NoError(t, body.Close())
			assert.Equal(t, tt.want, string(content))
		})
	}
}
