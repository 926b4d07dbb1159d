package checkpoint

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// stored returns what a restart restores after the changes were accepted.
func stored(t *testing.T, r *scope.Scope, changes ...watchlist.Change) watchlist.Progress {
	t.Helper()
	var progress watchlist.Progress
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l := begin(extension, zap.NewNop())
		_, _, err := l.restore(t, r)
		require.NoError(t, err)
		l.Accepted(changes)
		require.NoError(t, l.Shutdown(t.Context()))

		l = begin(extension, zap.NewNop())
		progress, _, err = l.restore(t, r)
		require.NoError(t, err)
		require.NoError(t, l.Shutdown(t.Context()))
	})
	return progress
}

func TestProgressNeverMovesBack(t *testing.T) {
	r := pods()
	end := func(rv string) watchlist.Change {
		return watchlist.Change{Scope: r, Type: watchlist.SnapshotEnd, Origin: watchlist.Initial, Closes: true, Verifies: true,
			Snapshot: &watchlist.SnapshotInfo{ResourceVersion: rv}}
	}
	gap := func(rv string) watchlist.Change {
		return watchlist.Change{Scope: r, Type: watchlist.Gap, Origin: watchlist.Recovered, Closes: true, Verifies: true, Gap: &watchlist.GapInfo{ToRV: rv}}
	}
	verified := func(rv string) watchlist.Change {
		c := advanced(r, rv)
		c.Type, c.Verifies = watchlist.Verified, true
		return c
	}
	rewound := gap("3")
	rewound.Rewinds = true
	for name, test := range map[string]struct {
		changes []watchlist.Change
		version string
		closed  bool
	}{
		"older bookmark":                    {[]watchlist.Change{advanced(r, "20"), advanced(r, "8")}, "20", true},
		"older bookmark after an event":     {[]watchlist.Change{change(r, watchlist.Added, 1, "20"), advanced(r, "8")}, "20", false},
		"older event":                       {[]watchlist.Change{advanced(r, "20"), change(r, watchlist.Deleted, 1, "8")}, "20", true},
		"older in more digits":              {[]watchlist.Change{advanced(r, "100"), advanced(r, "99")}, "100", true},
		"older in thirty digits":            {[]watchlist.Change{advanced(r, "200000000000000000000000000000"), advanced(r, "199999999999999999999999999999")}, "200000000000000000000000000000", true},
		"older snapshot":                    {[]watchlist.Change{advanced(r, "20"), gap("8")}, "20", true},
		"a gap of a relist is no position":  {[]watchlist.Change{advanced(r, "20"), {Scope: r, Type: watchlist.Gap, Verifies: true, Gap: &watchlist.GapInfo{ToRV: "30"}}}, "20", true},
		"a comparison is no position":       {[]watchlist.Change{advanced(r, "20"), verified("30")}, "20", true},
		"the end of the initial state is":   {[]watchlist.Change{end("20")}, "20", true},
		"another history":                   {[]watchlist.Change{advanced(r, "20"), rewound}, "3", true},
		"versions without an order":         {[]watchlist.Change{advanced(r, "x-9"), advanced(r, "x-8")}, "x-8", true},
		"an older event, and then a new":    {[]watchlist.Change{advanced(r, "20"), change(r, watchlist.Deleted, 1, "8"), change(r, watchlist.Added, 2, "21")}, "21", false},
		"a resource that is no longer read": {[]watchlist.Change{advanced(r, "20"), advanced(r, "")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			progress := stored(t, r, test.changes...)
			assert.Equal(t, test.version, progress.ResourceVersion)
			assert.Equal(t, test.closed, progress.Closed)
		})
	}
}

// A suspicion is kept, with the changes accepted since, until a comparison has settled it.
func TestSuspectedLossIsKept(t *testing.T) {
	r := pods()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	suspected := watchlist.Change{Scope: r, Type: watchlist.Suspected, Doubt: 1, Gap: &watchlist.GapInfo{Reason: "server_error", FromRV: "7", From: since, Added: 1}}
	recovered := func(kind watchlist.Type, n int, rv string) watchlist.Change {
		c := change(r, kind, n, rv)
		c.Origin, c.Advances = watchlist.Recovered, false
		return c
	}
	changes := []watchlist.Change{advanced(r, "7"), suspected, recovered(watchlist.Added, 1, "8"), recovered(watchlist.Modified, 2, "9"), recovered(watchlist.Deleted, 3, "9")}
	progress := stored(t, r, changes...)
	require.NotNil(t, progress.Lost)
	assert.Equal(t, watchlist.Suspicion{Doubt: 1, Begun: true, Gap: watchlist.GapInfo{Reason: "server_error", FromRV: "7", From: since, Added: 2, Modified: 1, Deleted: 1}}, *progress.Lost)
	assert.Equal(t, "7", progress.ResourceVersion)

	settled := advanced(r, "12")
	settled.Verifies = true
	settled.ReadAt = since.Add(time.Hour)
	progress = stored(t, r, append(changes, settled, advanced(r, "20"), change(r, watchlist.Modified, 1, "21"))...)
	assert.Nil(t, progress.Lost)
	assert.Equal(t, "21", progress.ResourceVersion)
	assert.Equal(t, "12", progress.VerifiedRV)
	assert.Equal(t, since.Add(time.Hour), progress.VerifiedAt)
}

func TestStoredObjectKeepsItsLogicalClusterAndItsHash(t *testing.T) {
	o := watchlist.Stored{Identity: redact.Identity{UID: "u", ResourceVersion: "5", Namespace: "ns", Name: "a"}}
	for _, content := range []uint64{0, 7, 1 << 63} {
		for _, cluster := range []string{"", "root:org:ws"} {
			o.Cluster, o.Content = cluster, content
			back, err := decodeObject(encodeObject(o))
			require.NoError(t, err)
			assert.Equal(t, o, back)
		}
	}
	whole := encodeObject(o)
	for cut := range len(whole) {
		if back, err := decodeObject(whole[:cut]); err == nil {
			assert.Zero(t, back.Content, "entries of earlier versions end before it")
		}
	}
	_, err := decodeObject(append(whole, 'x'))
	assert.Error(t, err)
}

// A version that was passed over moves what is stored, unless nobody has what it is the same as.
func TestUnchangedObjects(t *testing.T) {
	r := pods()
	with := func(c watchlist.Change, content uint64) watchlist.Change {
		c.Object.Content.Sum = content
		return c
	}
	for name, c := range map[string]struct {
		changes []watchlist.Change
		dropped int // which of them, from 1 on; 0: none
		want    string
		reached string
	}{
		"accepted": {
			[]watchlist.Change{with(change(r, watchlist.Added, 1, "10"), 7), with(change(r, watchlist.Unchanged, 1, "11"), 7)}, 0, "ns/name-1@11 with 7", "11",
		},
		"dropped": {
			[]watchlist.Change{with(change(r, watchlist.Added, 1, "10"), 7), with(change(r, watchlist.Unchanged, 1, "11"), 7)}, 1, "ns/name-1@", "11",
		},
		"dropped, and emitted again": {
			[]watchlist.Change{
				with(change(r, watchlist.Added, 1, "10"), 7), with(change(r, watchlist.Unchanged, 1, "11"), 7), with(change(r, watchlist.Modified, 1, "12"), 7),
				with(change(r, watchlist.Unchanged, 1, "13"), 7),
			}, 1, "ns/name-1@13 with 7", "13",
		},
		"a later one dropped": {
			[]watchlist.Change{
				with(change(r, watchlist.Added, 1, "10"), 7), with(change(r, watchlist.Modified, 1, "11"), 8), with(change(r, watchlist.Unchanged, 1, "12"), 8),
			}, 2, "ns/name-1@", "12",
		},
	} {
		t.Run(name, func(t *testing.T) {
			extension := memstorage.New()
			l := begin(extension, zap.NewNop())
			_, _, err := l.restore(t, r)
			require.NoError(t, err)
			for i, change := range c.changes {
				if i+1 == c.dropped {
					l.Dropped([]watchlist.Change{change})
					continue
				}
				l.Accepted([]watchlist.Change{change})
			}
			require.NoError(t, l.Shutdown(t.Context()))
			l = begin(extension, zap.NewNop())
			progress, known, err := l.restore(t, r)
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"uid-1": c.want}, known)
			assert.Equal(t, c.reached, progress.ResourceVersion)
			require.NoError(t, l.Shutdown(t.Context()))
		})
	}
}
