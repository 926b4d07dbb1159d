package k8swatchlistreceiver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
)

// gate is a consumer that keeps its caller waiting until it is opened, and then refuses some records permanently.
type gate struct {
	consumertest.LogsSink
	calls   chan struct{} // holds a token once a call waits
	opened  chan struct{}
	refuses func(fold.Record) bool
}

func newGate(refuses func(fold.Record) bool) *gate {
	return &gate{calls: make(chan struct{}, 1), opened: make(chan struct{}), refuses: refuses}
}

func (g *gate) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	select {
	case g.calls <- struct{}{}:
	default:
	}
	<-g.opened
	if slices.ContainsFunc(fold.FromLogs(logs), g.refuses) {
		return consumererror.NewPermanent(errors.New("refused"))
	}
	return g.LogsSink.ConsumeLogs(ctx, logs)
}

// pausable is a receiver of pods with a storage, whose session the test stops and starts.
type pausable struct {
	*watchlistReceiver
	t      *testing.T
	server *podServer
}

func startPausable(t *testing.T, next consumer.Logs) *pausable {
	t.Helper()
	p := &pausable{t: t, server: newPodServer(t)}
	id := component.MustNewID("storage")
	cfg := podsConfig(p.server.URL)
	cfg.Storage = &id
	r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), storageHost{Host: componenttest.NewNopHost(), extension: memstorage.New()}))
	p.watchlistReceiver = r.(*watchlistReceiver)
	t.Cleanup(func() { assert.NoError(t, r.Shutdown(context.Background())) })
	return p
}

func (p *pausable) send(event, name string, rv int) {
	p.server.events <- fmt.Sprintf(`{"type":%q,"object":%s}`, event, pod(name, rv))
}

// restart ends all reading and begins it again.
func (p *pausable) restart() {
	p.t.Helper()
	p.session.stop()
	require.Eventually(p.t, p.server.idle, 10*time.Second, 5*time.Millisecond) // else the old stream takes the next event
	p.session = p.startSession(p.newReader)
}

func waitForRecords(t *testing.T, sink *consumertest.LogsSink, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(recordsOf(sink)) >= n }, 10*time.Second, 5*time.Millisecond,
		"%d records did not arrive", n)
}

// A session that starts beside the same delivery and keeper continues where the one before stopped.
func TestSessionIsRestarted(t *testing.T) {
	sink := new(consumertest.LogsSink)
	p := startPausable(t, sink)
	p.send("MODIFIED", "a", 8)
	waitForRecords(t, sink, 3)
	p.restart()
	p.send("DELETED", "b", 9)
	waitForRecords(t, sink, 4)
	p.restart()
	p.send("ADDED", "c", 10)
	waitForRecords(t, sink, 5)

	assert.Equal(t, []string{"snapshot", "watch from 8", "watch from 9"}, p.server.streams())
	assert.Empty(t, fold.Duplicates(recordsOf(sink)))
	assert.Empty(t, fold.Fold(recordsOf(sink)).Differences(fold.State{"uid-of-a": "8", "uid-of-c": "10"}))
}

// What a session has emitted may still be in the queue when the next one starts, or one that ends at once.
func TestSessionIsRestartedWhileItsRecordsAreQueued(t *testing.T) {
	next := newGate(func(fold.Record) bool { return false })
	p := startPausable(t, next)
	p.send("MODIFIED", "a", 8)
	<-next.calls
	p.restart()
	p.restart()
	close(next.opened)
	p.send("DELETED", "b", 9)
	waitForRecords(t, &next.LogsSink, 4)
	p.restart()
	p.send("ADDED", "c", 10)
	waitForRecords(t, &next.LogsSink, 5)

	assert.Equal(t, []string{"snapshot", "watch from 8", "watch from 9"}, p.server.streams())
	assert.Empty(t, fold.Duplicates(recordsOf(&next.LogsSink)))
	assert.Empty(t, fold.Fold(recordsOf(&next.LogsSink)).Differences(fold.State{"uid-of-a": "8", "uid-of-c": "10"}))
}

// Records that are dropped after their session has ended are reported by the next one, once. Nothing was accepted after
// them, so the server sends them again.
func TestSessionIsRestartedWhileItsRecordsAreDropped(t *testing.T) {
	var accepts atomic.Bool
	next := newGate(func(r fold.Record) bool { return !accepts.Load() && r.Name == "a" && r.ResourceVersion == "8" })
	p := startPausable(t, next)
	p.send("MODIFIED", "a", 8)
	<-next.calls
	p.restart()
	close(next.opened)
	require.Eventually(t, func() bool { return len(p.server.streams()) == 2 }, 10*time.Second, 5*time.Millisecond)
	accepts.Store(true)
	p.send("MODIFIED", "a", 8)
	dropped := func() (dropped []int64) {
		for _, logs := range next.AllLogs() {
			for _, record := range logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().All() {
				if n, ok := record.Attributes().Get("k8s.gap.dropped"); ok {
					dropped = append(dropped, n.Int())
				}
			}
		}
		return dropped
	}
	require.Eventually(t, func() bool { return len(dropped()) > 0 }, 10*time.Second, 5*time.Millisecond)
	p.send("DELETED", "b", 9)
	waitForRecords(t, &next.LogsSink, 4)
	assert.Equal(t, []int64{1}, dropped())
	assert.Equal(t, []string{"snapshot", "watch from 7"}, p.server.streams())
	assert.Empty(t, fold.Duplicates(recordsOf(&next.LogsSink)))
	assert.Empty(t, fold.Fold(recordsOf(&next.LogsSink)).Differences(fold.State{"uid-of-a": "8"}))
}
