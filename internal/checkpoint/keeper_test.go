package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// life is one run of a receiver with its storage, in a test.
type life struct {
	*Keeper
	reports map[string]error
}

func begin(extension storage.Extension, logger *zap.Logger) *life {
	l := &life{reports: map[string]error{}}
	l.Keeper = NewKeeper(Options{
		Extension: extension, Interval: time.Second, MaxChanges: 100, Logger: logger,
		ClusterUID: func() string { return "cluster" },
		Report:     func(part string, err error) { l.reports[part] = err },
	})
	l.Start()
	return l
}

// restore returns what is known of a resource, as "name@version" by UID.
func (l *life) restore(t *testing.T, of *scope.Scope) (watchlist.Progress, map[string]string, error) {
	t.Helper()
	known := map[string]string{}
	progress, err := l.Restore(t.Context(), *of, func(id redact.Identity) {
		known[id.UID] = id.Namespace + "/" + id.Name + "@" + id.ResourceVersion
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
	c := watchlist.Change{Scope: r, Type: watchlist.Advanced}
	c.Object.ResourceVersion = rv
	return c
}

func pods() *scope.Scope { return &scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}} }

func TestWhatWasAcceptedIsKnownAfterARestart(t *testing.T) {
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
		assert.False(t, extension.Contains([]byte("the object itself")), "nothing but identity and versions is stored")
	})
}

// A busy stream costs one write a second, and a burst one for every MaxChanges at most.
func TestWritesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		r := pods()
		l := begin(extension, zap.NewNop())
		_, _, err := l.restore(t, r)
		require.NoError(t, err)
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
		assert.Greater(t, extension.Writes(), before+100, "MaxChanges wait for nothing")
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// A crash loses what was not written, objects and position together.
func TestCrashLosesObjectsAndPositionTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		r := pods()
		l := begin(extension, zap.NewNop())
		_, _, err := l.restore(t, r)
		require.NoError(t, err)
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5"), advanced(r, "7")})
		time.Sleep(2 * time.Second)
		l.Accepted([]watchlist.Change{change(r, watchlist.Modified, 1, "8"), change(r, watchlist.Added, 2, "9")})
		extension.Fail(errors.New("crashed"))
		require.Error(t, l.Shutdown(t.Context()))
		extension.Fail(nil)

		l = begin(extension, zap.NewNop())
		progress, known, err := l.restore(t, pods())
		require.NoError(t, err)
		assert.Equal(t, "7", progress.ResourceVersion)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@5"}, known)
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// An object is known from before it is told of: a crash may come between the telling and the noting that it was accepted.
func TestWhatIsOfferedIsKnownAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		r := pods()
		l := begin(extension, zap.NewNop())
		_, _, err := l.restore(t, r)
		require.NoError(t, err)
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 1, "5")})
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5")})
		l.BeforeDeliver(t.Context(), []watchlist.Change{
			change(r, watchlist.Added, 2, "6"), change(r, watchlist.Modified, 1, "7"), change(r, watchlist.Deleted, 3, "8"),
		})
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 2, "6"), change(r, watchlist.Modified, 1, "7"), change(r, watchlist.Deleted, 3, "8")})
		extension.Fail(errors.New("crashed"))
		require.Error(t, l.Shutdown(t.Context()))
		extension.Fail(nil)

		l = begin(extension, zap.NewNop())
		progress, known, err := l.restore(t, pods())
		require.NoError(t, err)
		assert.Equal(t, "5", progress.ResourceVersion, "what was accepted before is written along, and nothing runs ahead")
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@5", "uid-2": "ns/name-2@"}, known)
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// A deletion that waits to be written must not take away an object that is to be told of again.
func TestWhatIsOfferedComesAfterWhatWasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		r := pods()
		l := begin(extension, zap.NewNop())
		_, _, err := l.restore(t, r)
		require.NoError(t, err)
		l.Accepted([]watchlist.Change{change(r, watchlist.Deleted, 1, "5")})
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 1, "6")})
		require.NoError(t, l.Shutdown(t.Context()))

		l = begin(extension, zap.NewNop())
		_, known, err := l.restore(t, pods())
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@"}, known)
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// A relist tells of objects that are known, and a modified one is known too: nothing is written for them.
func TestWhatIsKnownIsNotStoredBeforeItIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		r := pods()
		l := begin(extension, zap.NewNop())
		_, _, err := l.restore(t, r)
		require.NoError(t, err)
		before := extension.Writes()
		relisted := change(r, watchlist.Snapshot, 2, "6")
		relisted.Origin = watchlist.Relist
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Modified, 1, "5"), relisted, change(r, watchlist.Deleted, 3, "7"), advanced(r, "8")})
		assert.Equal(t, before, extension.Writes())
		extension.Fail(storage.ErrStorageFull)
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 4, "9")})
		require.ErrorIs(t, l.reports["storage of pods"], storage.ErrStorageFull)
		extension.Fail(nil)
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 5, "10")})
		require.NoError(t, l.reports["storage of pods"])
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

func TestFailingWritesAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		r := pods()
		l := begin(extension, zap.NewNop())
		_, _, err := l.restore(t, r)
		require.NoError(t, err)

		extension.Fail(storage.ErrStorageFull)
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5"), change(r, watchlist.Added, 2, "6")})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.ErrorIs(t, l.reports["storage of pods"], storage.ErrStorageFull)
		require.ErrorContains(t, l.reports["storage of pods"], "cannot write checkpoint of pods")
		l.Accepted([]watchlist.Change{change(r, watchlist.Deleted, 1, "7"), change(r, watchlist.Modified, 2, "8")})
		extension.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.NoError(t, l.reports["storage of pods"])

		_, known, err := begin2(t, extension)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"uid-2": "ns/name-2@8"}, known, "what came while it failed is newer")
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

func begin2(t *testing.T, extension storage.Extension) (watchlist.Progress, map[string]string, error) {
	l := begin(extension, zap.NewNop())
	progress, known, err := l.restore(t, pods())
	require.NoError(t, l.Shutdown(t.Context()))
	return progress, known, err
}

func TestStorageThatCannotBeUsed(t *testing.T) {
	f := func(want string, spoil func(*memstorage.Extension)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			extension := memstorage.New()
			r := pods()
			l := begin(extension, zap.NewNop())
			_, _, err := l.restore(t, r)
			require.NoError(t, err)
			l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5"), advanced(r, "7")})
			require.NoError(t, l.Shutdown(t.Context()))

			spoil(extension)
			l = begin(extension, zap.NewNop())
			r = pods()
			progress, _, err := l.restore(t, r)
			require.ErrorContains(t, err, want)
			assert.True(t, progress.None())
			assert.Error(t, l.reports["storage of pods"])

			extension.Fail(nil)
			l.Accepted([]watchlist.Change{change(r, watchlist.Added, 2, "9")}) // records keep flowing
			require.NoError(t, l.Shutdown(context.Background()))
		})
	}
	f("cannot open storage", func(e *memstorage.Extension) { e.Fail(errors.New("timeout")) })
	f("cannot decode stored progress", func(e *memstorage.Extension) {
		e.Damage(func(key string, value []byte) []byte {
			if key == progressKey {
				return value[:len(value)/2]
			}
			return value
		})
	})
	f("stored object is damaged", func(e *memstorage.Extension) {
		e.Damage(func(key string, value []byte) []byte {
			if key == progressKey {
				return value
			}
			return value[:len(value)-1]
		})
	})
}

// What makes a reader read something else gives it another storage.
func TestReadersDoNotShareAStorage(t *testing.T) {
	events, pods := schema.GroupResource{Resource: "events"}, schema.GroupResource{Resource: "pods"}
	variants := []scope.Scope{
		{GroupResource: events},
		{GroupResource: schema.GroupResource{Resource: "events", Group: "events.k8s.io"}},
		{GroupResource: pods},
		{GroupResource: pods, Namespace: "a"},
		{GroupResource: pods, Namespace: "b"},
		{GroupResource: pods, LabelSelector: "a"},
		{GroupResource: pods, FieldSelector: "a"},
		{GroupResource: pods, LabelSelector: "a", FieldSelector: "a"},
	}
	names := map[string]bool{}
	for i := range variants {
		names[storageName("cluster", variants[i])] = true
		names[storageName("another cluster", variants[i])] = true
	}
	assert.Len(t, names, 2*len(variants))
}

func TestChangedSelectorStartsAfreshAndSaysSo(t *testing.T) {
	extension := memstorage.New()
	core, logs := observer.New(zapcore.InfoLevel)
	read := func(selector string) {
		l := begin(extension, zap.New(core))
		r := pods()
		r.LabelSelector = selector
		progress, _, err := l.restore(t, r)
		require.NoError(t, err)
		assert.True(t, progress.None())
		require.NoError(t, l.Shutdown(t.Context()))
	}
	read("team=web")
	assert.Zero(t, logs.Len())
	read("team=pay")
	assert.Equal(t, 1, logs.FilterMessageSnippet("starting afresh").Len())
}

func TestInitialStateCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		r := pods()
		l := begin(extension, zap.NewNop())
		_, _, err := l.restore(t, r)
		require.NoError(t, err)
		info := &watchlist.SnapshotInfo{Epoch: "the epoch"}
		first := change(r, watchlist.Snapshot, 1, "5")
		first.Origin, first.Advances, first.Snapshot = watchlist.Initial, false, info
		l.Accepted([]watchlist.Change{{Scope: r, Type: watchlist.SnapshotBegin, Origin: watchlist.Initial, Snapshot: info}, first})
		require.NoError(t, l.Shutdown(t.Context()))

		progress, known, err := begin2(t, extension)
		require.NoError(t, err)
		assert.Equal(t, "the epoch", progress.Epoch)
		assert.Equal(t, 1, progress.Objects)
		assert.Empty(t, progress.ResourceVersion)
		assert.Len(t, known, 1)
	})
}

func TestObjectsSurviveTheirEncoding(t *testing.T) {
	for _, id := range []redact.Identity{
		{},
		{UID: "u", ResourceVersion: "1", Namespace: "n", Name: "a"},
		{UID: "u", ResourceVersion: "123456789012345678901234567890", Name: string(make([]byte, 300))},
	} {
		encoded := encodeObject(id)
		got, err := decodeObject(encoded)
		require.NoError(t, err)
		assert.Equal(t, id, got)
		for cut := range encoded {
			_, err := decodeObject(encoded[:cut])
			assert.ErrorIs(t, err, errBadEntry)
		}
		_, err = decodeObject(append(encoded, 'x'))
		assert.ErrorIs(t, err, errBadEntry)
	}
}

func FuzzDecodeObject(f *testing.F) {
	f.Add(encodeObject(redact.Identity{UID: "u", ResourceVersion: "1", Namespace: "n", Name: "a"}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := decodeObject(data)
		if err == nil {
			again, err := decodeObject(encodeObject(id))
			require.NoError(t, err)
			require.Equal(t, id, again)
		}
	})
}
