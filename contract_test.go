package k8swatchlistreceiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
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
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadatatest"
)

// TestConsumeContract runs the Collector's own check of the contract between a receiver and its next consumer:
// transient errors are retried until the records are accepted, and permanently refused records are never sent again.
// The check answers at random, not by record, so each record is sent alone: if several are refused together, the
// receiver sends smaller parts of them again to find the refused one.
func TestConsumeContract(t *testing.T) {
	g := newPodGenerator(t)
	cfg := podsConfig(g.server.URL)
	cfg.Batch.MaxRecords = 1
	receivertest.CheckConsumeContract(receivertest.CheckConsumeContractParams{
		T: t,
		Factory: receiver.NewFactory(metadata.Type, createDefaultConfig, receiver.WithLogs(
			func(ctx context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
				return NewFactory().CreateLogs(ctx, set, cfg, g.identify(next))
			}, metadata.LogsStability)),
		Signal:        pipeline.SignalLogs,
		Config:        cfg,
		Generator:     g,
		GenerateCount: 16,
	})
}

// podGenerator is an API server whose pods are created on demand.
type podGenerator struct {
	server  *httptest.Server
	others  podServer // answers everything except the watch of pods
	events  chan string
	streams sync.WaitGroup

	creating sync.Mutex // so that pods are sent in the order of their versions
	created  int

	mu      sync.Mutex
	settled map[string]chan struct{} // by name, closed when the pod's record was accepted or refused permanently
}

func newPodGenerator(t *testing.T) *podGenerator {
	g := &podGenerator{events: make(chan string), settled: make(map[string]chan struct{})}
	g.server = httptest.NewServer(g)
	t.Cleanup(g.server.Close)
	return g
}

func (g *podGenerator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/pods" {
		g.others.ServeHTTP(w, r)
		return
	}
	if r.URL.Query().Get("watch") == "" { // requested once, since the first snapshot is empty
		fmt.Fprintln(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
		return
	}
	g.streams.Add(1)
	defer g.streams.Done()
	if r.URL.Query().Get("sendInitialEvents") == "true" { // there are no pods
		fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	}
	for {
		w.(http.Flusher).Flush()
		select {
		case event := <-g.events:
			fmt.Fprintln(w, event)
		case <-r.Context().Done():
			return
		}
	}
}

func (g *podGenerator) Start() {}

// Stop waits until the stopped receiver has no streams left, which would take the events of the next one.
func (g *podGenerator) Stop() { g.streams.Wait() }

// Generate creates a pod and waits until its record was accepted or refused permanently, since the check allows only
// five seconds for all remaining records at the end, however often it refuses.
func (g *podGenerator) Generate() []receivertest.UniqueIDAttrVal {
	settled := make(chan struct{})
	g.creating.Lock()
	g.created++
	name := fmt.Sprintf("pod-%d", g.created)
	g.mu.Lock()
	g.settled[name] = settled
	g.mu.Unlock()
	g.events <- fmt.Sprintf(`{"type":"ADDED","object":%s}`, pod(name, 1+g.created))
	g.creating.Unlock()
	<-settled
	return []receivertest.UniqueIDAttrVal{receivertest.UniqueIDAttrVal(name)}
}

// identify copies the names of the objects to the place where the check expects ids.
func (g *podGenerator) identify(next consumer.Logs) consumer.Logs {
	wrapped, err := consumer.NewLogs(func(ctx context.Context, logs plog.Logs) error {
		records := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
		var names []string
		records.RemoveIf(func(record plog.LogRecord) bool {
			name, ok := record.Attributes().Get("k8s.object.name")
			if !ok {
				return true // a record of the whole snapshot: the check knows only what Generate created
			}
			names = append(names, name.Str())
			record.Attributes().PutStr(receivertest.UniqueIDAttrName, name.Str())
			return false
		})
		if len(names) == 0 {
			return nil
		}
		err := next.ConsumeLogs(ctx, logs)
		if err == nil || consumererror.IsPermanent(err) && len(names) == 1 {
			g.mu.Lock()
			defer g.mu.Unlock()
			for _, name := range names {
				close(g.settled[name])
				delete(g.settled, name)
			}
		}
		return err
	}, consumer.WithCapabilities(consumer.Capabilities{MutatesData: true}))
	if err != nil {
		panic(err)
	}
	return wrapped
}

// A record that the pipeline refuses permanently costs only itself. The log names it, the metric counts it by resource,
// and neither reveals the rest of the batch.
func TestRefusedRecordCostsOnlyItself(t *testing.T) {
	g := newPodGenerator(t)
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	core, logs := observer.New(zap.WarnLevel)
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)

	cfg := podsConfig(g.server.URL)
	cfg.Batch.Timeout = 100 * time.Millisecond // so that batches have several records
	sink := new(consumertest.LogsSink)
	largest := 0
	next, err := consumer.NewLogs(func(ctx context.Context, records plog.Logs) error {
		largest = max(largest, records.LogRecordCount())
		for _, record := range fold.FromLogs(records) {
			if record.UID == "uid-of-pod-7" {
				return consumererror.NewDownstream(consumererror.NewPermanent(errors.New(`cannot index {"kind":"Pod"}`)))
			}
		}
		return sink.ConsumeLogs(ctx, records)
	})
	require.NoError(t, err)
	r, err := NewFactory().CreateLogs(t.Context(), set, cfg, g.identify(next))
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	var creators sync.WaitGroup
	for range 20 {
		creators.Go(func() { g.Generate() })
	}
	creators.Wait()

	metadatatest.AssertEqualK8sWatchlistRecordsDropped(t, tel, []metricdata.DataPoint[int64]{{Value: 1, Attributes: attribute.NewSet(
		attribute.String("receiver", set.ID.String()), attribute.String("group", ""), attribute.String("resource", "pods"),
		attribute.String("reason", "permanent"))}}, metricdatatest.IgnoreTimestamp())
	require.NoError(t, r.Shutdown(t.Context()))
	assert.Len(t, recordsOf(sink), 19)
	assert.Empty(t, fold.Duplicates(recordsOf(sink)))
	assert.Empty(t, fold.Disorder(recordsOf(sink)))
	assert.Greater(t, largest, 1)
	require.Equal(t, 1, logs.Len(), "%v", logs.All())
	fields := logs.All()[0].ContextMap()
	assert.Equal(t, []any{"k8s.object.added pods shop/pod-7 at resourceVersion 8"}, fields["dropped"])
	assert.Equal(t, "Permanent error: cannot index", fields["error"])
}
