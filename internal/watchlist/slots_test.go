package watchlist_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// slotReader runs a reader of one resource whose server answers with open, until the test's context ends.
func slotReader(ctx context.Context, running *sync.WaitGroup, slots *watchlist.Slots, resource string, logger *zap.Logger, open func(context.Context, watchlist.Request) (io.ReadCloser, error)) *recordingQueue {
	queue := &recordingQueue{room: 1 << 30, freed: make(chan struct{}, 1)}
	reader := watchlist.NewReader(watchlist.Options{
		Scope: scope.Scope{GroupResource: schema.GroupResource{Resource: resource}},
		API:   scope.API{Version: "v1", Kind: "Pod", Namespaced: true},
		Plan:  redact.NewPlan("", resource), Opener: openerFunc(open), Emitter: queue,
		SnapshotSlots: slots, Now: time.Now, Logger: logger,
	})
	running.Go(func() { reader.Run(ctx) })
	return queue
}

// recorded returns the transcript so far, while the reader runs.
func recorded(q *recordingQueue) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.transcript()
}

type openerFunc func(context.Context, watchlist.Request) (io.ReadCloser, error)

func (f openerFunc) Open(ctx context.Context, req watchlist.Request) (io.ReadCloser, error) {
	return f(ctx, req)
}

// completeSnapshot answers at once with one object and the end marker, and then stays silent.
func completeSnapshot(ctx context.Context, req watchlist.Request) (io.ReadCloser, error) {
	req.OnSent()
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	go func() {
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"metadata":{"name":"a","uid":"a","resourceVersion":"5"}}}`+"\n"+
			`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
	}()
	return r, nil
}

// trickle sends an object every 20 seconds, but never the end marker.
func trickle(ctx context.Context, req watchlist.Request) (io.ReadCloser, error) {
	req.OnSent()
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	go func() {
		for i := 1; ; i++ {
			if _, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"o%d","uid":"o%d","resourceVersion":"%d"}}}`+"\n", i, i, i); err != nil {
				return
			}
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
				return
			}
		}
	}()
	return r, nil
}

// neverAnswered accepts the request but never begins to answer.
func neverAnswered(ctx context.Context, req watchlist.Request) (io.ReadCloser, error) {
	req.OnSent()
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestSlowSnapshotsReleaseTheirSlots(t *testing.T) {
	for name, c := range map[string]struct {
		slow   openerFunc
		within time.Duration
	}{
		"trickling":  {trickle, time.Minute},
		"unanswered": {neverAnswered, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				core, logs := observer.New(zapcore.InfoLevel)
				slots := watchlist.NewSlots(3)
				for i := range 3 {
					slotReader(ctx, &running, slots, fmt.Sprintf("slow%d", i), zap.NewNop(), c.slow)
				}
				synctest.Wait()
				other := slotReader(ctx, &running, slots, "pods", zap.New(core), completeSnapshot)

				time.Sleep(c.within - time.Second)
				synctest.Wait()
				assert.Empty(t, recorded(other), "the slots are taken")
				time.Sleep(2 * time.Second)
				synctest.Wait()
				assert.Equal(t, []string{"BEGIN initial", "SNAPSHOT initial /a@5", "END initial 1 objects at 7"}, recorded(other))
				waited := logs.FilterMessageSnippet("waits for other snapshots").Len()
				assert.Equal(t, c.within > 30*time.Second, waited == 1, "%d lines about waiting", waited)
				cancel()
				running.Wait()
			})
		})
	}
}

// The slots of one server do not affect another.
func TestSlotsBelongToAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		slots := watchlist.NewSlots(1)
		slotReader(ctx, &running, slots, "slow", zap.NewNop(), trickle)
		synctest.Wait()
		other := slotReader(ctx, &running, watchlist.NewSlots(1), "pods", zap.NewNop(), completeSnapshot)
		synctest.Wait()
		assert.Len(t, recorded(other), 3)
		cancel()
		running.Wait()
	})
}

// A slot that a slow snapshot released early is not released again at its end: there are never more snapshots than
// slots.
func TestSlotsAreReleasedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var mu sync.Mutex
		var opened []string
		slots := watchlist.NewSlots(1)
		open := func(resource string, then openerFunc) openerFunc {
			return func(ctx context.Context, req watchlist.Request) (io.ReadCloser, error) {
				mu.Lock()
				opened = append(opened, resource)
				mu.Unlock()
				return then(ctx, req)
			}
		}
		first, endFirst := context.WithCancel(ctx)
		slotReader(first, &running, slots, "slow1", zap.NewNop(), open("slow1", trickle))
		synctest.Wait()
		slotReader(ctx, &running, slots, "slow2", zap.NewNop(), open("slow2", trickle))
		time.Sleep(61 * time.Second)
		endFirst() // while slow2 holds the slot
		slotReader(ctx, &running, slots, "slow3", zap.NewNop(), open("slow3", trickle))
		time.Sleep(30 * time.Second)
		mu.Lock()
		assert.Equal(t, "slow1 slow2", strings.Join(opened, " "))
		mu.Unlock()
		time.Sleep(31 * time.Second)
		mu.Lock()
		assert.Equal(t, "slow1 slow2 slow3", strings.Join(opened, " "))
		mu.Unlock()
		cancel()
		endFirst()
		running.Wait()
	})
}

// Named resources come before those that a pattern selects, and small ones before large ones.
func TestSlotsGoByRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := watchlist.NewSlots(1)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var mu sync.Mutex
		var order []string
		read := func(resource string, rank watchlist.Rank, length time.Duration) {
			open := func(ctx context.Context, req watchlist.Request) (io.ReadCloser, error) {
				mu.Lock()
				order = append(order, resource)
				mu.Unlock()
				time.Sleep(length)
				return completeSnapshot(ctx, req)
			}
			reader := watchlist.NewReader(watchlist.Options{
				Scope: scope.Scope{GroupResource: schema.GroupResource{Resource: resource}},
				API:   scope.API{Version: "v1", Kind: "Pod", Namespaced: true},
				Plan:  redact.NewPlan("", resource), Opener: openerFunc(open), Emitter: &recordingQueue{room: 1 << 30, freed: make(chan struct{}, 1)},
				SnapshotSlots: slots, Rank: rank, Now: time.Now, Logger: zap.NewNop(),
			})
			running.Go(func() { reader.Run(ctx) })
			synctest.Wait()
		}
		read("first", watchlist.RankLarge, 5*time.Second)
		read("large", watchlist.RankLarge, 5*time.Second)
		read("matched", watchlist.RankMatched, 5*time.Second)
		read("named", watchlist.RankNamed, 50*time.Second)
		time.Sleep(30 * time.Second)
		read("late-and-named", watchlist.RankNamed, time.Second)
		time.Sleep(10 * time.Minute)
		cancel()
		running.Wait()
		assert.Equal(t, []string{"first", "named", "late-and-named", "matched", "large"}, order[:5])
	})
}
