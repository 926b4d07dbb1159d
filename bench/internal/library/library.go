// Package library runs the receiver in this process, created by its factory as in a Collector.
package library

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receivertest"

	k8swatchlistreceiver "github.com/k8swatchlist/k8swatchlistreceiver"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// Run reads the resources until ctx ends.
func Run(ctx context.Context, o contender.Options) ([]contender.Stamp, error) {
	return RunInto(ctx, o, NewSink(o.Progress))
}

// RunInto is Run with the caller's sink.
func RunInto(ctx context.Context, o contender.Options, sink *Sink) ([]contender.Stamp, error) {
	err := receive(ctx, Config(o), sink)
	return sink.Stamps(), err
}

// Config returns the receiver's configuration as YAML.
func Config(o contender.Options) string {
	var names []string
	for _, path := range o.Paths() {
		names = append(names, "{name: "+Resource(path)+"}")
	}
	body := "map"
	if o.JSON {
		body = "json"
	}
	config := fmt.Sprintf("auth_type: kubeConfig\nkubeconfig: %s\nkube_api_qps: 1000\nkube_api_burst: 1000\ncompression: %t\nbody: %s\nresources: [%s]\n",
		o.Kubeconfig, o.Gzip, body, strings.Join(names, ", "))
	if o.SmallestBatch {
		config += "batch: {timeout: 0s}\n"
	}
	return config
}

// Resource returns the name of the resource at a path: pods, deployments.apps.
func Resource(path string) string {
	parts := strings.Split(path, "/")
	if parts[0] == "api" {
		return parts[2]
	}
	return parts[3] + "." + parts[1]
}

func receive(ctx context.Context, yaml string, next consumer.Logs) error {
	factory := k8swatchlistreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := otelcol.LoadConfig(yaml, config); err != nil {
		return err
	}
	r, err := factory.CreateLogs(ctx, receivertest.NewNopSettings(factory.Type()), config, next)
	if err != nil {
		return err
	}
	if err := r.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return r.Shutdown(grace)
}

// Sink counts the records of objects, and keeps the arrival times of live changes.
type Sink struct {
	progress *contender.Progress

	mu     sync.Mutex
	uids   map[string]struct{} // nil: not kept
	stamps []contender.Stamp
}

// NewSink returns an empty one.
func NewSink(progress *contender.Progress) *Sink { return &Sink{progress: progress} }

// KeepUIDs makes the sink count distinct objects.
func (s *Sink) KeepUIDs() { s.uids = make(map[string]struct{}) }

// UIDs returns the number of distinct objects.
func (s *Sink) UIDs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uids)
}

// Stamps returns the arrival times of the changes so far.
func (s *Sink) Stamps() []contender.Stamp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]contender.Stamp(nil), s.stamps...)
}

// Capabilities implements consumer.Logs.
func (*Sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeLogs implements consumer.Logs.
func (s *Sink) ConsumeLogs(_ context.Context, logs plog.Logs) error {
	now := contender.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				s.add(record, now)
			}
		}
	}
	return nil
}

func (s *Sink) add(record plog.LogRecord, now time.Duration) {
	attribute := func(key string) string {
		if value, ok := record.Attributes().Get(key); ok {
			return value.AsString()
		}
		return ""
	}
	switch record.EventName() {
	case "k8s.snapshot.begin":
		return
	case "k8s.snapshot.end":
		s.progress.CompleteOne()
		return
	}
	if s.uids != nil {
		s.uids[cmp.Or(attribute("k8s.event.uid"), attribute("k8s.object.uid"))] = struct{}{}
	}
	if attribute("k8s.change.type") == "SNAPSHOT" {
		s.progress.Objects.Add(1)
		return
	}
	s.progress.Changes.Add(1)
	version := cmp.Or(attribute("k8s.event.resource_version"), attribute("k8s.object.resource_version"))
	if version == "" {
		version = bodyVersion(record.Body())
	}
	if version, err := strconv.ParseUint(version, 10, 64); err == nil {
		s.stamps = append(s.stamps, contender.Stamp{Version: version, At: now})
	}
}

// bodyVersion returns the version from where contrib's k8sobjects receiver has it in watch mode.
func bodyVersion(value pcommon.Value) string {
	for _, key := range []string{"object", "metadata", "resourceVersion"} {
		if value.Type() != pcommon.ValueTypeMap {
			return ""
		}
		var ok bool
		if value, ok = value.Map().Get(key); !ok {
			return ""
		}
	}
	return value.AsString()
}
