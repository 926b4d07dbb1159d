package takeover

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover/model"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// What the standbys of the model read, and the positions that its leaders publish, are given to real mirrors. After every position,
// these have the same checkpoint and the same opinion whether they are ready. MODEL_SEEDS is how many runs are replayed.
func TestMirrorsFollowTheModel(t *testing.T) {
	seeds := 40
	if n, err := strconv.Atoi(os.Getenv("MODEL_SEEDS")); err == nil {
		seeds = n
	}
	compared, holes := 0, 0
	for seed := range seeds {
		w := &witness{t: t, seed: seed, mirrors: map[int]*replayed{}}
		require.Empty(t, model.Replay(model.Options{Seed: uint64(seed), Witness: w}))
		compared, holes = compared+w.compared, holes+w.holes
		if t.Failed() {
			return
		}
	}
	t.Logf("%d positions were followed, %d snapshots left a hole", compared, holes)
	assert.Greater(t, compared, 100*seeds)
	assert.Greater(t, holes, seeds/2)
}

type witness struct {
	t               *testing.T
	seed            int
	mirrors         map[int]*replayed
	compared, holes int
}

// replayed is a real mirror and the inventory of its checkpoint.
type replayed struct {
	*Mirror
	inventory map[int]int
	started   bool
}

func (w *witness) Begin(n, _ int, inventory map[int]int, upto int) {
	r := &replayed{inventory: map[int]int{}}
	r.Mirror = NewMirror(r.accept)
	progress := watchlist.Progress{}
	if upto >= 0 {
		r.inventory, r.started, progress.ResourceVersion = inventory, true, strconv.Itoa(upto)
	}
	r.Restored(progress)
	w.mirrors[n] = r
}

func (r *replayed) accept(changes []watchlist.Change) {
	for _, c := range changes {
		uid, err := strconv.Atoi(c.Object.UID)
		switch {
		case err != nil: // of no object
		case c.Type == watchlist.Deleted:
			delete(r.inventory, uid)
		default:
			r.inventory[uid], _ = strconv.Atoi(c.Object.ResourceVersion)
		}
	}
}

func changeOf(s model.Seen, t watchlist.Type, origin watchlist.Origin) watchlist.Change {
	id := redact.Identity{UID: strconv.Itoa(s.UID), Name: "x", ResourceVersion: strconv.Itoa(s.Version)}
	switch {
	case s.Deleted:
		t = watchlist.Deleted
	case s.Created && origin == watchlist.Live:
		t = watchlist.Added
	}
	return watchlist.Change{Type: t, Origin: origin, Advances: origin == watchlist.Live, Key: watchlist.KeyOfIdentity(id), Object: redact.Object{Identity: id}}
}

func (w *witness) offer(n int, c watchlist.Change) {
	if !w.mirrors[n].Offer(c) {
		w.t.Error("the mirror is full")
	}
}

func (w *witness) Read(n int, s model.Seen) {
	_, isKnown := w.mirrors[n].inventory[s.UID]
	s.Created = s.Created && !isKnown // what was accepted of a version is no part of a real stream
	w.offer(n, changeOf(s, watchlist.Modified, watchlist.Live))
}

func (w *witness) Bookmark(n, upto int) {
	w.offer(n, watchlist.Change{Type: watchlist.Advanced, Object: redact.Object{Identity: redact.Identity{ResourceVersion: strconv.Itoa(upto)}}})
}

func (w *witness) Snapshot(n, at int, differences []model.Seen) {
	r := w.mirrors[n]
	of, origin := watchlist.Modified, watchlist.Recovered
	if r.started {
		w.holes++
		w.offer(n, watchlist.Change{Type: watchlist.Suspected, Gap: &watchlist.GapInfo{}})
	} else {
		of = watchlist.Known
	}
	r.started = true
	for _, s := range differences {
		w.offer(n, changeOf(s, of, origin))
	}
	w.offer(n, watchlist.Change{Type: watchlist.Advanced, Closes: true, Verifies: true, Object: redact.Object{Identity: redact.Identity{ResourceVersion: strconv.Itoa(at)}}})
}

func (w *witness) Settled(n int, p model.Published, known model.Belief) {
	r := w.mirrors[n]
	published := Position{}
	if p.Known {
		published = Position{W: strconv.Itoa(p.W), Closed: true, Until: strconv.Itoa(p.Until)}
	}
	r.Settle(&published)
	w.compared++
	what := fmt.Sprintf("seed %d, mirror %d, position %+v", w.seed, n, p)
	assert.Equal(w.t, known.Ready, r.IsReady(&published, false), "ready: %s", what)
	if known.Whole && p.Known {
		assert.Equal(w.t, known.Inventory, r.inventory, what)
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}
