package checkpoint

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func setBegin(r *scope.Scope, origin watchlist.Origin, epoch string) watchlist.Change {
	return watchlist.Change{Scope: r, Type: watchlist.SnapshotBegin, Origin: origin, Snapshot: &watchlist.SnapshotInfo{Epoch: epoch}}
}

func setEnd(r *scope.Scope, origin watchlist.Origin, epoch, rv string) watchlist.Change {
	isFirst := origin == watchlist.Initial
	return watchlist.Change{Scope: r, Type: watchlist.SnapshotEnd, Origin: origin, Closes: isFirst, Verifies: isFirst,
		Snapshot: &watchlist.SnapshotInfo{Epoch: epoch, ResourceVersion: rv}}
}

func member(r *scope.Scope, n int, rv, epoch string) watchlist.Change {
	c := change(r, watchlist.Snapshot, n, rv)
	c.Origin, c.Advances, c.Snapshot = watchlist.Initial, false, &watchlist.SnapshotInfo{Epoch: epoch}
	return c
}

// verdict is a change, and whether it was refused.
type verdict struct {
	of      watchlist.Change
	refused bool
}

func (l *life) decide(verdicts ...verdict) {
	for _, v := range verdicts {
		if v.refused {
			l.Dropped([]watchlist.Change{v.of})
		} else {
			l.Accepted([]watchlist.Change{v.of})
		}
	}
}

func published(l *life) (p Position) {
	l.Positions(func(_ scope.Scope, of Position) { p = of })
	return p
}

// Without its begin and its end, nobody can tell that a set is whole. Until another one was accepted there is no position, neither
// for other replicas nor after a restart, which begins the initial state anew.
func TestInitialStateWhoseSetIsNotWholeHasNoPosition(t *testing.T) {
	const initial, relist = watchlist.Initial, watchlist.Relist
	r := pods()
	whole := func(c watchlist.Change) verdict { return verdict{c, false} }
	refused := func(c watchlist.Change) verdict { return verdict{c, true} }
	live := whole(change(r, watchlist.Modified, 1, "8"))
	at8 := &watchlist.GapInfo{Reason: watchlist.ReasonSetRefused, FromRV: "8"}
	for name, c := range map[string]struct {
		verdicts []verdict
		position string
		hidden   *watchlist.GapInfo
		epoch    string
	}{
		"accepted": {[]verdict{whole(setBegin(r, initial, "a")), whole(setEnd(r, initial, "a", "7")), live}, "8", nil, ""},
		"end":      {[]verdict{whole(setBegin(r, initial, "a")), refused(setEnd(r, initial, "a", "7")), live}, "", at8, ""},
		"end, and nothing since": {[]verdict{whole(setBegin(r, initial, "a")), refused(setEnd(r, initial, "a", "7"))}, "",
			&watchlist.GapInfo{Reason: watchlist.ReasonSetRefused, FromRV: "7"}, ""},
		"begin":             {[]verdict{refused(setBegin(r, initial, "a")), whole(setEnd(r, initial, "a", "7")), live}, "", at8, ""},
		"begin, and no end": {[]verdict{refused(setBegin(r, initial, "a")), whole(member(r, 1, "5", "a"))}, "", nil, ""},
		"begin and end":     {[]verdict{refused(setBegin(r, initial, "a")), refused(setEnd(r, initial, "a", "7")), live}, "", at8, ""},
		"a bookmark is of no use": {[]verdict{whole(setBegin(r, initial, "a")), refused(setEnd(r, initial, "a", "7")), whole(advanced(r, "8")), whole(verified(r, "8"))},
			"", at8, ""},
		"another set": {[]verdict{whole(setBegin(r, initial, "a")), refused(setEnd(r, initial, "a", "7")), live,
			whole(setBegin(r, relist, "b")), whole(setEnd(r, relist, "b", "8"))}, "8", nil, ""},
		"another set without its begin": {[]verdict{whole(setBegin(r, initial, "a")), refused(setEnd(r, initial, "a", "7")), live,
			refused(setBegin(r, relist, "b")), whole(setEnd(r, relist, "b", "8"))}, "", at8, ""},
		"another set without its end": {[]verdict{whole(setBegin(r, initial, "a")), refused(setEnd(r, initial, "a", "7")), live,
			whole(setBegin(r, relist, "b")), refused(setEnd(r, relist, "b", "8"))}, "", at8, ""},
		"the initial state again": {[]verdict{whole(setBegin(r, initial, "a")), refused(setEnd(r, initial, "a", "7")), live,
			whole(setBegin(r, initial, "b"))}, "", at8, "b"},
		"the initial state again, to its end": {[]verdict{whole(setBegin(r, initial, "a")), refused(setEnd(r, initial, "a", "7")), live,
			whole(setBegin(r, initial, "b")), whole(setEnd(r, initial, "b", "9"))}, "9", nil, ""},
		"a set that a relist sends beside the position": {[]verdict{whole(setBegin(r, initial, "a")), whole(setEnd(r, initial, "a", "7")), live,
			refused(setBegin(r, relist, "b")), refused(setEnd(r, relist, "b", "8"))}, "8", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				extension := memstorage.New()
				l := begin(extension, zap.NewNop())
				_, _, err := l.restore(t, r)
				require.NoError(t, err)
				l.decide(c.verdicts...)
				p := published(l)
				assert.Equal(t, c.position, p.ResourceVersion)
				assert.Equal(t, c.position == "", p.At == nil && !p.Closed, "%+v", p)
				require.NoError(t, l.Shutdown(t.Context()))

				progress, known := readAgain(t, extension)
				if progress.Hidden != nil {
					progress.Hidden.From = time.Time{}
				}
				assert.Equal(t, c.position, progress.ResourceVersion)
				assert.Equal(t, c.epoch, progress.Epoch)
				if c.position == "" {
					assert.Equal(t, c.hidden, progress.Hidden)
				}
				if id, ok := known["uid-1"]; ok && c.position == "" && c.epoch == "" {
					assert.Equal(t, "ns/name-1@", id, "it is emitted again")
				}
			})
		})
	}
}

// What was compared does not count for other replicas before the set is whole: the position is of the history before.
func TestComparedIsWhatBelongsToAWholeSet(t *testing.T) {
	extension := memstorage.New()
	l, r := reading(t, extension, zap.NewNop())
	l.decide(verdict{setBegin(r, watchlist.Initial, "a"), true}, verdict{setEnd(r, watchlist.Initial, "a", "7"), false})
	assert.Zero(t, published(l).Compared)
	l.decide(verdict{setBegin(r, watchlist.Relist, "b"), false}, verdict{setEnd(r, watchlist.Relist, "b", "7"), false})
	p := published(l)
	assert.NotZero(t, p.Compared)
	assert.Equal(t, "7", p.ResourceVersion)
	require.NoError(t, l.Shutdown(t.Context()))
}

// The history that the second set hides is owed a gap record until that was accepted, over any number of restarts.
func TestHiddenHistoryOfASetThatIsSentAgain(t *testing.T) {
	extension := memstorage.New()
	l, r := reading(t, extension, zap.NewNop())
	l.decide(verdict{setBegin(r, watchlist.Initial, "a"), false}, verdict{setEnd(r, watchlist.Initial, "a", "7"), true})
	require.NoError(t, l.Shutdown(t.Context()))

	l, r = reading(t, extension, zap.NewNop())
	l.Accepted([]watchlist.Change{setBegin(r, watchlist.Initial, "b"), reports(r, 1)})
	require.NoError(t, l.Shutdown(t.Context()))
	progress, _ := readAgain(t, extension)
	assert.Nil(t, progress.Denied)
	require.NotNil(t, progress.Hidden)

	l, r = reading(t, extension, zap.NewNop())
	hidden := refused(r, "7", "9")
	hidden.Gap.Reason = progress.Hidden.Reason
	l.Accepted([]watchlist.Change{hidden})
	require.NoError(t, l.Shutdown(t.Context()))
	progress, _ = readAgain(t, extension)
	assert.Nil(t, progress.Hidden)
	assert.Equal(t, "b", progress.Epoch, "the same set goes on")
}

// A set that is owed stays owed if the scope changes: nobody knows what was emitted of its objects and is gone.
func TestSetIsOwedToAnotherScope(t *testing.T) {
	extension := memstorage.New()
	a, b, all := podsIn("a", ""), podsIn("b", ""), podsIn("", "")
	l := beginIn(one, extension, zap.NewNop(), a, b)
	for _, of := range []*scope.Scope{&a, &b} {
		_, _, err := l.restore(t, of)
		require.NoError(t, err)
	}
	l.decide(verdict{setBegin(&a, watchlist.Initial, "a"), false}, verdict{setEnd(&a, watchlist.Initial, "a", "50"), true},
		verdict{in("b", &b, watchlist.Added, 2, "6"), false}, verdict{settled(&b, "80"), false})
	require.NoError(t, l.Shutdown(t.Context()))

	got := config(t, extension, one, []scope.Scope{all})[all]
	assert.True(t, got.None())
	require.NotNil(t, got.Hidden)
	assert.Equal(t, "50", got.Hidden.FromRV)
	assert.Equal(t, map[string]string{"uid-2": "b/name-2@"}, got.known)
}

// A set may have been refused before the storage could be used.
func TestSetIsOwedSinceBeforeTheStorageWasUsable(t *testing.T) {
	first, last := watchlist.SnapshotBegin, watchlist.SnapshotEnd
	for name, c := range map[string]struct {
		refused  watchlist.Type
		early    int // how many of begin and end are decided before
		position string
	}{
		"begin":                            {first, 2, ""},
		"begin, and the end comes after":   {first, 1, ""},
		"end":                              {last, 2, ""},
		"end, which comes after":           {last, 1, ""},
		"nothing":                          {0, 2, "8"},
		"nothing, and the end comes after": {0, 1, "8"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				extension := memstorage.New()
				extension.Fail(assert.AnError)
				l, r := begin(extension, zap.NewNop()), pods()
				progress, _, err := l.restore(t, r)
				require.Error(t, err)
				verdicts := []verdict{
					{setBegin(r, watchlist.Initial, "a"), c.refused == first}, {setEnd(r, watchlist.Initial, "a", "7"), c.refused == last},
				}
				l.decide(verdicts[:c.early]...)
				extension.Fail(nil)
				<-progress.Later
				_, _, err = l.restore(t, r)
				require.NoError(t, err)
				l.decide(verdicts[c.early:]...)
				l.Accepted([]watchlist.Change{restated(r, "8")})
				assert.Equal(t, c.position, published(l).ResourceVersion)
				l.decide(verdict{setBegin(r, watchlist.Relist, "b"), false}, verdict{setEnd(r, watchlist.Relist, "b", "8"), false})
				assert.Equal(t, "8", published(l).ResourceVersion)
				require.NoError(t, l.Shutdown(t.Context()))
			})
		})
	}
}

// restated returns the change that ends the inventory of a reader that began without the storage.
func restated(r *scope.Scope, rv string) watchlist.Change {
	return progress(r, watchlist.Restated, rv)
}
