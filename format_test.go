package k8swatchlistreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestRecordFormats(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Resources = []ResourceConfig{{Name: "pods"}, {Name: "rbac"}}
	assert.Nil(t, cfg.recordFormats(), "all have the receiver's own")

	cfg.Format = formatK8sObjects
	cfg.Resources = []ResourceConfig{
		{Name: "pods", Namespaces: []string{"shop"}, LabelSelector: "app in (web)", Format: formatWatchlist},
		{Name: "pods", Namespaces: []string{"pay"}},
		{Name: "widgets", Format: formatWatchlist}, // of a group that only the server knows
		{Name: "rbac"},
		{Name: "gadgets.example.com"},
	}
	require.NoError(t, cfg.Validate())
	formatOf := cfg.recordFormats()
	of := func(name, namespace, labels string) record.Format {
		s := scope.New(schema.ParseGroupResource(name), namespace, labels, "")
		require.Equal(t, formatOf(&s), formatOf(&s), "the same when it is asked for again")
		return formatOf(&s)
	}
	assert.Equal(t, record.FormatWatchlist, of("pods", "shop", "app=web"))
	assert.Equal(t, record.FormatK8sObjects, of("pods", "pay", ""))
	assert.Equal(t, record.FormatWatchlist, of("widgets.example.com", "", ""))
	assert.Equal(t, record.FormatK8sObjects, of("roles.rbac.authorization.k8s.io", "", ""))
	assert.Equal(t, record.FormatK8sObjects, of("gadgets.example.com", "", ""))
}

// A gap that has no record in its format is a line in the log, and one that has a record is not.
func TestGapsWithoutRecordAreLogged(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	cfg := createDefaultConfig().(*Config)
	cfg.Resources = []ResourceConfig{{Name: "pods", Format: formatK8sObjects}, {Name: "nodes"}}
	counted, _ := telemetryOf(t, cfg.Telemetry)
	r := &watchlistReceiver{cfg: cfg, telemetry: counted, records: record.NewBuilder(record.Options{FormatOf: cfg.recordFormats()})}
	r.set.Logger = zap.New(core)

	pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	nodes := scope.New(schema.GroupResource{Resource: "nodes"}, "", "", "")
	since, until := time.Unix(1000, 0).UTC(), time.Unix(2000, 0).UTC()
	r.accepted([]watchlist.Change{
		{Scope: &pods, Type: watchlist.Added},
		{Scope: &pods, Type: watchlist.SnapshotEnd, Snapshot: &watchlist.SnapshotInfo{}},
		{Scope: &pods, Type: watchlist.Gap, Gap: &watchlist.GapInfo{Reason: "expired", FromRV: "5", ToRV: "9", From: since, To: until, Added: 1, Deleted: 2}},
		{Scope: &pods, Type: watchlist.Suspected, Gap: &watchlist.GapInfo{Reason: "expired"}},
		{Scope: &nodes, Type: watchlist.Gap, Gap: &watchlist.GapInfo{Reason: "expired", FromRV: "5", ToRV: "9", From: since, To: until}},
		{Scope: &pods, Type: watchlist.Gap, Gap: &watchlist.GapInfo{Reason: "undecodable", ToRV: "12", To: until, Object: redact.Identity{Namespace: "shop", Name: "web"}}},
	})

	entries := logs.AllUntimed()
	require.Len(t, entries, 2)
	for i, want := range []struct {
		message string
		fields  map[string]any
	}{
		{
			"the watch of pods did not see every change between resource versions 5 and 9 (expired); net differences: 1 added, 0 modified, 2 deleted",
			map[string]any{"group": "", "resource": "pods", "reason": "expired", "since": since, "until": until},
		},
		{
			"the watch of pods did not see every change between resource versions (unknown) and 12 (undecodable); net differences: 0 added, 0 modified, 0 deleted",
			map[string]any{"group": "", "resource": "pods", "reason": "undecodable", "until": until, "object": "shop/web"},
		},
	} {
		assert.Equal(t, zapcore.WarnLevel, entries[i].Level)
		assert.Equal(t, want.message, entries[i].Message)
		assert.Equal(t, want.fields, entries[i].ContextMap())
	}
}
