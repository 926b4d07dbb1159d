package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// life is one run of a receiver with its storage.
type life struct {
	*Keeper
	cluster Cluster
	wanted  []scope.Scope

	mu       sync.Mutex
	reported error
}

func begin(extension storage.Extension, logger *zap.Logger) *life {
	return beginIn(Cluster{UID: "cluster"}, extension, logger)
}

func beginIn(cluster Cluster, extension storage.Extension, logger *zap.Logger, wanted ...scope.Scope) *life {
	l := &life{cluster: cluster, wanted: wanted}
	var part shard.Shard // a receiver reads only one
	if len(wanted) > 0 {
		part = wanted[0].Shard
	}
	l.Keeper = NewKeeper(Options{
		Shard:     part,
		Extension: extension, Interval: time.Second, MaxChanges: 100, Logger: logger,
		Cluster: func() Cluster { return l.cluster },
		Wanted:  func(s scope.Scope) bool { return slices.Contains(l.wanted, s) },
		Report: func(_ string, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.reported = err
		},
	})
	l.Start()
	return l
}

// report returns the last reported condition of the storage.
func (l *life) report() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reported
}

// restore returns the inventory of a resource, as "name@version" by UID.
func (l *life) restore(t *testing.T, of *scope.Scope) (watchlist.Progress, map[string]string, error) {
	t.Helper()
	known := map[string]string{}
	progress, err := l.Restore(t.Context(), of, func(o watchlist.Stored) {
		known[o.UID] = o.Namespace + "/" + o.Name + "@" + o.ResourceVersion
		if o.Content != 0 {
			known[o.UID] += fmt.Sprintf(" with %x", o.Content)
		}
	})
	return progress, known, err
}

func change(r *scope.Scope, changeType watchlist.Type, n int, rv string) watchlist.Change {
	c := watchlist.Change{Scope: r, Type: changeType, Origin: watchlist.Live, Key: watchlist.Key{byte(n), byte(n >> 8)}, Advances: true}
	c.Object.Identity = redact.Identity{UID: fmt.Sprint("uid-", n), Namespace: "ns", Name: fmt.Sprint("name-", n), ResourceVersion: rv}
	c.Object.JSON = `{"spec":"the object itself"}`
	return c
}

func advanced(r *scope.Scope, rv string) watchlist.Change {
	return progress(r, watchlist.Advanced, rv)
}

// settled returns the change that ends a complete comparison.
func settled(r *scope.Scope, rv string) watchlist.Change {
	c := advanced(r, rv)
	c.Closes, c.Verifies = true, true
	return c
}

func verified(r *scope.Scope, rv string) watchlist.Change {
	c := progress(r, watchlist.Verified, rv)
	c.Verifies = true
	return c
}

// progress returns a change that is not a record.
func progress(r *scope.Scope, t watchlist.Type, rv string) watchlist.Change {
	c := watchlist.Change{Scope: r, Type: t}
	c.Object.ResourceVersion = rv
	return c
}

func pods() *scope.Scope { return &scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}} }

// reading begins a life in which the reader of pods has restored its checkpoint.
func reading(t *testing.T, extension storage.Extension, logger *zap.Logger) (*life, *scope.Scope) {
	t.Helper()
	l, r := begin(extension, logger), pods()
	_, _, err := l.restore(t, r)
	require.NoError(t, err)
	return l, r
}

// readAgain returns what the next life restores of pods.
func readAgain(t *testing.T, extension storage.Extension) (watchlist.Progress, map[string]string) {
	t.Helper()
	l := begin(extension, zap.NewNop())
	progress, known, err := l.restore(t, pods())
	require.NoError(t, err)
	require.NoError(t, l.Shutdown(t.Context()))
	return progress, known
}

// crash ends a life without a last write.
func crash(t *testing.T, l *life, extension *memstorage.Extension) {
	t.Helper()
	extension.Fail(errors.New("crashed"))
	require.Error(t, l.Shutdown(t.Context()))
	extension.Fail(nil)
}

func TestAcceptedChangesSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		r := pods()
		l := begin(extension, zap.NewNop())
		progress, known, err := l.restore(t, r)
		require.NoError(t, err)
		assert.True(t, progress.None())
		assert.Empty(t, known)

		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5"), change(r, watchlist.Added, 2, "6"), advanced(r, "7")})
		l.Accepted([]watchlist.Change{change(r, watchlist.Modified, 1, "8"), change(r, watchlist.Deleted, 2, "9"), change(r, watchlist.Deleted, 3, "9")})
		require.NoError(t, l.Shutdown(t.Context()))

		r = pods()
		l = begin(extension, zap.NewNop())
		progress, known, err = l.restore(t, r)
		require.NoError(t, err)
		assert.Equal(t, "9", progress.ResourceVersion)
		assert.False(t, progress.Closed)
		assert.Equal(t, []watchlist.Key{{2}, {3}}, progress.At)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@8"}, known)
		l.Accepted([]watchlist.Change{advanced(r, "12")})
		require.NoError(t, l.Shutdown(t.Context()))

		l = begin(extension, zap.NewNop())
		progress, known, err = l.restore(t, pods())
		require.NoError(t, err)
		assert.Equal(t, "12", progress.ResourceVersion)
		assert.True(t, progress.Closed)
		assert.Len(t, known, 1)
		require.NoError(t, l.Shutdown(t.Context()))
		assert.False(t, extension.Contains([]byte("the object itself")), "only identity and versions are stored")
	})
}

// A busy stream costs one write per second, and a burst at most one for every MaxChanges.
func TestWritesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, r := reading(t, extension, zap.NewNop())
		time.Sleep(2 * time.Second)
		before := extension.Writes()
		for i := range 100 {
			l.Accepted([]watchlist.Change{change(r, watchlist.Modified, 1, fmt.Sprint(i+1))})
			time.Sleep(100 * time.Millisecond)
		}
		written := extension.Writes() - before
		assert.LessOrEqual(t, written, 2*11, "10 seconds, two keys each")
		assert.GreaterOrEqual(t, written, 2*9)

		time.Sleep(10 * time.Second)
		before = extension.Writes()
		time.Sleep(time.Hour)
		assert.Equal(t, before, extension.Writes(), "nothing is written when nothing happens")

		for i := range 100 {
			l.Accepted([]watchlist.Change{change(r, watchlist.Modified, i, "1000")})
		}
		synctest.Wait()
		assert.Greater(t, extension.Writes(), before+100, "MaxChanges are written at once")
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// A crash loses unwritten changes, objects and position together.
func TestCrashLosesObjectsAndPositionTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, r := reading(t, extension, zap.NewNop())
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5"), advanced(r, "7")})
		time.Sleep(2 * time.Second)
		l.Accepted([]watchlist.Change{change(r, watchlist.Modified, 1, "8"), change(r, watchlist.Added, 2, "9")})
		crash(t, l, extension)

		progress, known := readAgain(t, extension)
		assert.Equal(t, "7", progress.ResourceVersion)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@5"}, known)
	})
}

// An object is stored before it is emitted: a crash may come between its emission and the write of its acceptance.
func TestOfferedObjectsSurviveACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, r := reading(t, extension, zap.NewNop())
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 1, "5")})
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5")})
		l.BeforeDeliver(t.Context(), []watchlist.Change{
			change(r, watchlist.Added, 2, "6"), change(r, watchlist.Modified, 1, "7"), change(r, watchlist.Deleted, 3, "8"),
		})
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 2, "6"), change(r, watchlist.Modified, 1, "7"), change(r, watchlist.Deleted, 3, "8")})
		crash(t, l, extension)

		progress, known := readAgain(t, extension)
		assert.Equal(t, "5", progress.ResourceVersion, "earlier accepted changes are written too, and nothing runs ahead")
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@5", "uid-2": "ns/name-2@"}, known)
	})
}

// A pending deletion must not remove an object that is about to be emitted again.
func TestOfferedObjectOverridesAPendingDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, r := reading(t, extension, zap.NewNop())
		l.Accepted([]watchlist.Change{change(r, watchlist.Deleted, 1, "5")})
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 1, "6")})
		require.NoError(t, l.Shutdown(t.Context()))

		_, known := readAgain(t, extension)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@"}, known)
	})
}

// The objects of a relist are known, and so is a modified one: nothing is written for them.
func TestKnownObjectsAreNotStoredBeforeDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, r := reading(t, extension, zap.NewNop())
		time.Sleep(2 * time.Second)
		before := extension.Writes()
		relisted := change(r, watchlist.Snapshot, 2, "6")
		relisted.Origin = watchlist.Relist
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Modified, 1, "5"), relisted, change(r, watchlist.Deleted, 3, "7"), advanced(r, "8")})
		assert.Equal(t, before, extension.Writes())
		extension.Fail(storage.ErrStorageFull)
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 4, "9")})
		require.ErrorIs(t, l.report(), storage.ErrStorageFull)
		extension.Fail(nil)
		time.Sleep(time.Minute)
		require.NoError(t, l.report())
		before = extension.Writes()
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 5, "10")})
		assert.Greater(t, extension.Writes(), before)
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

func TestInitialStateCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, r := reading(t, extension, zap.NewNop())
		info := &watchlist.SnapshotInfo{Epoch: "the epoch"}
		first := change(r, watchlist.Snapshot, 1, "5")
		first.Origin, first.Advances, first.Snapshot = watchlist.Initial, false, info
		l.Accepted([]watchlist.Change{{Scope: r, Type: watchlist.SnapshotBegin, Origin: watchlist.Initial, Snapshot: info}, first})
		require.NoError(t, l.Shutdown(t.Context()))

		progress, known := readAgain(t, extension)
		assert.Equal(t, "the epoch", progress.Epoch)
		assert.Equal(t, 1, progress.Objects)
		assert.Empty(t, progress.ResourceVersion)
		assert.Len(t, known, 1)
	})
}

func TestObjectsSurviveTheirEncoding(t *testing.T) {
	id := redact.Identity{UID: "u", ResourceVersion: "1", Namespace: "n", Name: "a"}
	for _, o := range []watchlist.Stored{
		{},
		{Identity: id},
		{Identity: redact.Identity{UID: "u", ResourceVersion: "123456789012345678901234567890", Name: string(make([]byte, 300))}},
	} {
		encoded := encodeObject(o)
		got, err := decodeObject(encoded)
		require.NoError(t, err)
		assert.Equal(t, o, got)
		for cut := range encoded {
			_, err := decodeObject(encoded[:cut])
			assert.ErrorIs(t, err, errBadEntry)
		}
		_, err = decodeObject(append(encoded, 'x'))
		assert.ErrorIs(t, err, errBadEntry)
	}
}

func FuzzDecodeObject(f *testing.F) {
	f.Add(encodeObject(watchlist.Stored{Identity: redact.Identity{UID: "u", ResourceVersion: "1", Namespace: "n", Name: "a"}, Content: 7}))
	f.Add(encodeObject(watchlist.Stored{Identity: redact.Identity{UID: "u"}, Content: 7, Ahead: 3}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add(append(make([]byte, 5+8), 0, 0, 0, 3)) // how far ahead of a hash that is not there
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := decodeObject(data)
		if err == nil {
			again, err := decodeObject(encodeObject(o))
			require.NoError(t, err)
			require.Equal(t, o, again)
		}
	})
}
