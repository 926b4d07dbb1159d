package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// refused returns a gap record that the next consumer refused permanently.
func refused(r *scope.Scope, from, to string) watchlist.Change {
	return watchlist.Change{Scope: r, Type: watchlist.Gap, Gap: &watchlist.GapInfo{FromRV: from, ToRV: to}}
}

// reports returns the gap record of dropped records.
func reports(r *scope.Scope, records int) watchlist.Change {
	c := refused(r, "", "")
	c.Gap.Dropped = records
	return c
}

// Dropped records are kept until an accepted gap record reports them, whatever else happens to the checkpoint.
func TestDroppedRecordsAreKeptUntilAGapReportsThem(t *testing.T) {
	extension := memstorage.New()
	a, b, all := podsIn("a", ""), podsIn("b", ""), podsIn("", "")
	l := beginIn(one, extension, zap.NewNop(), a, b)
	for _, of := range []*scope.Scope{&a, &b} {
		_, _, err := l.restore(t, of)
		require.NoError(t, err)
	}
	l.Accepted([]watchlist.Change{in("a", &a, watchlist.Added, 1, "5"), settled(&a, "70"), in("b", &b, watchlist.Added, 2, "6"), settled(&b, "80")})
	l.Dropped([]watchlist.Change{refused(&a, "71", "75"), refused(&b, "90", "95"), in("a", &a, watchlist.Modified, 1, "71")})
	l.Accepted([]watchlist.Change{advanced(&a, "100"), advanced(&b, "100")})
	require.NoError(t, l.Shutdown(t.Context()))

	// The scopes are joined, and the position is past the dropped records.
	got := config(t, extension, one, []scope.Scope{all}, settled(&all, "110"))[all]
	require.NotNil(t, got.Denied)
	assert.Equal(t, 3, got.Denied.Dropped)
	assert.Empty(t, got.Denied.FromRV, "the beginning, since the very first record may be the dropped one")
	assert.Equal(t, "95", got.Denied.ToRV)
	assert.Equal(t, map[string]string{"uid-1": "a/name-1@", "uid-2": "b/name-2@6"}, got.known)

	// The resource is gone, and its position with it.
	got = config(t, extension, one, []scope.Scope{all}, settled(&all, ""))[all]
	require.NotNil(t, got.Denied)
	got = config(t, extension, one, []scope.Scope{all})[all]
	assert.True(t, got.None())
	require.NotNil(t, got.Denied, "without a position")
	assert.Equal(t, 3, got.Denied.Dropped)

	got = config(t, extension, one, []scope.Scope{all}, reports(&all, 2))[all]
	require.NotNil(t, got.Denied)
	got = config(t, extension, one, []scope.Scope{all}, reports(&all, 1))[all]
	require.NotNil(t, got.Denied)
	assert.Equal(t, 1, got.Denied.Dropped, "the record that no accepted gap reported")
	assert.Nil(t, config(t, extension, one, []scope.Scope{all})[all].Denied)
}

// With the begin of an initial state nothing is owed any longer: what exists is in the set, and what is not is gone.
func TestNothingIsOwedOnceASetHasBegun(t *testing.T) {
	l := beginIn(one, memstorage.New(), zap.NewNop(), podsIn("", ""))
	of := podsIn("", "")
	_, _, err := l.restore(t, &of)
	require.NoError(t, err)
	l.Accepted([]watchlist.Change{change(&of, watchlist.Added, 1, "5"), settled(&of, "70")})
	l.Dropped([]watchlist.Change{change(&of, watchlist.Deleted, 1, "71")})
	owed := func() (owed int) {
		l.Positions(func(_ scope.Scope, p Position) { owed = len(p.Owed) })
		return owed
	}
	assert.Equal(t, 1, owed())
	l.Accepted([]watchlist.Change{{Scope: &of, Type: watchlist.SnapshotBegin, Origin: watchlist.Initial, Snapshot: &watchlist.SnapshotInfo{Epoch: "e"}}})
	assert.Zero(t, owed())
	require.NoError(t, l.Shutdown(t.Context()))
}
