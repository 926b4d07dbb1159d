package checkpoint

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func podsOf(index, total int) scope.Scope {
	return podsIn("", "").Of(shard.Shard{Index: index, Total: total})
}

func uidOf(n int) string { return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)).String() }

// fill returns changes that add those of 40 objects that belong to the shard, and settle at a version.
func fill(of *scope.Scope, rv string) []watchlist.Change {
	var changes []watchlist.Change
	for n := range 40 {
		c := change(of, watchlist.Added, n, "5")
		if c.Object.UID = uidOf(n); of.Shard.Owns(c.Object.UID, "") {
			changes = append(changes, c)
		}
	}
	return append(changes, settled(of, rv))
}

// assertOwn checks that all objects of a shard are known, and no others.
func assertOwn(t *testing.T, of scope.Scope, known map[string]string) {
	t.Helper()
	for n := range 40 {
		_, isKnown := known[uidOf(n)]
		assert.Equal(t, of.Shard.Owns(uidOf(n), ""), isKnown, uidOf(n))
	}
}

// played is one run with one scope.
func played(t *testing.T, extension *memstorage.Extension, of scope.Scope, changes ...watchlist.Change) restored {
	t.Helper()
	return config(t, extension, one, []scope.Scope{of}, changes...)[of]
}

// Whoever reads a part of what was read continues exactly.
func TestPartOfAShardContinues(t *testing.T) {
	for _, c := range []struct{ before, after scope.Scope }{
		{podsIn("", ""), podsOf(1, 2)},
		{podsOf(1, 2), podsOf(2, 4)},
		{podsOf(1, 2), podsOf(3, 4)},
		{podsOf(2, 4), podsOf(2, 4)},
	} {
		extension := memstorage.New()
		played(t, extension, c.before, fill(&c.before, "70")...)
		for range 2 { // from the other checkpoint, and from its own
			got := played(t, extension, c.after)
			assert.Equal(t, "70", got.ResourceVersion)
			assert.True(t, got.Closed)
			assert.Nil(t, got.Lost)
			assert.Nil(t, got.Hidden)
			assertOwn(t, c.after, got.known)
		}
		assert.Len(t, ids(t, extension), 1, "the old checkpoint is of no use any longer")
	}
}

// Whoever reads more than what was read begins with a set, and knows what may have been emitted.
func TestMoreThanAShardBeginsAnew(t *testing.T) {
	for _, c := range []struct{ before, after scope.Scope }{
		{podsOf(1, 2), podsIn("", "")},
		{podsOf(2, 4), podsOf(1, 2)},
		{podsOf(1, 3), podsOf(1, 2)}, // they overlap
		{podsOf(1, 2), podsIn("", "").Of(shard.Shard{Index: 1, Total: 2, By: shard.Namespace})},
	} {
		extension := memstorage.New()
		played(t, extension, c.before, fill(&c.before, "70")...)
		for range 2 { // the second time it is its own unfinished checkpoint
			got := played(t, extension, c.after)
			assert.True(t, got.None())
			if assert.NotNil(t, got.Hidden) {
				assert.Equal(t, "70", got.Hidden.FromRV)
			}
			for n := range 40 {
				version, isKnown := got.known[uidOf(n)]
				assert.Equal(t, c.before.Shard.Owns(uidOf(n), "") && c.after.Shard.Owns(uidOf(n), "ns"), isKnown)
				if isKnown {
					assert.Equal(t, fmt.Sprintf("ns/name-%d@", n), version, "only that it may have been emitted")
				}
			}
		}
		// The set begins; the gap record is still owed, until it is accepted.
		begin := watchlist.Change{Scope: &c.after, Type: watchlist.SnapshotBegin, Origin: watchlist.Initial, Snapshot: &watchlist.SnapshotInfo{Epoch: "e"}}
		played(t, extension, c.after, begin)
		gap := watchlist.Change{Scope: &c.after, Type: watchlist.Gap, Origin: watchlist.Recovered, Gap: &watchlist.GapInfo{Reason: watchlist.ReasonResharded, FromRV: "70", ToRV: "90"}}
		require.NotNil(t, played(t, extension, c.after, gap).Hidden)
		got := played(t, extension, c.after, fill(&c.after, "90")...)
		assert.Nil(t, got.Hidden)
		assert.Equal(t, "e", got.Epoch)
		got = played(t, extension, c.after)
		assert.Equal(t, "90", got.ResourceVersion)
		if c.after.Shard.By == shard.UID {
			assertOwn(t, c.after, got.known)
		}
	}
}

// What a storage holds of a shard is out of date as soon as another shard was read with it: other processes have read the
// first one since.
func TestAnEarlierShardIsForgotten(t *testing.T) {
	first, other := podsOf(0, 2), podsOf(1, 2)
	extension := memstorage.New()
	played(t, extension, first, fill(&first, "70")...)
	got := played(t, extension, other, fill(&other, "80")...)
	assert.True(t, got.None())
	assert.Nil(t, got.Hidden, "it has no object of the other shard")
	assert.Empty(t, got.known)
	got = played(t, extension, first)
	assert.True(t, got.None())
	assert.Empty(t, got.known)
}

// Storages of receivers without shards have nothing new in them.
func TestNothingIsStoredWithoutShards(t *testing.T) {
	extension, all := memstorage.New(), podsIn("", "")
	played(t, extension, all, fill(&all, "70")...)
	for key, value := range extension.Client(clientName) {
		assert.NotContains(t, key, "shard")
		assert.NotContains(t, string(value), "shard")
	}
}
