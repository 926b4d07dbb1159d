package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// storeOld stores a checkpoint with one object in the previous layout.
func storeOld(t *testing.T, extension storage.Extension, clusterUID, group, version, resource, namespace, labels, fields, progress, uid string) {
	t.Helper()
	client := func(name string) storage.Client {
		c, err := extension.GetClient(t.Context(), component.KindReceiver, component.ID{}, name)
		require.NoError(t, err)
		return c
	}
	list := client("v1_selectors")
	key := strings.Join([]string{"v1", "selectors", clusterUID, group, version, resource, namespace}, "/")
	known, err := list.Get(t.Context(), key)
	require.NoError(t, err)
	own := labels + "\x00" + fields
	if len(known) > 0 {
		own = string(known) + "\x01" + own
	}
	require.NoError(t, list.Set(t.Context(), key, []byte(own)))

	sum := sha256.Sum256([]byte(strings.Join([]string{clusterUID, group, version, resource, namespace, labels, fields}, "\x00")))
	c := client("v1_" + resource + "_" + hex.EncodeToString(sum[:12]))
	object := watchlist.Stored{Identity: redact.Identity{UID: uid, Namespace: "a", Name: uid, ResourceVersion: "5"}}
	require.NoError(t, c.Batch(t.Context(), storage.SetOperation("progress", []byte(progress)),
		storage.SetOperation("object/"+watchlist.Key{1}.String(), encodeObject(object))))
}

// The checkpoints of the previous layout, whose names included the API version and the spelling of the selectors, are
// migrated once.
func TestOldLayoutIsMigrated(t *testing.T) {
	extension := memstorage.New()
	storeOld(t, extension, "cluster", "autoscaling", "v1", "horizontalpodautoscalers", "", "", "", `{"resourceVersion":"7","closed":true,"time":"2026-01-02T00:00:00Z"}`, "old")
	storeOld(t, extension, "cluster", "autoscaling", "v2", "horizontalpodautoscalers", "", "", "", `{"resourceVersion":"9","closed":true,"time":"2026-01-03T00:00:00Z"}`, "new")
	storeOld(t, extension, "cluster", "", "v1", "pods", "a", "team in (x)", "status.phase==Running", `{"resourceVersion":"11","closed":true,"time":"2026-01-03T00:00:00Z"}`, "pod")
	storeOld(t, extension, "", "", "v1", "nodes", "", "", "", `{"resourceVersion":"12","closed":true,"time":"2026-01-03T00:00:00Z"}`, "node")
	storeOld(t, extension, "", "", "v1", "services", "", "", "", `{"resourceVersion":"12`, "damaged")

	hpas := scope.New(schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}, "", "", "")
	pods := scope.New(schema.GroupResource{Resource: "pods"}, "a", "team=x", "status.phase=Running")
	nodes := scope.New(schema.GroupResource{Resource: "nodes"}, "", "", "")
	for range 2 { // the second time from the new layout
		got := config(t, extension, one, []scope.Scope{hpas, pods, nodes})
		assert.Equal(t, map[string]string{"new": "a/new@5"}, got[hpas].known)
		assert.Equal(t, "9", got[hpas].ResourceVersion)
		assert.False(t, got[hpas].Unconfirmed)
		assert.Equal(t, map[string]string{"pod": "a/pod@5"}, got[pods].known)
		assert.Equal(t, "11", got[pods].ResourceVersion)
		assert.Equal(t, map[string]string{"node": "a/node@5"}, got[nodes].known)
		assert.True(t, got[nodes].Unconfirmed, "its cluster was not known")
		for _, name := range extension.Names() {
			if name != clientName {
				assert.Empty(t, extension.Client(name), "%s is no longer needed", name)
			}
		}
	}
}

// An interrupted migration starts over.
func TestInterruptedMigrationIsRepeated(t *testing.T) {
	extension := memstorage.New()
	storeOld(t, extension, "cluster", "", "v1", "pods", "", "", "", `{"resourceVersion":"7","closed":true,"time":"2026-01-02T00:00:00Z"}`, "pod")
	before := extension.Client("v1_selectors")
	pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	assert.Len(t, config(t, extension, one, []scope.Scope{pods})[pods].known, 1)

	c, err := extension.GetClient(t.Context(), component.KindReceiver, component.ID{}, clientName)
	require.NoError(t, err)
	require.NoError(t, c.Delete(t.Context(), migratedKey))
	for key, value := range before {
		list, err := extension.GetClient(t.Context(), component.KindReceiver, component.ID{}, "v1_selectors")
		require.NoError(t, err)
		require.NoError(t, list.Set(t.Context(), key, value))
	}
	assert.Len(t, config(t, extension, one, []scope.Scope{pods})[pods].known, 1)
	assert.Len(t, ids(t, extension), 1)
	l := begin(extension, zap.NewNop())
	require.NoError(t, l.Shutdown(t.Context()))
}
