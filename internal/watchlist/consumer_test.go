package watchlist_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/delivery"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/pipenet"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const (
	troubleBegins = 30 * time.Second
	troubleEnds   = troubleBegins + 5*time.Minute
	queueBytes    = 64 << 10
)

func TestConsumerBlocksForFiveMinutes(t *testing.T) {
	playConsumer(t, blockUntilItIsOver, 0)
}

func TestConsumerBlocksForFiveMinutesAndTheHistoryIsGone(t *testing.T) {
	playConsumer(t, blockUntilItIsOver, 100)
}

func TestConsumerRefusesForFiveMinutes(t *testing.T) {
	playConsumer(t, refuse, 0)
}

func TestConsumerRefusesForFiveMinutesAndTheHistoryIsGone(t *testing.T) {
	playConsumer(t, refuse, 100)
}

func blockUntilItIsOver(ctx context.Context, until time.Time) error {
	select {
	case <-time.After(time.Until(until)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func refuse(context.Context, time.Time) error { return errors.New("busy") }

// playConsumer runs the real reader, queue and records with five changes per second. While the consumer is in trouble,
// the queue stays within its bound. Afterwards the consumer has received everything, once and in order, except for
// history that the server no longer had, which a gap names.
func playConsumer(t *testing.T, trouble func(ctx context.Context, until time.Time) error, window int) {
	synctest.Test(t, func(t *testing.T) {
		server := &plannedServer{began: time.Now(), changes: planChanges(1, 2000, 200*time.Millisecond, 1000), window: window}
		network := pipenet.New()
		stop := network.Serve(server)
		client, err := kubeclient.New(&rest.Config{Host: "http://apiserver", Dial: network.Dial, QPS: 1000, Burst: 1000})
		require.NoError(t, err)

		next := &troubledConsumer{began: time.Now(), trouble: trouble}
		held := &highWater{}
		queue := delivery.New(delivery.Options[watchlist.Change]{
			MaxBytes: queueBytes, BatchMaxRecords: 10, BatchTimeout: 200 * time.Millisecond, DrainTimeout: time.Minute,
			Size:       func(c watchlist.Change) int { return 512 + len(c.Object.JSON) },
			Build:      record.NewBuilder(record.Options{}).Build,
			Next:       next,
			QueueBytes: held.add,
		})
		queue.Start()
		observed := &countingObserver{counts: map[string]int{}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		watchlist.NewReader(watchlist.Options{
			Scope: scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}},
			API:   scope.API{Version: "v1", Kind: "Pod", Namespaced: true},
			Plan:  redact.NewPlan("", "pods"), Opener: client, Emitter: queue, SnapshotSlots: watchlist.NewSlots(1),
			Now: time.Now, Observer: observed, Logger: zap.NewNop(),
		}).Run(ctx)
		require.NoError(t, queue.Shutdown(t.Context()))
		client.Close()
		stop()

		records := next.records
		assert.Empty(t, fold.Fold(records).Differences(server.listed()))
		assert.Empty(t, fold.Duplicates(records))
		assert.Empty(t, fold.Disorder(records))
		assert.Empty(t, server.unaccounted(records, next.gaps))
		assert.LessOrEqual(t, held.most, queueBytes)
		assert.Greater(t, held.most, queueBytes/2, "the queue was never full")
		assert.NotZero(t, observed.counts["paused"])
		assert.Equal(t, window > 0, len(next.gaps) > 0, "gaps: %v", next.gaps)
		t.Logf("%d changes, %d records, %d pauses, gaps %v, at most %d bytes waited", len(server.changes), len(records),
			observed.counts["paused"], next.gaps, held.most)
	})
}

// troubledConsumer keeps what it accepts, and is in trouble for five minutes.
type troubledConsumer struct {
	began   time.Time
	trouble func(ctx context.Context, until time.Time) error

	records []fold.Record
	gaps    [][2]int
}

func (*troubledConsumer) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (c *troubledConsumer) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	if since := time.Since(c.began); since >= troubleBegins && since < troubleEnds {
		if err := c.trouble(ctx, c.began.Add(troubleEnds)); err != nil {
			return err
		}
	}
	c.records = append(c.records, fold.FromLogs(logs)...)
	for _, r := range logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().All() {
		if r.EventName() == "k8s.watch.gap" {
			var gap [2]int
			for i, key := range []string{"k8s.gap.from_resource_version", "k8s.gap.to_resource_version"} {
				v, _ := r.Attributes().Get(key)
				gap[i], _ = strconv.Atoi(v.Str())
			}
			c.gaps = append(c.gaps, gap)
		}
	}
	return nil
}

// unaccounted returns the changes since the first snapshot that were neither emitted nor covered by a gap record.
func (s *plannedServer) unaccounted(records []fold.Record, gaps [][2]int) []string {
	accounted := map[string]bool{}
	first := len(s.changes)
	for _, r := range records {
		version, _ := strconv.Atoi(r.ResourceVersion)
		if r.Origin == "live" {
			first = min(first, version)
		}
		accounted[fmt.Sprintf("%s %s@%d", r.Type, r.UID, version)] = true
	}
	var found []string
	for _, c := range s.changes {
		change := fmt.Sprintf("%s %s@%d", c.event, c.uid, c.version)
		inGap := false
		for _, gap := range gaps {
			inGap = inGap || c.version > gap[0] && c.version <= gap[1]
		}
		if c.version >= first && !accounted[change] && !inGap {
			found = append(found, change)
		}
	}
	return found
}

// highWater is the maximum of a sum.
type highWater struct {
	mu        sync.Mutex
	now, most int
}

func (h *highWater) add(delta int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += delta
	h.most = max(h.most, h.now)
}
