package catalog

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// A namespace that no longer matches leaves at once, and one that was deleted a little later, unless it is created again.
func TestMembersOfANamespaceSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newNamespaceSet(make(chan struct{}, 1))
		change := func(kind watchlist.Type, name, version string, deleted time.Time) {
			assert.True(t, set.Offer(watchlist.Change{Type: kind, Object: redact.Object{
				Identity: redact.Identity{Name: name, ResourceVersion: version}, Times: redact.Times{Deleted: deleted},
			}}))
		}
		require := func(noticed, listed bool, names ...string) {
			t.Helper()
			synctest.Wait()
			select {
			case <-set.changed:
				assert.True(t, noticed, "it was noticed")
			default:
				assert.False(t, noticed, "it was not noticed")
			}
			members, isListed, _ := set.current()
			assert.Equal(t, listed, isListed)
			assert.Equal(t, names, slices.Sorted(maps.Keys(members)))
		}
		change(watchlist.Snapshot, "shop", "5", time.Time{})
		change(watchlist.Snapshot, "pay", "6", time.Time{})
		require(false, false, "pay", "shop")
		change(watchlist.SnapshotEnd, "", "", time.Time{})
		require(true, true, "pay", "shop")
		change(watchlist.Modified, "shop", "8", time.Time{})
		require(false, true, "pay", "shop")
		members, _, _ := set.current()
		assert.Equal(t, "5", members["shop"], "it is the same stay")

		change(watchlist.Deleted, "shop", "9", time.Time{}) // its labels no longer match
		require(true, true, "pay")
		change(watchlist.Added, "shop", "10", time.Time{})
		require(true, true, "pay", "shop")

		change(watchlist.Deleted, "shop", "11", time.Now())
		change(watchlist.Deleted, "pay", "12", time.Now())
		require(false, true, "pay", "shop")
		time.Sleep(leaveAfter - time.Second)
		change(watchlist.Added, "pay", "13", time.Time{})
		require(false, true, "pay", "shop")
		time.Sleep(2 * time.Second)
		require(true, true, "pay")
		change(watchlist.Deleted, "pay", "14", time.Now())
		set.stop()
		time.Sleep(2 * leaveAfter)
		require(false, true, "pay")
	})
}
