package k8swatchlistreceiver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadatatest"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func scopeOf(resource, namespace, labels string) scope.Scope {
	return scope.New(schema.ParseGroupResource(resource), namespace, labels, "")
}

// What is configured of an entry counts for the scopes that it selects, and for no others of the same resource.
func TestOptionsOfAScope(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.ExcludeTypes = []string{"SNAPSHOT"}
	cfg.Resources = []ResourceConfig{
		{Name: "pods", Namespaces: []string{"shop", "pay"}, DropFields: []string{"status"}, ExcludeTypes: []string{"DELETED"}},
		{Name: "pods", Namespaces: []string{"web"}, KeepFields: []string{"spec"}},
		{Name: "endpoints", DropFields: []string{"endpoints"}},
		{Name: "widgets", LabelSelector: "team in (web)", DropFields: []string{"spec"}},
	}
	snapshot := watchlist.TypeSet(0).With(watchlist.Snapshot)
	for _, c := range []struct {
		of       scope.Scope
		fields   redact.Fields
		excluded watchlist.TypeSet
	}{
		{scopeOf("pods", "shop", ""), redact.Fields{Drop: []string{"status"}}, snapshot.With(watchlist.Deleted)},
		{scopeOf("pods", "pay", ""), redact.Fields{Drop: []string{"status"}}, snapshot.With(watchlist.Deleted)},
		{scopeOf("pods", "web", ""), redact.Fields{Keep: []string{"spec"}}, snapshot},
		{scopeOf("endpointslices.discovery.k8s.io", "", ""), redact.Fields{Drop: []string{"endpoints"}}, snapshot},
		{scopeOf("widgets.example.com", "", "team in (web)"), redact.Fields{Drop: []string{"spec"}}, snapshot},
		{scopeOf("widgets.example.com", "", "team=api"), redact.Fields{}, snapshot},
	} {
		assert.Equal(t, c.fields, cfg.fields(c.of), c.of.String())
		assert.Equal(t, c.excluded, cfg.excludedTypes(c.of), c.of.String())
	}
}

// allRecords returns what has come, by object name and change type, or by event name.
func allRecords(sink *consumertest.LogsSink) map[string]plog.LogRecord {
	found := map[string]plog.LogRecord{}
	for _, logs := range sink.AllLogs() {
		for _, resource := range logs.ResourceLogs().All() {
			for _, record := range resource.ScopeLogs().At(0).LogRecords().All() {
				name, _ := record.Attributes().Get("k8s.object.name")
				kind, ok := record.Attributes().Get("k8s.change.type")
				if !ok {
					found[record.EventName()] = record
					continue
				}
				found[name.Str()+" "+kind.Str()] = record
			}
		}
	}
	return found
}

// The options together, from the server to the consumer.
func TestRecordOptionsFromServerToConsumer(t *testing.T) {
	server := newPodServer(t)
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()

	cfg := podsConfig(server.URL)
	cfg.Body, cfg.ObjectAttribute = bodySummary, objectJSON
	cfg.MaxRecordBytes = 2048
	cfg.ExcludeTypes = []string{"SNAPSHOT"}
	cfg.Resources[0].ExcludeTypes = []string{"DELETED"}
	cfg.Resources[0].DropFields = []string{"metadata.uid", "spec.secret"}
	cfg.ResourceGrouping = groupNamespace
	cfg.ResourceAttributes = map[string]any{"service.name": "kubernetes", "shard": 3}
	require.NoError(t, cfg.Validate())

	sink := new(consumertest.LogsSink)
	r, err := NewFactory().CreateLogs(t.Context(), set, cfg, sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	server.events <- fmt.Sprintf(`{"type":"DELETED","object":%s}`, pod("a", 8))
	more := `,"spec":{"secret":"x","text":"` + strings.Repeat("y", 2000) + `"}}`
	server.events <- fmt.Sprintf(`{"type":"MODIFIED","object":%s}`, strings.TrimSuffix(pod("b", 9), "}")+more)
	require.Eventually(t, func() bool { return len(allRecords(sink)) == 1 }, 10*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { // it is counted after it was queued
		_, err := tel.GetMetric("otelcol_k8s_watchlist_records_truncated")
		return err == nil
	}, 10*time.Second, 5*time.Millisecond)

	pods := []attribute.KeyValue{attribute.String("receiver", set.ID.String()), attribute.String("group", ""), attribute.String("resource", "pods")}
	point := func(value int64, more ...attribute.KeyValue) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: value, Attributes: attribute.NewSet(append(pods, more...)...)}
	}
	metadatatest.AssertEqualK8sWatchlistRecordsExcluded(t, tel, []metricdata.DataPoint[int64]{
		point(2, attribute.String("type", "SNAPSHOT")), point(1, attribute.String("type", "DELETED")),
		point(1, attribute.String("type", "SNAPSHOT_BEGIN")), point(1, attribute.String("type", "SNAPSHOT_END")),
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualK8sWatchlistRecordsTruncated(t, tel, []metricdata.DataPoint[int64]{point(1)}, metricdatatest.IgnoreTimestamp())
	require.NoError(t, r.Shutdown(t.Context()))

	records := allRecords(sink)
	require.Len(t, records, 1)
	modified := records["b MODIFIED"]
	assert.Equal(t, "Pod shop/b modified: metadata.labels, spec", modified.Body().Str())
	attributes := modified.Attributes().AsRaw()
	assert.Equal(t, "uid-of-b", attributes["k8s.object.uid"])
	assert.Equal(t, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b","namespace":"shop","resourceVersion":"9","labels":{"round":"9"}},"spec":{"text":"[TRUNCATED len=2000]"}}`,
		attributes["k8s.object.manifest"])
	assert.Equal(t, []any{"spec.text"}, attributes["k8s.record.truncated"])
	resource := sink.AllLogs()[0].ResourceLogs().At(0).Resource().Attributes().AsRaw()
	assert.Equal(t, map[string]any{"service.name": "kubernetes", "shard": int64(3), "k8s.namespace.name": "shop", "k8s.cluster.uid": "uid-of-the-cluster", "k8s.redaction.key": "process"}, resource)
}
