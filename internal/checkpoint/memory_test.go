package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func newMemoryClient(t *testing.T) memoryClient {
	t.Helper()
	client, err := NewMemory().GetClient(t.Context(), component.KindReceiver, component.ID{}, "")
	require.NoError(t, err)
	return client.(memoryClient)
}

// pod returns an object like those of a large cluster.
func pod(n int) watchlist.Stored {
	return watchlist.Stored{Content: uint64(n) + 1<<60, Identity: redact.Identity{
		UID: fmt.Sprintf("5f0c1f0a-3f0b-4c55-9d2e-%012x", n*7919), ResourceVersion: fmt.Sprint(10_000_000 + n),
		Namespace: fmt.Sprintf("team-%02d", n%100), Name: fmt.Sprintf("checkout-%07d-7d4b9c6f5-x2k4q", n),
	}}
}

func TestMemoryHoldsEveryKey(t *testing.T) {
	c := newMemoryClient(t)
	odd := pod(1)
	odd.UID = "not a UUID"
	upper := pod(2)
	upper.UID = strings.ToUpper(upper.UID)
	want := map[string]string{
		"led": "one", "probe": "", "shard": "0", "checkpoint/7/scope": "{}",
		"object/7/no key": "x", "object/7": "y", "object/7/" + strings.Repeat("AB", 16): "capitals are another key",
		objectKey("7", watchlist.KeyOfIdentity(pod(3).Identity)):   string(encodeObject(pod(3))),
		objectKey("8", watchlist.KeyOfIdentity(pod(3).Identity)):   "",
		objectKey("7", watchlist.KeyOfIdentity(odd.Identity)):      string(encodeObject(odd)),
		objectKey("7", watchlist.KeyOfIdentity(upper.Identity)):    string(encodeObject(upper)),
		objectKey("7", watchlist.KeyOfIdentity(pod(4).Identity)):   uidLeftOut,
		objectKey("700", watchlist.KeyOfIdentity(pod(3).Identity)): string(encodeObject(pod(5))), // the value of another one
	}
	for key, value := range want {
		require.NoError(t, c.Set(t.Context(), key, []byte(value)))
	}
	got := map[string]string{}
	walk := func(key string, value []byte) ([]*storage.Operation, error) {
		got[key] = string(value)
		return nil, nil
	}
	require.NoError(t, c.Walk(t.Context(), walk))
	assert.Equal(t, want, got)
	for key, value := range want {
		have, err := c.Get(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, value, string(have), key)
		require.NotNil(t, have, key)
		require.NoError(t, c.Delete(t.Context(), key))
		have, err = c.Get(t.Context(), key)
		require.NoError(t, err)
		assert.Nil(t, have, key)
	}
	clear(got)
	require.NoError(t, c.Walk(t.Context(), walk))
	assert.Empty(t, got)
}

func TestMemoryWalksInOrder(t *testing.T) {
	c := newMemoryClient(t)
	for n := range 50 {
		require.NoError(t, c.Set(t.Context(), objectKey(fmt.Sprint(n%3), watchlist.KeyOfIdentity(pod(n).Identity)), encodeObject(pod(n))))
	}
	for _, key := range []string{"checkpoint/1/scope", "shard", "led"} {
		require.NoError(t, c.Set(t.Context(), key, nil))
	}
	var keys []string
	require.NoError(t, c.Walk(t.Context(), func(key string, _ []byte) ([]*storage.Operation, error) {
		keys = append(keys, key)
		return []*storage.Operation{storage.DeleteOperation(key)}, nil
	}))
	assert.Len(t, keys, 53)
	assert.True(t, slices.IsSorted(keys))

	require.NoError(t, c.Set(t.Context(), "a", []byte("1")))
	require.NoError(t, c.Set(t.Context(), "b", []byte("2")))
	refused := errors.New("refused")
	assert.ErrorIs(t, c.Walk(t.Context(), func(key string, _ []byte) ([]*storage.Operation, error) {
		return []*storage.Operation{storage.DeleteOperation(key)}, refused
	}), refused)
	keys = nil
	require.NoError(t, c.Walk(t.Context(), func(key string, _ []byte) ([]*storage.Operation, error) {
		keys = append(keys, key)
		return []*storage.Operation{storage.DeleteOperation("b")}, storage.SkipAll
	}))
	assert.Equal(t, []string{"a"}, keys, "after an error, nothing was deleted")
	left, err := c.Get(t.Context(), "b")
	require.NoError(t, err)
	assert.Nil(t, left)
}

// A standby without a storage holds every object of a cluster in it.
func TestMemoryOfAnObject(t *testing.T) {
	const objects, most = 100_000, 150
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	c := newMemoryClient(t)
	before := heap()
	for n := range objects {
		o := pod(n)
		if err := c.Set(context.Background(), objectKey("0123456789abcdef", watchlist.KeyOfIdentity(o.Identity)), encodeObject(o)); err != nil {
			t.Fatal(err)
		}
	}
	perObject := (heap() - before) / objects
	runtime.KeepAlive(c)
	t.Logf("%d bytes an object", perObject)
	assert.Less(t, perObject, uint64(most), "bytes of an object")
}
