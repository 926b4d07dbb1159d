package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// Missed changes, including deletions, are emitted in the shape of contrib's receiver. The gap is reported in the log
// of the Collector, or on request in a record.
func TestGapInAnotherFormat(t *testing.T) {
	t.Parallel()
	const each = 3
	s := modern.start(t)
	s.CreatePods(t, "changed", each, harness.SmallPod)
	s.CreatePods(t, "deleted", each, harness.SmallPod)
	silent, talkative := harness.StartRawSink(t), harness.StartRawSink(t)
	collector := harness.StartCollector(t, `
receivers:
  k8s_watchlist/silent:
`+indent(s.access+"resources: [pods]\nformat: k8sobjects")+`
  k8s_watchlist/talkative:
`+indent(s.access+"resources: [pods]\nformat: k8sobjects\nstream_records: true")+`
exporters:
  otlp_grpc/silent: {endpoint: "`+silent.Address()+`", tls: {insecure: true}, compression: none, sending_queue: {enabled: false}}
  otlp_grpc/talkative: {endpoint: "`+talkative.Address()+`", tls: {insecure: true}, compression: none, sending_queue: {enabled: false}}
service:
  pipelines:
    logs/silent: {receivers: [k8s_watchlist/silent], exporters: [otlp_grpc/silent]}
    logs/talkative: {receivers: [k8s_watchlist/talkative], exporters: [otlp_grpc/talkative]}
  telemetry:
    metrics: {level: none}
`)
	sinks := []*harness.RawSink{silent, talkative}
	for _, sink := range sinks {
		awaitPod(t, sink, "deleted-00002")
	}
	s.CreatePods(t, "live", 1, harness.SmallPod) // received by the watch
	for _, sink := range sinks {
		awaitPod(t, sink, "live-00000")
	}

	s.proxy.Cut()
	s.DeletePods(t, "deleted", each)
	s.ChangePods(t, "changed", each)
	s.CreatePods(t, "added", each, harness.SmallPod)
	harness.ConnectEtcd(t, s.Cluster).Compact(t)
	s.RestartAPIServer(t)
	s.proxy.Restore(t)
	const gap = "the watch of pods did not see every change"
	collector.AwaitLog(t, gap, catchUp)
	talkative.Await(t, catchUp, "the record of the gap", func(records []harness.RawRecord) string {
		if slices.ContainsFunc(records, func(r harness.RawRecord) bool { return r.EventName == "k8s.watch.gap" }) {
			return ""
		}
		return fmt.Sprintf("%d records have come", len(records))
	})
	collector.Interrupt(t)

	recovered := map[string]int{"DELETED inferred deleted": each, "MODIFIED changed": each, "ADDED added": each}
	for name, tt := range map[string]struct {
		sink   *harness.RawSink
		stream map[string]int
	}{
		"silent":    {silent, map[string]int{}},
		"talkative": {talkative, map[string]int{"k8s.snapshot.begin": 1, "k8s.snapshot.end": 1, "k8s.watch.gap": 1}},
	} {
		found, stream := map[string]int{}, map[string]int{}
		for _, record := range tt.sink.All() {
			if record.EventName != "" {
				stream[record.EventName]++
				if record.Resource["k8s.cluster.uid"] == nil || record.ScopeName != "github.com/k8swatchlist/k8swatchlistreceiver" {
					t.Errorf("%s: a record about the stream is not as in format watchlist: %+v", name, record)
				}
				continue
			}
			if record.Attributes["k8s.change.origin"] == "recovered" {
				found[recoveredSummary(t, record)]++
			}
		}
		if fmt.Sprint(found) != fmt.Sprint(recovered) {
			t.Errorf("%s: recovered are %v, want %v", name, found, recovered)
		}
		if fmt.Sprint(stream) != fmt.Sprint(tt.stream) {
			t.Errorf("%s: records about the stream are %v, want %v", name, stream, tt.stream)
		}
	}
	lines := collector.LogLines(gap)
	if len(lines) != 1 || !strings.Contains(lines[0], "\twarn\t") || !strings.Contains(lines[0], "k8s_watchlist/silent") {
		t.Errorf("the log has %q, want one warning about the gap that has no record", lines)
	}
}

// recoveredSummary returns what all records of the same kind of missed change have in common. It requires that the body
// contains the object's identity.
func recoveredSummary(t *testing.T, record harness.RawRecord) string {
	t.Helper()
	body := record.Body.(map[string]any)
	object := objectIn(body)
	metadata := metadataOf(object)
	name, _ := metadata["name"].(string)
	if object["kind"] != "Pod" || object["apiVersion"] != "v1" || metadata["namespace"] != "default" || metadata["uid"] == nil ||
		metadata["resourceVersion"] == nil || record.Attributes["event.name"] != name || record.Resource["k8s.namespace.name"] != "default" {
		t.Errorf("a record lacks the identity of its object: %+v", record)
	}
	inferred := ""
	if record.Attributes["k8s.change.inferred"] == true {
		inferred = " inferred"
	}
	return fmt.Sprintf("%s%s %s", body["type"], inferred, harness.Prefix(name))
}

func awaitPod(t *testing.T, sink *harness.RawSink, name string) {
	t.Helper()
	sink.Await(t, catchUp, "a record of pod "+name, func(records []harness.RawRecord) string {
		for _, record := range records {
			if body, ok := record.Body.(map[string]any); ok && metadataOf(objectIn(body))["name"] == name {
				return ""
			}
		}
		return fmt.Sprintf("%d records have come", len(records))
	})
}
