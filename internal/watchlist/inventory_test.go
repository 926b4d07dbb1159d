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

func TestInventoryContents(t *testing.T) {
	inv := newInventory()
	id := redact.Identity{UID: uuid.NewString(), Name: "a"}
	key := keyOf(id)
	content := redact.Content{Sum: 7, Sections: [redact.Sections]uint16{1, 2, 3}, Detailed: true, Writer: 9}
	assert.Equal(t, redact.Content{}, inv.content(key))
	inv.put(key, id, parseVersion("5"))
	assert.Equal(t, redact.Content{}, inv.content(key))
	inv.putContent(key, &content)
	assert.Equal(t, content, inv.content(key))
	assert.False(t, inv.hasPassed(key, 7))

	inv.passOver(key, parseVersion("opaque"), &content)
	rv, _ := inv.get(key)
	assert.Equal(t, "opaque", rv.String())
	assert.Equal(t, content, inv.content(key))
	assert.True(t, inv.hasPassed(key, 7))
	assert.False(t, inv.hasPassed(key, 8))

	inv.put(key, id, version{})
	assert.Equal(t, redact.Content{}, inv.content(key))
	assert.False(t, inv.hasPassed(key, 7))
	assert.False(t, inv.wasEmitted(key))
	assert.True(t, inv.hasUnknown())
}

// Entries that were given up are used again.
func TestInventoryEntriesAreReused(t *testing.T) {
	inv := newInventory()
	put := func(n int) Key {
		id := redact.Identity{UID: fmt.Sprintf("00000000-0000-4000-8000-%012x", n), Namespace: "ns", Name: fmt.Sprint("object-", n)}
		inv.put(keyOf(id), id, version{number: uint64(n + 1)})
		inv.putContent(keyOf(id), &redact.Content{Sum: uint64(n + 1)})
		return keyOf(id)
	}
	const objects = 5 * entriesInChunk
	keys := map[int]Key{}
	for n := range 20 * objects {
		keys[n] = put(n)
		if n >= objects {
			gone := n - objects + 1 - 2*(n%2) // in another order than they came
			inv.remove(keys[gone])
			delete(keys, gone)
		}
	}
	assert.LessOrEqual(t, len(inv.entries.chunks), 6)
	assert.Equal(t, len(keys), inv.len())
	for n, key := range keys {
		rv, ok := inv.get(key)
		require.True(t, ok)
		assert.Equal(t, uint64(n+1), rv.number)
		assert.Equal(t, fmt.Sprint("object-", n), inv.identity(key).Name)
		assert.Equal(t, uint64(n+1), inv.content(key).Sum)
	}
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
	const most = 140
	inv := newInventory()
	before := liveHeap()
	for _, objects := range []int{100_000, 250_000, 500_000, 1_000_000} {
		for n := inv.len(); n < objects; n++ {
			id := redact.Identity{UID: uuid.NewString(), Namespace: fmt.Sprintf("team-%d", n%500), Name: fmt.Sprintf("checkout-7f9c6d5b8-%05x", n)}
			inv.put(keyOf(id), id, version{number: uint64(n + 1)})
			inv.putContent(keyOf(id), &redact.Content{Sum: uint64(n), Detailed: true})
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
