package checkpoint

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// takingOver is one run of a replica whose readers continue from a handover; nil is from their own checkpoints.
func takingOver(t *testing.T, extension storage.Extension, h *Handover, during func(*life, *scope.Scope)) (watchlist.Progress, map[string]string) {
	t.Helper()
	l := &life{Keeper: NewKeeper(Options{
		Extension: extension, Interval: time.Second, MaxChanges: 100, Logger: zap.NewNop(),
		Cluster:  func() Cluster { return one },
		Handover: func(scope.Scope, Own) *Handover { return h },
		Report:   func(string, error) {},
	})}
	l.Start()
	of := podsIn("", "")
	progress, known, err := l.restore(t, &of)
	require.NoError(t, err)
	if during != nil {
		during(l, &of)
	}
	require.NoError(t, l.Shutdown(t.Context()))
	return progress, known
}

// withCheckpoint is a storage with two objects at version 70.
func withCheckpoint(t *testing.T) *memstorage.Extension {
	t.Helper()
	extension := memstorage.New()
	takingOver(t, extension, nil, func(l *life, of *scope.Scope) {
		l.Accepted([]watchlist.Change{change(of, watchlist.Added, 1, "5"), change(of, watchlist.Added, 2, "6"), settled(of, "70")})
	})
	return extension
}

func at(rv string) Position { return Position{ResourceVersion: rv, Closed: true} }

func identity(n int) redact.Identity { return change(nil, watchlist.Added, n, "").Object.Identity }

// From where a reader continues, and with which inventory.
func TestHandover(t *testing.T) {
	both := map[string]string{"uid-1": "ns/name-1@5", "uid-2": "ns/name-2@6"}
	for name, c := range map[string]struct {
		handover *Handover
		rv       string
		known    map[string]string
		takeover *watchlist.Takeover
		hidden   *watchlist.GapInfo
	}{
		"from the own checkpoint": {nil, "70", both, nil, nil},
		"behind the published":    {&Handover{Position: at("80"), Whole: true}, "80", both, &watchlist.Takeover{AcceptedRV: "80", KnownRV: "70"}, nil},
		"ahead of the published":  {&Handover{Position: at("60"), Whole: true}, "70", both, &watchlist.Takeover{AcceptedRV: "60", KnownRV: "70"}, nil},
		"the initial state again, since etcd was set back": {&Handover{Anew: true, FromRV: "60", SetBack: true}, "", map[string]string{}, &watchlist.Takeover{},
			&watchlist.GapInfo{Reason: watchlist.ReasonHistoryReset, FromRV: "60"}},
		"with unknown objects": {&Handover{Position: at("80"), Whole: true, Perhaps: []redact.Identity{identity(3)}}, "80",
			map[string]string{"uid-1": "ns/name-1@5", "uid-2": "ns/name-2@6", "uid-3": "ns/name-3@"}, &watchlist.Takeover{AcceptedRV: "80", KnownRV: "70"}, nil},
		"not everything is known": {&Handover{Position: at("80")}, "80", map[string]string{}, &watchlist.Takeover{AcceptedRV: "80", Filling: true}, nil},
		"the initial state again": {&Handover{Anew: true}, "", map[string]string{}, &watchlist.Takeover{}, nil},
		"the initial state again, which hides history": {&Handover{Anew: true, FromRV: "60"}, "", map[string]string{}, &watchlist.Takeover{},
			&watchlist.GapInfo{Reason: watchlist.ReasonTakeover, FromRV: "60"}},
	} {
		t.Run(name, func(t *testing.T) {
			progress, known := takingOver(t, withCheckpoint(t), c.handover, nil)
			assert.Equal(t, c.rv, progress.ResourceVersion)
			assert.Equal(t, c.known, known)
			assert.Equal(t, c.takeover, progress.Takeover)
			assert.Equal(t, c.hidden, progress.Hidden)
		})
	}
}

// Everything is compared if etcd was set back since, also after a restart, and that is published until it was. The checkpoint is of
// the later history from then on.
func TestHandoverAfterEtcdWasSetBack(t *testing.T) {
	extension := withCheckpoint(t)
	published := func(l *life) (p Position) {
		l.Positions(func(_ scope.Scope, of Position) { p = of })
		return p
	}
	want := &watchlist.Suspicion{Doubt: watchlist.SetBack("", time.Time{}).Doubt, Begun: true, Gap: watchlist.GapInfo{Reason: watchlist.ReasonHistoryReset, FromRV: "80"}}
	compared := func(p watchlist.Progress) {
		t.Helper()
		require.NotNil(t, p.Lost)
		p.Lost.Gap.From = time.Time{}
		assert.Equal(t, want, p.Lost)
	}
	restored, known := takingOver(t, extension, &Handover{Position: at("80"), Whole: true, SetBack: true, Generation: 3}, func(l *life, _ *scope.Scope) {
		assert.Equal(t, Position{ResourceVersion: "80", Closed: true, SetBack: true}, published(l))
	})
	compared(restored)
	assert.Len(t, known, 2)

	restored, _ = takingOver(t, extension, nil, func(l *life, of *scope.Scope) {
		rewound := settled(of, "40")
		rewound.Closes, rewound.Verifies, rewound.Rewinds = true, true, true
		l.Accepted([]watchlist.Change{rewound})
		p := published(l)
		assert.NotZero(t, p.Compared)
		p.Compared = 0
		assert.Equal(t, Position{ResourceVersion: "40", Closed: true}, p)
	})
	compared(restored)
	assert.Equal(t, Own{ResourceVersion: "40", Generation: 3}, ownOf(t, extension))
	takingOver(t, extension, nil, func(l *life, of *scope.Scope) {
		begun := progress(of, watchlist.SnapshotBegin, "")
		begun.Origin, begun.Advances, begun.Snapshot = watchlist.Initial, false, &watchlist.SnapshotInfo{Epoch: "e"}
		l.Accepted([]watchlist.Change{begun})
	})
	assert.Equal(t, Own{Generation: 3}, ownOf(t, extension))
}

// ownOf returns what a reader that is handed over is asked about.
func ownOf(t *testing.T, extension storage.Extension) (own Own) {
	t.Helper()
	l := &life{Keeper: NewKeeper(Options{
		Extension: extension, Interval: time.Second, MaxChanges: 100, Logger: zap.NewNop(),
		Cluster:  func() Cluster { return one },
		Handover: func(_ scope.Scope, is Own) *Handover { own = is; return nil },
		Report:   func(string, error) {},
	})}
	l.Start()
	of := podsIn("", "")
	_, _, err := l.restore(t, &of)
	require.NoError(t, err)
	require.NoError(t, l.Shutdown(t.Context()))
	return own
}

// A replica without a checkpoint continues from the published position too.
func TestHandoverWithoutCheckpoint(t *testing.T) {
	progress, known := takingOver(t, NewMemory(), &Handover{Position: at("80"), Whole: true}, nil)
	assert.Equal(t, "80", progress.ResourceVersion)
	assert.Empty(t, known)
	assert.Equal(t, &watchlist.Takeover{AcceptedRV: "80", Filling: true}, progress.Takeover)
}

// That the inventory is incomplete is stored until a comparison is complete.
func TestFillingSurvivesARestart(t *testing.T) {
	extension := withCheckpoint(t)
	takingOver(t, extension, &Handover{Position: at("80")}, func(l *life, of *scope.Scope) {
		l.Accepted([]watchlist.Change{change(of, watchlist.Added, 3, "81")})
	})
	progress, known := takingOver(t, extension, nil, func(l *life, of *scope.Scope) {
		l.Accepted([]watchlist.Change{settled(of, "90")})
	})
	assert.Equal(t, &watchlist.Takeover{AcceptedRV: "81", Filling: true}, progress.Takeover)
	assert.Equal(t, map[string]string{"uid-3": "ns/name-3@81"}, known)

	progress, _ = takingOver(t, extension, nil, nil)
	assert.Nil(t, progress.Takeover)
	assert.Equal(t, "90", progress.ResourceVersion)
}

// The gap of an initial state that is emitted again is owed until it was accepted, also if that begins only later, because the
// history is gone that filling the inventory needs.
func TestHiddenHistorySurvivesARestart(t *testing.T) {
	for name, handover := range map[string]*Handover{
		"begun anew":                        {Anew: true, FromRV: "80"},
		"filling, then the history is gone": {Position: at("80")},
	} {
		t.Run(name, func(t *testing.T) {
			extension := withCheckpoint(t)
			takingOver(t, extension, handover, func(l *life, of *scope.Scope) {
				begun := progress(of, watchlist.SnapshotBegin, "")
				begun.Origin, begun.Advances, begun.Snapshot = watchlist.Initial, false, &watchlist.SnapshotInfo{Epoch: "e"}
				l.Accepted([]watchlist.Change{begun})
			})
			got, _ := takingOver(t, extension, nil, func(l *life, of *scope.Scope) {
				l.Accepted([]watchlist.Change{{Scope: of, Type: watchlist.Gap, Origin: watchlist.Recovered,
					Gap: &watchlist.GapInfo{Reason: watchlist.ReasonTakeover, FromRV: "80", ToRV: "90"}}})
			})
			if assert.NotNil(t, got.Hidden) {
				assert.Equal(t, "80", got.Hidden.FromRV)
				assert.Equal(t, watchlist.ReasonTakeover, got.Hidden.Reason)
			}
			assert.Empty(t, got.ResourceVersion)
			got, _ = takingOver(t, extension, nil, nil)
			assert.Nil(t, got.Hidden)
			assert.Equal(t, "e", got.Epoch)
		})
	}
}

// What was refused permanently is part of the position, and owed by whoever continues from it.
func TestRefusedRecordsAreHandedOver(t *testing.T) {
	extension := withCheckpoint(t)
	var published Position
	takingOver(t, extension, nil, func(l *life, of *scope.Scope) {
		refused := change(of, watchlist.Modified, 1, "71")
		l.Dropped([]watchlist.Change{refused})
		l.Accepted([]watchlist.Change{advanced(of, "72")})
		l.Positions(func(_ scope.Scope, p Position) { published = p })
	})
	assert.Equal(t, "72", published.ResourceVersion)
	require.Len(t, published.Owed, 1)
	assert.Equal(t, "uid-1", published.Owed[0].UID)
	if assert.NotNil(t, published.Denied) {
		assert.Equal(t, 1, published.Denied.Dropped)
	}

	progress, known := takingOver(t, withCheckpoint(t), &Handover{Position: published, Whole: true}, func(l *life, of *scope.Scope) {
		l.Positions(func(_ scope.Scope, p Position) { published = p })
	})
	assert.Equal(t, "ns/name-1@", known["uid-1"], "nobody has its newest version")
	if assert.NotNil(t, progress.Denied) {
		assert.Equal(t, 1, progress.Denied.Dropped)
	}
	assert.Len(t, published.Owed, 1, "it is still owed")
}

// The position of a reader that has ended is published too, also if its checkpoint was written before: at an orderly stop, the
// other readers may still have records in the queue then.
func TestPositionOfAReaderThatHasEnded(t *testing.T) {
	takingOver(t, withCheckpoint(t), nil, func(l *life, of *scope.Scope) {
		positions := func() (all []string) {
			l.Positions(func(_ scope.Scope, p Position) { all = append(all, p.ResourceVersion) })
			return all
		}
		l.Accepted([]watchlist.Change{change(of, watchlist.Added, 3, "75"), ended(of)})
		require.NoError(t, l.SetLed(t.Context(), "a")) // so that everything is written
		assert.Equal(t, []string{"75"}, positions())

		again := another(of)
		_, _, err := l.restore(t, again)
		require.NoError(t, err)
		l.Accepted([]watchlist.Change{change(again, watchlist.Added, 4, "76")})
		assert.Equal(t, []string{"76"}, positions(), "of its successor")

		l.Accepted([]watchlist.Change{ended(again)})
		require.NoError(t, l.SetLed(t.Context(), "b"))
		l.Abandon(nil)
		assert.Empty(t, positions(), "in another term")
	})
}

// Readers that have returned have no positions, and their successors continue from what was accepted.
func TestAbandonedReaders(t *testing.T) {
	takingOver(t, withCheckpoint(t), nil, func(l *life, of *scope.Scope) {
		l.Accepted([]watchlist.Change{change(of, watchlist.Added, 3, "75")})
		l.Abandon(nil)
		l.Positions(func(scope.Scope, Position) { t.Error("an abandoned reader has a position") })
		l.Accepted([]watchlist.Change{change(of, watchlist.Added, 4, "76")})
		again := podsIn("", "")
		progress, known, err := l.restore(t, &again)
		require.NoError(t, err)
		assert.Equal(t, "75", progress.ResourceVersion)
		assert.Contains(t, known, "uid-3")
		assert.NotContains(t, known, "uid-4")
	})
}

func TestLedIsStored(t *testing.T) {
	extension := withCheckpoint(t)
	takingOver(t, extension, nil, func(l *life, _ *scope.Scope) {
		assert.Empty(t, l.Led())
		require.NoError(t, l.SetLed(t.Context(), "replica-1"))
	})
	takingOver(t, extension, nil, func(l *life, _ *scope.Scope) { assert.Equal(t, "replica-1", l.Led()) })
}

func TestMemory(t *testing.T) {
	client, err := NewMemory().GetClient(t.Context(), component.KindReceiver, component.MustNewID("watchlist"), "")
	require.NoError(t, err)
	require.NoError(t, client.Set(t.Context(), "b", []byte("2")))
	require.NoError(t, client.Set(t.Context(), "a", []byte("1")))
	get := storage.GetOperation("a")
	require.NoError(t, client.Batch(t.Context(), get, storage.DeleteOperation("a"), storage.SetOperation("c", []byte("3"))))
	assert.Equal(t, []byte("1"), get.Value)
	value, err := client.Get(t.Context(), "a")
	require.NoError(t, err)
	assert.Nil(t, value)

	var keys []string
	walk := client.(storage.Walker).Walk
	require.NoError(t, walk(t.Context(), func(key string, _ []byte) ([]*storage.Operation, error) {
		keys = append(keys, key)
		return []*storage.Operation{storage.DeleteOperation(key)}, storage.SkipAll
	}))
	assert.Equal(t, []string{"b"}, keys, "in order, and no further")
	failed := errors.New("no")
	require.ErrorIs(t, walk(t.Context(), func(key string, _ []byte) ([]*storage.Operation, error) {
		assert.Equal(t, "c", key, "the other was deleted")
		return nil, failed
	}), failed)
	require.NoError(t, client.Close(t.Context()))
}
