package watchlist

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

func TestInventoryReturnsWhatWasPut(t *testing.T) {
	f := func(id redact.Identity) {
		t.Helper()
		inv := newInventory()
		key := keyOf(id)
		inv.put(key, id, parseVersion(id.ResourceVersion))
		assert.Equal(t, id, inv.identity(key))
		assert.Equal(t, key, keyOf(id), "the key of an object is stable")
		inv.remove(key)
		assert.Zero(t, inv.len())
		assert.Empty(t, inv.oddUIDs)
		assert.Empty(t, inv.oddVersions)
	}
	f(redact.Identity{UID: "11111111-2222-3333-4444-555555555555", ResourceVersion: "7", Namespace: "ns", Name: "a"})
	f(redact.Identity{UID: "11111111-2222-3333-4444-555555555555", ResourceVersion: "7", Name: "cluster-scoped"})
	f(redact.Identity{UID: "11111111-2222-3333-4444-55555555555A", ResourceVersion: "7", Name: "upper case"})
	f(redact.Identity{UID: "not-a-uuid", ResourceVersion: "7", Namespace: "ns", Name: "a"})
	f(redact.Identity{ResourceVersion: "7", Namespace: "ns", Name: "without uid"})
	f(redact.Identity{UID: "11111111-2222-3333-4444-555555555555", ResourceVersion: "opaque", Name: "a"})
	f(redact.Identity{UID: "11111111-2222-3333-4444-555555555555", ResourceVersion: "123456789012345678901234567890", Name: "a"})
	f(redact.Identity{UID: "11111111-2222-3333-4444-555555555555", Name: "without version"})
}

func TestInventoryVersionsChangeForm(t *testing.T) {
	inv := newInventory()
	id := redact.Identity{UID: "u", Name: "a"}
	key := keyOf(id)
	for _, rv := range []string{"5", "opaque", "6", "123456789012345678901234567890", "7"} {
		inv.put(key, id, parseVersion(rv))
		got, ok := inv.get(key)
		require.True(t, ok)
		assert.Equal(t, rv, got.String())
	}
}

func TestInventoryPasses(t *testing.T) {
	inv := newInventory()
	ids := map[string]redact.Identity{}
	put := func(name string) {
		ids[name] = redact.Identity{UID: uuid.NewString(), ResourceVersion: "5", Namespace: "ns", Name: name}
		inv.put(keyOf(ids[name]), ids[name], parseVersion("5"))
	}
	unseen := func() []string {
		names := []string{}
		for _, key := range inv.unseen() {
			names = append(names, inv.identity(key).Name)
		}
		return names
	}
	put("a")
	put("b")
	put("c")

	inv.beginPass()
	assert.Equal(t, []string{"a", "b", "c"}, unseen(), "nothing is seen at first")
	inv.markSeen(keyOf(ids["b"]))
	put("d")
	assert.Equal(t, []string{"a", "c"}, unseen(), "an object that is new during the pass counts as seen")
	inv.put(keyOf(ids["a"]), ids["a"], parseVersion("9"))
	assert.Equal(t, []string{"a", "c"}, unseen(), "a new version does not mean that the snapshot held the object")
	inv.unmarkSeen(keyOf(ids["b"]))
	assert.Equal(t, []string{"a", "b", "c"}, unseen())

	inv.beginPass()
	assert.Equal(t, []string{"a", "b", "c", "d"}, unseen())
}

func TestInventoryNamesAreCompacted(t *testing.T) {
	inv := newInventory()
	var kept []redact.Identity
	for i := range 60_000 {
		id := redact.Identity{UID: uuid.NewString(), ResourceVersion: "5", Namespace: fmt.Sprint("ns", i%7), Name: fmt.Sprintf("a-name-of-some-length-%d", i)}
		inv.put(keyOf(id), id, parseVersion("5"))
		if i%10 == 0 {
			kept = append(kept, id)
		}
	}
	keep := map[Key]bool{}
	for _, id := range kept {
		keep[keyOf(id)] = true
	}
	for _, key := range inv.all() {
		if !keep[key] {
			inv.remove(key)
		}
	}
	for _, id := range kept {
		assert.Equal(t, id, inv.identity(keyOf(id)))
	}
	assert.Less(t, inv.names.dead, compactDeadBytes+nameChunkBytes, "released names are reclaimed")
}

func TestLongNames(t *testing.T) {
	var a nameArena
	long := string(make([]byte, 3*nameChunkBytes))
	refs := []nameRef{a.add("ns", "short"), a.add("ns", long), a.add("other", "after")}
	for i, want := range []string{"short", long, "after"} {
		_, name := a.get(refs[i])
		assert.Equal(t, want, name)
	}
}

// The inventory is what grows with the cluster: a million objects have to fit.
func BenchmarkInventoryPut(b *testing.B) {
	ids := make([]redact.Identity, 100_000)
	for i := range ids {
		ids[i] = redact.Identity{UID: uuid.NewString(), Namespace: fmt.Sprint("namespace-", i%100), Name: fmt.Sprintf("deployment-5d8f9c7b6d-%05d", i)}
	}
	b.ReportAllocs()
	for b.Loop() {
		inv := newInventory()
		for i := range ids {
			inv.put(keyOf(ids[i]), ids[i], version{number: uint64(i + 1)})
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ids)), "ns/object")
}

// The worst case is just after a map has grown, so several sizes are checked.
func TestInventoryNeedsFewBytesPerObject(t *testing.T) {
	const most = 120
	inv := newInventory()
	before := liveHeap()
	for _, objects := range []int{100_000, 250_000, 500_000, 1_000_000} {
		for n := inv.len(); n < objects; n++ {
			id := redact.Identity{UID: uuid.NewString(), Namespace: fmt.Sprintf("team-%d", n%500), Name: fmt.Sprintf("checkout-7f9c6d5b8-%05x", n)}
			inv.put(keyOf(id), id, version{number: uint64(n + 1)})
		}
		perObject := float64(liveHeap()-before) / float64(objects)
		t.Logf("%d objects: %.0f bytes each", objects, perObject)
		assert.LessOrEqual(t, perObject, float64(most), "%d objects", objects)
	}
	runtime.KeepAlive(inv)
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
