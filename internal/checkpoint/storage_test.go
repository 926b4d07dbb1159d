package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func observed() (*zap.Logger, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.InfoLevel)
	return zap.New(core), logs
}

// A full storage is logged when the condition begins and ends. The failed changes are then written, and those accepted
// in the meantime win.
func TestFailingWritesAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		logger, logs := observed()
		l, r := reading(t, extension, logger)

		extension.FailWrites(storage.ErrStorageFull)
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5"), change(r, watchlist.Added, 2, "6"), change(r, watchlist.Added, 3, "6")})
		time.Sleep(5 * time.Minute)
		require.ErrorIs(t, l.report(), storage.ErrStorageFull)
		require.ErrorContains(t, l.report(), "cannot write checkpoints")
		assert.Equal(t, 1, logs.FilterMessage("checkpoints are not kept, records keep flowing").Len(), "%v", logs.All())
		l.Accepted([]watchlist.Change{change(r, watchlist.Deleted, 1, "7"), change(r, watchlist.Modified, 2, "8")})
		extension.FailWrites(nil)
		time.Sleep(time.Minute)
		require.NoError(t, l.report())
		assert.Equal(t, 1, logs.FilterMessage("checkpoints are kept again").Len())
		require.NoError(t, l.Shutdown(t.Context()))

		_, known := readAgain(t, extension)
		assert.Equal(t, map[string]string{"uid-2": "ns/name-2@8", "uid-3": "ns/name-3@6"}, known, "changes accepted during the failure are newer")
	})
}

// Changes accepted during a write are newer than those that the failed write returns to the store.
func TestChangesAcceptedDuringAFailingWriteAreNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, r := reading(t, extension, zap.NewNop())
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5"), change(r, watchlist.Added, 2, "6")})
		release := extension.Hang()
		time.Sleep(2 * time.Second)
		l.Accepted([]watchlist.Change{change(r, watchlist.Modified, 1, "7"), change(r, watchlist.Deleted, 2, "8")})
		extension.Fail(storage.ErrStorageFull)
		release()
		synctest.Wait()
		extension.Fail(nil)
		time.Sleep(time.Minute)
		require.NoError(t, l.Shutdown(t.Context()))

		progress, known := readAgain(t, extension)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@7"}, known)
		assert.Equal(t, "8", progress.ResourceVersion)
	})
}

// A failing storage is retried after a second, then at growing intervals, however much is accepted and introduced.
func TestFailingStorageIsRetriedAtGrowingIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, r := reading(t, extension, zap.NewNop())
		extension.FailWrites(storage.ErrStorageFull)
		before := extension.Tries()
		for i := range 600 {
			var changes []watchlist.Change
			for j := range 110 { // more than MaxChanges
				changes = append(changes, change(r, watchlist.Added, j, fmt.Sprint(i+1)))
			}
			l.BeforeDeliver(t.Context(), changes)
			l.Accepted(changes)
			time.Sleep(500 * time.Millisecond)
		}
		tries := extension.Tries() - before
		assert.Less(t, tries, 30, "five minutes, half a minute apart in the end")
		assert.Greater(t, tries, 6)
		extension.FailWrites(nil)
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// Only one call at a time reaches the storage.
func TestWritesAreSerialised(t *testing.T) {
	extension := memstorage.New()
	l := begin(extension, zap.NewNop())
	r, other := pods(), pods()
	other.Namespace = "other"
	for _, of := range []*watchlist.Change{{Scope: r}, {Scope: other}} {
		_, _, err := l.restore(t, of.Scope)
		require.NoError(t, err)
	}
	done := make(chan struct{})
	for _, of := range []watchlist.Change{{Scope: r}, {Scope: other}} {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 200 {
				changes := []watchlist.Change{change(of.Scope, watchlist.Added, i, fmt.Sprint(i+1))}
				l.BeforeDeliver(t.Context(), changes)
				l.Accepted(changes)
				signal(l.full)
			}
		}()
	}
	<-done
	<-done
	require.NoError(t, l.Shutdown(t.Context()))
	assert.Equal(t, 1, extension.MostAtOnce())
}

func TestStorageThatFailsAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		logger, logs := observed()
		l, r := reading(t, extension, logger)
		time.Sleep(2 * time.Second)
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5")})
		extension.FailWrites(storage.ErrStorageFull)
		err := l.Shutdown(t.Context())
		require.ErrorIs(t, err, storage.ErrStorageFull)
		require.ErrorContains(t, err, "cannot write the last checkpoints")
		require.ErrorContains(t, err, "will be emitted again")
		assert.NotContains(t, err.Error(), "try")
		assert.Zero(t, logs.FilterLevelExact(zapcore.WarnLevel).Len(), "the error says all")
	})
}

// Shutdown returns soon after its context ends, and within its own limit if that never happens.
func TestShutdownDoesNotWaitForAStorageThatHangs(t *testing.T) {
	f := func(wait time.Duration, timeout, least, most time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			extension := memstorage.New()
			l, r := reading(t, extension, zap.NewNop())
			time.Sleep(2 * time.Second)
			release := extension.Hang()
			l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5")})
			time.Sleep(wait)
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			began := time.Now()
			err := l.Shutdown(ctx)
			require.ErrorIs(t, err, errNoAnswer)
			require.ErrorContains(t, err, "will be emitted again")
			assert.GreaterOrEqual(t, time.Since(began), least)
			assert.LessOrEqual(t, time.Since(began), most)
			release()
			<-l.done // its goroutine ends as soon as the storage returns
		})
	}
	f(0, 3*time.Second, 3*time.Second, 4*time.Second)
	f(10*time.Second, 3*time.Second, 3*time.Second, 4*time.Second)
	f(0, time.Hour, 29*time.Second, 31*time.Second)
	f(0, 0, 0, time.Second)
	synctest.Test(t, func(t *testing.T) { // a start that hangs
		extension := memstorage.New()
		release := extension.Hang()
		l := begin(extension, zap.NewNop())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Shutdown(ctx), errNoAnswer)
		release()
		<-l.done
	})
}

// Records do not wait for a storage that hangs, except once for a few seconds, whatever the hanging call.
func TestRecordsFlowWhileTheStorageHangs(t *testing.T) {
	testRecordsFlow(t, false)
	testRecordsFlow(t, true)
}

func testRecordsFlow(t *testing.T, inAWrite bool) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		logger, logs := observed()
		l, r := reading(t, extension, logger)
		time.Sleep(2 * time.Second)
		release := extension.Hang()
		if inAWrite {
			l.Accepted([]watchlist.Change{change(r, watchlist.Added, 0, "1")})
			time.Sleep(2 * time.Second)
		}
		began := time.Now()
		for i := range 100 {
			changes := []watchlist.Change{change(r, watchlist.Added, i, fmt.Sprint(i+1))}
			l.BeforeDeliver(t.Context(), changes)
			l.Accepted(changes)
		}
		assert.Equal(t, introduceTimeout, time.Since(began))
		assert.Equal(t, 1, logs.FilterLevelExact(zapcore.WarnLevel).Len())
		require.ErrorIs(t, l.report(), errNoAnswer)

		release()
		time.Sleep(time.Minute)
		require.NoError(t, l.report())
		require.NoError(t, l.Shutdown(t.Context()))
		_, known := readAgain(t, extension)
		assert.Len(t, known, 100)
		assert.Equal(t, "ns/name-0@1", known["uid-0"], "an abandoned write does not overwrite later accepted changes")
	})
}

// Even without pending writes, a storage is reported as working again only when it does.
func TestFailingStorageIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		logger, logs := observed()
		l, r := reading(t, extension, logger)
		time.Sleep(2 * time.Second)
		extension.FailWrites(storage.ErrStorageFull)
		l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 1, "5")}) // and the consumer does not accept it
		time.Sleep(10 * time.Minute)
		require.ErrorIs(t, l.report(), storage.ErrStorageFull)
		assert.Equal(t, 1, logs.Len(), "%v", logs.All())
		extension.FailWrites(nil)
		time.Sleep(time.Minute)
		require.NoError(t, l.report())
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// A storage that is not usable at the start, for example because another process has locked it, is used once it is. The
// position is not stored before the reader's whole inventory.
func TestStorageThatOpensLater(t *testing.T) {
	f := func(spoil func(*memstorage.Extension) (heal func()), wait time.Duration, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			extension := memstorage.New()
			l, r := reading(t, extension, zap.NewNop())
			l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5"), change(r, watchlist.Added, 2, "6"), advanced(r, "7")})
			require.NoError(t, l.Shutdown(t.Context()))

			heal := spoil(extension)
			logger, logs := observed()
			l = begin(extension, logger)
			began := time.Now()
			nothing, _, err := l.restore(t, r)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, l.report(), want)
			assert.True(t, nothing.None())
			assert.Equal(t, wait, time.Since(began))
			assert.Equal(t, 1, logs.FilterLevelExact(zapcore.WarnLevel).Len(), "%v", logs.All())
			assert.Zero(t, logs.FilterLevelExact(zapcore.ErrorLevel).Len(), "%v", logs.All())
			l.BeforeDeliver(t.Context(), []watchlist.Change{change(r, watchlist.Added, 3, "9")})
			l.Accepted([]watchlist.Change{change(r, watchlist.Added, 3, "9"), settled(r, "10")})

			heal()
			select {
			case <-nothing.Later:
			case <-time.After(time.Minute):
				t.Fatal("it is not tried again")
			}
			stored, known, err := l.restore(t, r)
			require.NoError(t, err)
			require.NoError(t, l.report())
			assert.Equal(t, "7", stored.ResourceVersion)
			assert.Len(t, known, 2)
			l.Accepted([]watchlist.Change{change(r, watchlist.Modified, 3, "11"), advanced(r, "12")})
			time.Sleep(2 * time.Second)
			assert.Contains(t, string(extension.Client(clientName)[progressKey(l.stores[*r].entry.id)]), `"7"`)
			l.Accepted([]watchlist.Change{change(r, watchlist.Known, 3, "11"), progress(r, watchlist.Restated, "12"), change(r, watchlist.Deleted, 2, "13")})
			require.NoError(t, l.Shutdown(t.Context()))

			stored, known = readAgain(t, extension)
			assert.Equal(t, "13", stored.ResourceVersion)
			assert.Equal(t, map[string]string{"uid-1": "ns/name-1@5", "uid-3": "ns/name-3@11"}, known)
		})
	}
	locked := errors.New("timeout") // bbolt's message
	f(func(e *memstorage.Extension) func() { e.Fail(locked); return func() { e.Fail(nil) } }, openTimeout,
		"cannot open storage: its file is locked, probably by another collector that still runs: timeout")
	readOnly := errors.New("open /var/lib/otelcol/x: read-only file system")
	f(func(e *memstorage.Extension) func() { e.Fail(readOnly); return func() { e.Fail(nil) } }, openTimeout, "cannot open storage: open /var")
	f(func(e *memstorage.Extension) func() { return e.Hang() }, restoreTimeout, "does not answer")
}

// The reader waits for a storage that the previous Collector still locks.
func TestStorageThatIsBrieflyLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, r := reading(t, extension, zap.NewNop())
		l.Accepted([]watchlist.Change{change(r, watchlist.Added, 1, "5"), advanced(r, "7")})
		require.NoError(t, l.Shutdown(t.Context()))

		extension.Fail(errors.New("timeout"))
		time.AfterFunc(5*time.Second, func() { extension.Fail(nil) })
		progress, known := readAgain(t, extension)
		assert.Equal(t, "7", progress.ResourceVersion)
		assert.Len(t, known, 1)
	})
}

func TestDamagedCheckpoint(t *testing.T) {
	f := func(want string, spoils func(key string) bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			extension := memstorage.New()
			r, other := pods(), pods()
			other.Namespace = "ns"
			l := begin(extension, zap.NewNop())
			for _, of := range []*watchlist.Change{{Scope: r}, {Scope: other}} {
				_, _, err := l.restore(t, of.Scope)
				require.NoError(t, err)
				l.Accepted([]watchlist.Change{change(of.Scope, watchlist.Added, 1, "5"), advanced(of.Scope, "7")})
			}
			id := l.stores[*r].entry.id
			require.NoError(t, l.Shutdown(t.Context()))

			extension.Damage(func(key string, value []byte) []byte {
				if strings.Contains(key, id) && spoils(key) {
					return value[:len(value)-1]
				}
				return value
			})
			l = beginIn(Cluster{UID: "cluster"}, extension, zap.NewNop(), *r, *other)
			progress, known, err := l.restore(t, other)
			require.NoError(t, err)
			assert.Equal(t, "7", progress.ResourceVersion, "another scope's checkpoint is not damaged")
			assert.Len(t, known, 1)
			progress, _, err = l.restore(t, r)
			require.ErrorContains(t, err, want)
			assert.True(t, progress.None())
			assert.Nil(t, progress.Later)
			l.Accepted([]watchlist.Change{change(r, watchlist.Added, 2, "9"), advanced(r, "10")})
			require.NoError(t, l.Shutdown(t.Context()))

			l = beginIn(Cluster{UID: "cluster"}, extension, zap.NewNop(), *r, *other)
			progress, known, err = l.restore(t, r)
			require.NoError(t, err)
			assert.Equal(t, "10", progress.ResourceVersion)
			assert.Equal(t, map[string]string{"uid-2": "ns/name-2@9"}, known)
			require.NoError(t, l.Shutdown(t.Context()))
			for key := range extension.Client(clientName) {
				assert.NotContains(t, key, id, "the damaged checkpoint is removed")
			}
		})
	}
	f("cannot decode stored progress", func(key string) bool { return strings.HasSuffix(key, "/progress") })
	f("stored object is damaged", func(key string) bool { return strings.HasPrefix(key, objectPrefix) })
}

// A panic in the extension ends the use of the storage, not the Collector.
func TestStorageThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		extension.Panic("freepages: failed to get all reachable pages")
		logger, logs := observed()
		l := begin(extension, logger)
		progress, _, err := l.restore(t, pods())
		require.ErrorContains(t, err, "storage extension panicked")
		require.ErrorContains(t, err, "recreate")
		assert.Nil(t, progress.Later)
		_, _, err = l.restore(t, &scope.Scope{GroupResource: pods().GroupResource, Namespace: "later"})
		require.ErrorContains(t, err, "storage extension panicked")
		time.Sleep(time.Hour)
		assert.Equal(t, 1, extension.Tries())
		assert.Equal(t, 1, logs.FilterLevelExact(zapcore.WarnLevel).Len())
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// ended returns the last change of a reader.
func ended(r *scope.Scope) watchlist.Change { return watchlist.Change{Scope: r, Type: watchlist.Ended} }

// another returns another reader of the same scope.
func another(r *scope.Scope) *scope.Scope {
	next := *r
	return &next
}

// A reader that begins before everything that an earlier one emitted was accepted waits for that, and continues there.
func TestReaderContinuesWhereAnEarlierOneEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		logger, logs := observed()
		l, first := reading(t, extension, logger)
		l.Accepted([]watchlist.Change{change(first, watchlist.Added, 1, "5")})

		// One that is cancelled while it waits leaves no trace.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		cancelled := another(first)
		_, err := l.Restore(ctx, cancelled, func(watchlist.Stored) {})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()

		second := another(first)
		go func() {
			time.Sleep(time.Hour)
			l.Accepted([]watchlist.Change{change(first, watchlist.Added, 2, "6")})
			l.Dropped([]watchlist.Change{change(first, watchlist.Modified, 1, "7")})
			l.Accepted([]watchlist.Change{advanced(first, "8"), ended(first)})
		}()
		began := time.Now()
		progress, known, err := l.restore(t, second)
		require.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(began))
		assert.Equal(t, 1, logs.FilterMessageSnippet("has to accept what the previous reader").Len())
		assert.Equal(t, "8", progress.ResourceVersion)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@", "uid-2": "ns/name-2@6"}, known)
		require.NotNil(t, progress.Denied)
		assert.Equal(t, 1, progress.Denied.Dropped)

		// What comes late from the other readers does not concern it.
		l.Accepted([]watchlist.Change{ended(cancelled), change(first, watchlist.Deleted, 2, "9"), ended(first)})
		l.Accepted([]watchlist.Change{change(second, watchlist.Added, 3, "10"), ended(second)})
		require.NoError(t, l.Shutdown(t.Context()))
		progress, known = readAgain(t, extension)
		assert.Equal(t, "10", progress.ResourceVersion)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@", "uid-2": "ns/name-2@6", "uid-3": "ns/name-3@10"}, known)
	})
}

// The checkpoint of a reader that has ended is written before another one restores it, as soon as the storage works.
func TestReaderEndsWhileTheStorageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, first := reading(t, extension, zap.NewNop())
		l.Accepted([]watchlist.Change{change(first, watchlist.Added, 1, "5")})
		time.Sleep(2 * time.Second)
		extension.FailWrites(storage.ErrStorageFull)
		l.Accepted([]watchlist.Change{change(first, watchlist.Added, 2, "6"), ended(first)})

		// It reads without a checkpoint, and what it emits does not move the checkpoint of the first one.
		second := another(first)
		progress, _, err := l.restore(t, second)
		require.ErrorIs(t, err, storage.ErrStorageFull)
		l.Accepted([]watchlist.Change{change(second, watchlist.Deleted, 1, "7")})
		extension.FailWrites(nil)
		<-progress.Later
		progress, known, err := l.restore(t, second)
		require.NoError(t, err)
		assert.Equal(t, "6", progress.ResourceVersion)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@5", "uid-2": "ns/name-2@6"}, known)

		// It was late, and its successor is not.
		l.Accepted([]watchlist.Change{change(second, watchlist.Added, 3, "8"), ended(second)})
		third := another(first)
		progress, _, err = l.restore(t, third)
		require.NoError(t, err)
		assert.Equal(t, "6", progress.ResourceVersion, "a late reader moves the position only after it has sent all that it knows")
		l.Accepted([]watchlist.Change{change(third, watchlist.Added, 4, "9")})
		require.NoError(t, l.Shutdown(t.Context()))
		progress, _ = readAgain(t, extension)
		assert.Equal(t, "9", progress.ResourceVersion)
	})
}

// A reader that ends before the storage works is no reason for its successor not to trust its own position.
func TestLateReaderThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		extension.Fail(storage.ErrStorageFull)
		l, first := begin(extension, zap.NewNop()), pods()
		_, _, err := l.restore(t, first)
		require.ErrorIs(t, err, storage.ErrStorageFull)
		l.Accepted([]watchlist.Change{change(first, watchlist.Added, 1, "5"), ended(first)})
		extension.Fail(nil)
		time.Sleep(time.Minute)

		second := another(first)
		progress, _, err := l.restore(t, second)
		require.NoError(t, err)
		assert.True(t, progress.None())
		l.Accepted([]watchlist.Change{change(second, watchlist.Added, 1, "5"), advanced(second, "6")})
		require.NoError(t, l.Shutdown(t.Context()))
		progress, known := readAgain(t, extension)
		assert.Equal(t, "6", progress.ResourceVersion)
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@5"}, known)
	})
}

// A checkpoint whose reader has ended can be passed to another scope, and the keeper does not hold it any longer.
func TestReaderOfAnotherScopeContinuesWhereOneEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l := begin(extension, zap.NewNop())
		one := podsIn("ns", "")
		_, _, err := l.restore(t, &one)
		require.NoError(t, err)
		l.Accepted([]watchlist.Change{change(&one, watchlist.Added, 1, "5"), advanced(&one, "6"), ended(&one)})
		time.Sleep(time.Minute)
		l.Keeper.mu.Lock()
		assert.Empty(t, l.stores)
		l.Keeper.mu.Unlock()
		all := podsIn("", "")
		progress, known, err := l.restore(t, &all)
		require.NoError(t, err)
		require.NotNil(t, progress.Lost, "the other namespaces were not read")
		assert.Equal(t, map[string]string{"uid-1": "ns/name-1@5"}, known)
		require.NoError(t, l.Shutdown(t.Context()))
	})
}
