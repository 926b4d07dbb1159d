package watchlist

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// openEmitter accepts everything and keeps nothing.
type openEmitter struct{}

func (openEmitter) Offer(Change) bool                 { return true }
func (openEmitter) WaitForRoom(context.Context) error { return nil }

func bareReader() *Reader {
	return NewReader(Options{
		Scope:   scope.Scope{GroupResource: schema.GroupResource{Group: "example.com", Resource: "odds"}},
		API:     scope.API{Version: "v1", Kind: "Odd", Namespaced: true},
		Plan:    redact.NewPlan("example.com", "odds"),
		Emitter: openEmitter{}, SnapshotSlots: NewSlots(1), Logger: zap.NewNop(),
		Now: time.Now,
	})
}

// oddFrame is a watch event of a megabyte whose UID and version are neither a UUID nor a number.
func oddFrame(kind string, n int) []byte {
	return fmt.Appendf(nil, `{"type":%q,"object":{"kind":"Odd","apiVersion":"example.com/v1","metadata":{"name":"object-%d","namespace":"ns","uid":"odd-%d","resourceVersion":"v-%d"},"spec":%q}}`,
		kind, n, n, n, strings.Repeat("x", 1<<20))
}

// Nothing that outlives a frame keeps it in memory.
func TestNothingKeepsAFrameInMemory(t *testing.T) {
	const objects = 40
	ignore := func(Key, version) {}
	relistOf := func(r *Reader, metadataOnly bool) (*follower, *relist) {
		l := &relist{stream: &stream{}, span: &span{}, metadataOnly: metadataOnly, pending: pendingObjects{objects: map[Key]pendingObject{}}, deleted: map[Key]version{}}
		return &follower{Reader: r, successor: &successor{stream: l.stream, relist: l}}, l
	}
	for name, place := range map[string]func(t *testing.T, r *Reader) any{
		"inventory, position and end of the stream": func(t *testing.T, r *Reader) any {
			s := &stream{}
			for n := range objects {
				require.NoError(t, r.liveFrame(t.Context(), s, oddFrame("ADDED", n), ignore))
			}
			assert.Equal(t, objects, r.inventory.len())
			return s
		},
		"versions of an object that changes": func(t *testing.T, r *Reader) any {
			kept := make([]*Reader, objects)
			for n := range kept {
				kept[n] = bareReader()
				require.NoError(t, kept[n].liveFrame(t.Context(), &stream{}, oddFrame("ADDED", n), ignore))
			}
			return kept
		},
		"deletions ahead of the position": func(t *testing.T, r *Reader) any {
			for n := range objects {
				f, err := parseFrame(oddFrame("DELETED", n))
				require.NoError(t, err)
				require.NoError(t, r.snapshotDeletion(t.Context(), &snapshotPass{}, f))
			}
			assert.Len(t, r.deletedAhead, objects)
			return nil
		},
		"deletions during a relist": func(t *testing.T, r *Reader) any {
			f, l := relistOf(r, true)
			for n := range objects {
				require.NoError(t, r.liveFrame(t.Context(), &stream{}, oddFrame("DELETED", n), f.deletedLive))
			}
			assert.Len(t, l.deleted, objects)
			return f
		},
		"objects of a relist beyond the bound": func(t *testing.T, r *Reader) any {
			f, l := relistOf(r, false)
			l.pending.bytes = maxPendingBytes
			for n := range objects {
				require.NoError(t, f.relistFrame(t.Context(), l, oddFrame("ADDED", n)))
			}
			return f
		},
		"metadata of a relist": func(t *testing.T, r *Reader) any {
			f, l := relistOf(r, true)
			for n := range objects {
				require.NoError(t, f.relistFrame(t.Context(), l, oddFrame("ADDED", n)))
			}
			return f
		},
		"frames that cannot be decoded": func(t *testing.T, r *Reader) any {
			var errs []error
			for n := range objects {
				errs = append(errs, r.liveFrame(t.Context(), &stream{}, oddFrame("ODD"+strings.Repeat("x", 10), n), ignore))
			}
			return errs
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := bareReader()
			before := heapBytes()
			kept := place(t, r)
			grown := heapBytes() - before
			runtime.KeepAlive(kept)
			runtime.KeepAlive(r)
			assert.Less(t, grown, int64(4<<20), "bytes that %d objects of 1 MiB leave behind", objects)
			t.Logf("%d bytes", grown)
		})
	}
}

// However many missed objects a relist finds, it keeps no more of them than the bound.
func TestRelistThatFindsEverythingMissed(t *testing.T) {
	const objects = 50_000
	for name, metadataOnly := range map[string]bool{"objects": false, "metadata": true} {
		t.Run(name, func(t *testing.T) {
			r := bareReader()
			l := &relist{stream: &stream{}, span: &span{}, metadataOnly: metadataOnly, pending: pendingObjects{objects: map[Key]pendingObject{}}, deleted: map[Key]version{}}
			f := &follower{Reader: r, successor: &successor{stream: l.stream, relist: l}}
			padding := strings.Repeat("x", 2000)
			before := heapBytes()
			most := int64(0)
			for n := range objects {
				frame := fmt.Appendf(nil, `{"type":"ADDED","object":{"kind":"Odd","apiVersion":"example.com/v1","metadata":{"name":"object-%d","namespace":"ns","uid":"9f0e1d2c-0000-4000-8000-%012x","resourceVersion":"%d"},"spec":%q}}`, n, n, n+10, padding)
				require.NoError(t, f.relistFrame(t.Context(), l, frame))
				if n%5000 == 3500 { // near 8 MiB the first time
					most = max(most, heapBytes()-before)
				}
			}
			most = max(most, heapBytes()-before)
			assert.Len(t, l.pending.objects, objects)
			assert.Less(t, most, int64(24<<20), "bytes that 100 MB of missed objects take")
			t.Logf("%d bytes", most)
			runtime.KeepAlive(f)
		})
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
