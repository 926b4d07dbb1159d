package watchlist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"

	"github.com/stretchr/testify/require"
)

// chunkReader returns its bytes in pieces of the given sizes, repeatedly.
type chunkReader struct {
	data  []byte
	sizes []byte
	next  int
}

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := 1
	if len(r.sizes) > 0 {
		n += int(r.sizes[r.next%len(r.sizes)])
		r.next++
	}
	n = min(n, len(r.data), len(p))
	copy(p, r.data[:n])
	r.data = r.data[n:]
	return n, nil
}

// For any input, in any pieces, the frames are the complete lines that are not blank.
func FuzzStream(f *testing.F) {
	f.Add([]byte("a\nb\n\n \nc"), []byte{0})
	f.Add([]byte("\n"), []byte{})
	f.Add([]byte("{\"type\":\"ADDED\"}\r\nx\n"), []byte{3, 0, 200})
	f.Fuzz(func(t *testing.T, data, sizes []byte) {
		var want []string
		for whole := data; ; {
			line, rest, ended := bytes.Cut(whole, []byte{'\n'})
			if !ended {
				break
			}
			if len(bytes.TrimSpace(line)) > 0 {
				want = append(want, string(line))
			}
			whole = rest
		}
		got, err := readAll(t, &chunkReader{data: data, sizes: sizes})
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, want, got)
	})
}

// A frame is split as the standard decoder would, or rejected.
func FuzzParseFrame(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"a":1}}`))
	f.Add([]byte(`{"object":{"a":1},"type":"DELETED"}`))
	f.Add([]byte(`{"type":"ADDED","object":{"a":1},"more":{}}`))
	f.Add([]byte("{\"type\":\"\xb8\",\"object\":{}}"))
	f.Add([]byte(`{"type":"\u0041DDED","object":{}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := parseFrame(line)
		if err != nil || !json.Valid(line) {
			return // invalid JSON is noticed when the object is decoded
		}
		var want struct {
			Type   string
			Object json.RawMessage
		}
		require.NoError(t, json.Unmarshal(line, &want))
		if !json.Valid(got.object) {
			return // decoding the object notices what follows it
		}
		require.Equal(t, want.Type, string(got.event))
		require.Equal(t, string(bytes.TrimSpace(want.Object)), string(bytes.TrimSpace(got.object)))
	})
}

// A page of a list becomes one line of JSON for each item, or an error that does not quote it.
func FuzzListedSnapshot(f *testing.F) {
	f.Add([]byte(`{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":[1,2]}]}`))
	f.Add([]byte(`{"items":null,"metadata":{}}`))
	f.Add([]byte(`{"items":[1,2`))
	f.Fuzz(func(t *testing.T, page []byte) {
		pages := 0
		lister := snapshotLister{pages: openerFunc(func(context.Context) (io.ReadCloser, error) {
			if pages++; pages > 3 {
				return nil, io.ErrUnexpectedEOF // the same page would repeat forever
			}
			return io.NopCloser(bytes.NewReader(page)), nil
		})}
		body, err := lister.Open(t.Context(), Request{Scope: scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}}})
		if err != nil {
			return
		}
		defer body.Close()
		all, err := io.ReadAll(body)
		if err != nil {
			require.True(t, errors.Is(err, errNotAList) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF), "%v", err)
		}
		for _, line := range bytes.Split(bytes.TrimSuffix(all, []byte{'\n'}), []byte{'\n'}) {
			require.True(t, len(line) == 0 || json.Valid(line), "%q", line)
		}
	})
}
