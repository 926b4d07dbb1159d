package k8swatchlistreceiver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
)

// TestConsumeContract runs the Collector's own check of what a receiver owes the next consumer: that transient errors
// are retried until the records are accepted, and that what was refused permanently is never sent again. The check
// answers at random and not by record, so each record travels alone: where several are refused together, the receiver
// sends smaller parts of them again to find the one that is meant.
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
	others  podServer // answers everything but the watch of pods
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

// Stop waits until no stream of the receiver that was stopped is left: it would take the events of the next one.
func (g *podGenerator) Stop() { g.streams.Wait() }

// Generate creates a pod and waits until its record was accepted or refused permanently, since the check allows only
// five seconds for all that is left in the end, however often it refuses.
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

// identify copies the names of the objects to where the check looks for ids.
func (g *podGenerator) identify(next consumer.Logs) consumer.Logs {
	wrapped, err := consumer.NewLogs(func(ctx context.Context, logs plog.Logs) error {
		records := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
		var names []string
		records.RemoveIf(func(record plog.LogRecord) bool {
			name, ok := record.Attributes().Get("k8s.object.name")
			if !ok {
				return true // of the snapshot as a whole: the check knows only what Generate made
			}
			names = append(names, name.Str())
			record.Attributes().PutStr(receivertest.UniqueIDAttrName, name.Str())
			return false
		})
		if len(names) == 0 {
			return nil
		}
		err := next.ConsumeLogs(ctx, logs)
		if err == nil || consumererror.IsPermanent(err) {
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
