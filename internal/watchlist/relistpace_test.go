package watchlist

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// The server sends a relist of many objects at once. Live changes during the relist are emitted during it, not after
// it.
func TestRelistDoesNotDelayLiveChanges(t *testing.T) {
	const objects, interval = 20_000, 10 * time.Millisecond
	const expected = 800 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		live, server := io.Pipe()
		relisted := make(chan time.Time, 1)
		seen := &changesSeen{relistEnded: make(chan time.Time, 1)}
		var serving sync.WaitGroup
		reader := NewReader(Options{
			Scope: scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}},
			API:   scope.API{Version: "v1", Kind: "Pod", Namespaced: true},
			Plan:  redact.NewPlan("", "pods"),
			Opener: requestOpener(func(ctx context.Context, req Request) (io.ReadCloser, error) {
				switch {
				case req.SendInitialEvents && req.MetadataOnly:
					relisted <- time.Now()
					return io.NopCloser(bytes.NewReader(initialEvents(objects))), nil
				case req.SendInitialEvents:
					context.AfterFunc(ctx, func() { _ = live.CloseWithError(ctx.Err()) })
					serving.Go(func() { _, _ = server.Write(initialEvents(objects)) })
					return live, nil
				}
				return nil, io.ErrUnexpectedEOF // the rotation after a relist
			}),
			Emitter: seen, Observer: seen, SnapshotSlots: NewSlots(1), Now: time.Now,
			RelistInterval: 10 * time.Second, Logger: zap.NewNop(),
		})
		var running sync.WaitGroup
		running.Go(func() { reader.Run(ctx) })

		began := <-relisted
		serving.Go(func() {
			for rv := objects + 2; ctx.Err() == nil; rv++ {
				if _, err := fmt.Fprintf(server, `{"type":"MODIFIED","object":%s}`+"\n", pod(1, rv)); err != nil {
					return
				}
				time.Sleep(interval)
			}
		})
		ended := <-seen.relistEnded
		cancel()
		running.Wait()
		serving.Wait()

		took := ended.Sub(began)
		assert.InDelta(t, expected, took, float64(100*time.Millisecond))
		assert.InDelta(t, int(took/interval), seen.between(began, ended), 10)
	})
}

type requestOpener func(context.Context, Request) (io.ReadCloser, error)

func (f requestOpener) Open(ctx context.Context, req Request) (io.ReadCloser, error) {
	return f(ctx, req)
}

func pod(i, rv int) string {
	return fmt.Sprintf(`{"metadata":{"name":"pod-%d","uid":"00000000-0000-4000-8000-%012x","resourceVersion":"%d"}}`, i, i, rv)
}

// initialEvents returns n objects and the end marker.
func initialEvents(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"type":"ADDED","object":%s}`+"\n", pod(i, i+1))
	}
	fmt.Fprintf(&b, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", n+1)
	return b.Bytes()
}

// changesSeen records when live changes are emitted, and when a relist ends.
type changesSeen struct {
	NopObserver
	mu          sync.Mutex
	live        []time.Time
	relistEnded chan time.Time
}

func (s *changesSeen) Offer(c Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Origin == Live {
		s.live = append(s.live, time.Now())
	}
	return true
}

func (*changesSeen) WaitForRoom(context.Context) error { return nil }

func (s *changesSeen) RelistEnded(string, time.Duration) { s.relistEnded <- time.Now() }

func (s *changesSeen) between(from, to time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.live {
		if at.After(from) && at.Before(to) {
			n++
		}
	}
	return n
}
