package takeover

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// rig is a mirror and the checkpoint that it updates.
type rig struct {
	*Mirror
	stored map[string]string // version by name
	at     string            // up to which the checkpoint knows everything
}

func newRig() *rig {
	r := &rig{stored: map[string]string{}}
	r.Mirror = NewMirror(func(changes []watchlist.Change) {
		for _, c := range changes {
			switch {
			case c.Type == watchlist.Deleted:
				delete(r.stored, c.Object.Name)
			case c.Object.Name != "":
				r.stored[c.Object.Name] = c.Object.ResourceVersion
			}
			if c.Closes || c.Type == watchlist.Advanced {
				r.at = c.ReachedVersion()
			}
		}
	})
	return r
}

func object(t watchlist.Type, name string, rv int) watchlist.Change {
	id := redact.Identity{UID: "uid-" + name, Name: name, ResourceVersion: strconv.Itoa(rv)}
	return watchlist.Change{Type: t, Origin: watchlist.Live, Key: watchlist.KeyOfIdentity(id), Advances: true, Object: redact.Object{Identity: id, JSON: "{}"}}
}

func ofSnapshot(t watchlist.Type, name string, rv int) watchlist.Change {
	c := object(t, name, rv)
	c.Origin, c.Advances = watchlist.Recovered, false
	return c
}

func advanced(rv int, closes bool) watchlist.Change {
	return watchlist.Change{Type: watchlist.Advanced, Closes: closes, Verifies: closes, Object: redact.Object{Identity: redact.Identity{ResourceVersion: strconv.Itoa(rv)}}}
}

func suspected() watchlist.Change {
	return watchlist.Change{Type: watchlist.Suspected, Gap: &watchlist.GapInfo{}}
}

func (r *rig) offer(t *testing.T, changes ...watchlist.Change) {
	t.Helper()
	for _, c := range changes {
		assert.True(t, r.Offer(c))
	}
}

func at(w int) *Position { return &Position{W: strconv.Itoa(w), Closed: true} }

// initial is what a standby that starts reads first.
func initial(rv int, names ...string) (changes []watchlist.Change) {
	for i, name := range names {
		changes = append(changes, ofSnapshot(watchlist.Known, name, i+1))
	}
	return append(changes, advanced(rv, true))
}

// What was created and deleted again before the snapshot is not known, so the checkpoint is complete only once the leader's
// position has passed the snapshot.
func TestMirrorFollowsTheLeader(t *testing.T) {
	r := newRig()
	assert.False(t, r.IsReady(at(5), false), "before anything was read")
	r.offer(t, initial(10, "a", "b")...)
	r.Settle(at(5))
	assert.Empty(t, r.at, "the objects have no position yet, so they are no checkpoint")
	assert.False(t, r.IsReady(at(5), false))
	r.offer(t, object(watchlist.Added, "c", 11), object(watchlist.Deleted, "a", 12), object(watchlist.Modified, "b", 13))
	r.Settle(at(10))
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, r.stored)
	assert.Equal(t, "10", r.at)
	assert.True(t, r.IsReady(at(10), false))
	r.Settle(at(12))
	assert.Equal(t, map[string]string{"b": "2", "c": "11"}, r.stored)
	assert.Equal(t, 1, r.Tail())
	r.offer(t, advanced(20, false))
	r.Settle(at(20))
	assert.Equal(t, map[string]string{"b": "13", "c": "11"}, r.stored)
	assert.Zero(t, r.Tail())
}

// Several deletions may share a version, of which the leader has delivered some.
func TestMirrorSettlesPartOfAVersion(t *testing.T) {
	r := newRig()
	r.offer(t, initial(10, "a", "b")...)
	r.offer(t, object(watchlist.Deleted, "a", 11), object(watchlist.Deleted, "b", 11))
	r.Settle(&Position{W: "11", At: []watchlist.Key{watchlist.KeyOf("uid-a")}})
	assert.Equal(t, map[string]string{"b": "2"}, r.stored)
	r.Settle(at(11))
	assert.Empty(t, r.stored)
}

// The leader may have offered what was created up to the announced version. A standby that has not read that far does not
// know all of it.
func TestMirrorIsReadyIfItHasReadWhatWasAnnounced(t *testing.T) {
	r := newRig()
	r.offer(t, initial(10, "a")...)
	r.Settle(at(10))
	p := at(10)
	p.Until = "12"
	assert.False(t, r.IsReady(p, false))
	assert.True(t, r.IsReady(p, true), "it led, and has stored what it offered")
	r.offer(t, object(watchlist.Added, "b", 12), object(watchlist.Added, "c", 13))
	assert.True(t, r.IsReady(p, false))
	perhaps, whole := r.Whole(p, false)
	assert.True(t, whole)
	if assert.Len(t, perhaps, 1) {
		assert.Equal(t, "b", perhaps[0].Name)
	}
}

// A standby that lost the history holds the net result of a hole, which is known as a whole, together with what it reads in a
// second hole before that.
func TestMirrorWithAHole(t *testing.T) {
	r := newRig()
	r.offer(t, initial(10, "a", "b")...)
	r.Settle(at(10))
	r.offer(t, suspected(), ofSnapshot(watchlist.Modified, "a", 15), ofSnapshot(watchlist.Added, "c", 14))
	assert.False(t, r.IsReady(at(10), false), "while the snapshot is read")
	r.offer(t, ofSnapshot(watchlist.Deleted, "b", 20), advanced(20, true), object(watchlist.Modified, "a", 21))
	assert.True(t, r.IsReady(at(10), false), "it had read up to 10, and nothing later was offered")
	p := at(15)
	assert.False(t, r.IsReady(p, false))
	r.Settle(p)
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, r.stored)

	r.offer(t, suspected(), ofSnapshot(watchlist.Deleted, "c", 30), advanced(30, true))
	r.Settle(at(25))
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, r.stored)
	r.Settle(at(30))
	assert.Equal(t, map[string]string{"a": "21"}, r.stored)
	assert.True(t, r.IsReady(at(30), false))
}

func resetting(rv int, changes ...watchlist.Change) []watchlist.Change {
	begin, end := suspected(), advanced(rv, true)
	begin.Gap.Reason, end.Rewinds = watchlist.ReasonHistoryReset, true
	return append(append([]watchlist.Change{begin}, changes...), end)
}

// etcd was set back, and the standby has found that before the leader. What the leader has published is of the earlier history,
// also if its version is later than what the standby has read of the later one.
func TestMirrorOfAnEtcdThatWasSetBack(t *testing.T) {
	r := newRig()
	r.offer(t, initial(10, "a", "b")...)
	r.Settle(at(10))
	r.offer(t, object(watchlist.Added, "c", 11), object(watchlist.Modified, "a", 12))
	r.Settle(at(12))
	before := map[string]string{"a": "12", "b": "2", "c": "11"}
	assert.Equal(t, before, r.stored)
	r.offer(t, resetting(8, ofSnapshot(watchlist.Modified, "a", 1), ofSnapshot(watchlist.Deleted, "c", 8))...)
	r.offer(t, object(watchlist.Added, "d", 9))
	for _, w := range []int{12, 13} {
		r.Settle(at(w))
		assert.Equal(t, before, r.stored, "the leader has not emitted that")
		assert.False(t, r.IsReady(at(w), false))
	}
	assert.True(t, r.isSetBack(), "a takeover emits everything again")
	p := at(12)
	p.SetBack = true
	r.Settle(p)
	assert.Equal(t, before, r.stored)
	assert.True(t, r.IsReady(p, true), "it has emitted that itself")
}

// If the versions only grow, one that is later than all published ones is of the later history.
func TestMirrorOfAnEtcdWhoseVersionsGrow(t *testing.T) {
	r := newRig()
	r.offer(t, initial(10, "a", "b")...)
	r.Settle(at(10))
	r.offer(t, resetting(1000, ofSnapshot(watchlist.Modified, "a", 1), ofSnapshot(watchlist.Deleted, "b", 1000))...)
	r.Settle(at(10))
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, r.stored)
	assert.False(t, r.IsReady(at(10), false))
	r.Settle(at(1001))
	assert.Equal(t, map[string]string{"a": "1"}, r.stored)
	r.offer(t, object(watchlist.Added, "c", 1002))
	assert.True(t, r.IsReady(at(1002), false))
	assert.False(t, r.isSetBack())
}

// Only the last leader knows what it has emitted since etcd was set back.
func TestHandoverAfterEtcdWasSetBack(t *testing.T) {
	own := checkpoint.Own{ResourceVersion: "12"}
	known := newRig()
	known.offer(t, initial(10, "a")...)
	known.Settle(at(10))
	known.offer(t, object(watchlist.Modified, "a", 12))
	p := &Progress{Term: 1, Generation: 2, Readers: map[string]Position{podsKey: {W: "12", Closed: true}}}
	handover := func(m *Mirror, own checkpoint.Own, led bool) checkpoint.Handover {
		h := p.Handover(pods, m, own, led)
		h.Position = checkpoint.Position{}
		return h
	}
	assert.Equal(t, checkpoint.Handover{Whole: true, Generation: 2}, handover(known.Mirror, own, false))
	p.Readers[podsKey] = Position{W: "12", Closed: true, SetBack: true}
	anew := checkpoint.Handover{Anew: true, FromRV: "12", SetBack: true, Generation: 2}
	assert.Equal(t, anew, handover(known.Mirror, own, false))
	assert.Equal(t, anew, handover(nil, own, true))
	assert.Equal(t, anew, handover(known.Mirror, checkpoint.Own{}, true))
	assert.Equal(t, checkpoint.Handover{Whole: true, SetBack: true, Generation: 2}, handover(known.Mirror, own, true))
	known.offer(t, suspected()) // a snapshot is being read
	assert.Equal(t, checkpoint.Handover{Whole: true, SetBack: true, Generation: 2}, handover(known.Mirror, own, true))
}

// While nobody has published a position, whoever leads emits the initial state.
func TestMirrorWithoutPosition(t *testing.T) {
	r := newRig()
	r.offer(t, initial(10, "a")...)
	r.Settle(&Position{})
	assert.Empty(t, r.at)
	assert.True(t, r.IsReady(&Position{}, false))
}

// The memory for what the leader has not published is bounded. Reading pauses until it has.
func TestMirrorIsBounded(t *testing.T) {
	r := newRig()
	r.offer(t, initial(10)...)
	for i := range maxTail - 1 {
		r.offer(t, object(watchlist.Modified, "a", 11+i))
	}
	assert.False(t, r.Offer(object(watchlist.Modified, "a", 11+maxTail)))
	waited := make(chan error)
	go func() { waited <- r.WaitForRoom(t.Context()) }()
	r.Settle(at(10 + maxTail))
	assert.NoError(t, <-waited)
	assert.True(t, r.Offer(object(watchlist.Modified, "a", 11+maxTail)))
}

// The objects of a first snapshot need no room, however many there are, and are no checkpoint before the leader has passed it.
func TestMirrorReadsAFirstSnapshotOfAnySize(t *testing.T) {
	r := newRig()
	for i := range maxTail + 10 {
		if !r.Offer(ofSnapshot(watchlist.Known, strconv.Itoa(i), i+1)) {
			t.Fatalf("no room for object %d", i)
		}
	}
	gone := ofSnapshot(watchlist.Deleted, "3", maxTail+20)
	gone.Inferred = true // a second attempt at the snapshot
	r.offer(t, gone, advanced(maxTail+20, true), object(watchlist.Modified, "4", maxTail+21))
	assert.Equal(t, 2, r.Tail())
	assert.False(t, r.IsReady(at(maxTail+19), false))
	_, whole := r.Whole(at(maxTail+19), false)
	assert.False(t, whole)
	r.Settle(at(maxTail + 19))
	assert.Empty(t, r.at)
	r.Settle(at(maxTail + 20))
	assert.True(t, r.IsReady(at(maxTail+20), false))
	assert.Equal(t, strconv.Itoa(maxTail+20), r.at)
	assert.Len(t, r.stored, maxTail+9)
	assert.Equal(t, "5", r.stored["4"])
}

// A later snapshot is stored as a whole or not at all, so it has to fit, too. Beside it, objects change any number of times.
func TestMirrorReadsALaterSnapshotOfAnySize(t *testing.T) {
	const most, changes = maxTail + 10, maxTail * 3
	r := newRig()
	r.offer(t, initial(10, "a")...)
	r.Settle(at(10))
	r.offer(t, suspected())
	for i := range changes {
		if !r.Offer(object(watchlist.Modified, "a", 11+i)) {
			t.Fatalf("no room for change %d", i)
		}
	}
	assert.Less(t, r.Tail(), maxTail+10)
	for i := range most {
		if !r.Offer(ofSnapshot(watchlist.Added, strconv.Itoa(i), i+1)) {
			t.Fatalf("no room for object %d", i)
		}
	}
	r.Settle(at(11))
	assert.Equal(t, map[string]string{"a": "1"}, r.stored)
	const end = changes + 100
	r.offer(t, advanced(end, true))
	r.Settle(at(end - 1))
	assert.Equal(t, map[string]string{"a": "1"}, r.stored)
	r.Settle(at(end))
	assert.Len(t, r.stored, most+1)
	assert.Equal(t, strconv.Itoa(10+changes), r.stored["a"])
	assert.Zero(t, r.Tail())
}

// Where nothing happens, a standby need not wait for the leader's next bookmark to know that its snapshot shows what the leader
// has emitted. Where something happens, the leader comes first.
func TestMirrorOfWhatDoesNotChange(t *testing.T) {
	r := newRig()
	still, asked := false, [][2]string{}
	r.IsStill = func(_ context.Context, from, to string) bool {
		asked = append(asked, [2]string{from, to})
		return still
	}
	of := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	mirrors := NewMirrors()
	mirrors.Add(of, r.Mirror)
	ask := func(p Position) {
		for range 2 { // it has to stay the same
			mirrors.Ask(t.Context(), &Progress{Readers: map[string]Position{Key(of): p}})
		}
	}
	r.Restored(watchlist.Progress{})
	ask(Position{W: "10", Closed: true})
	r.offer(t, ofSnapshot(watchlist.Known, "a", 5))
	ask(Position{W: "10", Closed: true})
	assert.Empty(t, asked, "the snapshot is incomplete")
	r.offer(t, advanced(20, true))
	ask(Position{})
	ask(Position{W: "10"})
	assert.Empty(t, asked, "the position is not known, or not closed")
	ask(Position{W: "10", Closed: true, Until: "30"})
	at := &Position{W: "12", Closed: true}
	for range 5 {
		ask(*at)
	}
	assert.Equal(t, [][2]string{{"10", "20"}, {"12", "20"}, {"12", "20"}, {"12", "20"}}, asked)
	assert.False(t, r.IsReady(at, false))

	at, still = &Position{W: "13", Closed: true}, true
	ask(*at)
	assert.True(t, r.IsReady(at, false))
	assert.Equal(t, "20", r.at)
	assert.Equal(t, map[string]string{"a": "5"}, r.stored)
	asked = nil
	ask(*at)
	assert.Empty(t, asked)
	r.offer(t, object(watchlist.Added, "b", 25))
	r.Settle(at)
	assert.Equal(t, 1, r.Tail(), "what follows the snapshot waits for the leader")
	assert.False(t, r.IsReady(&Position{W: "13", Closed: true, Until: "30"}, false), "an object was offered that was not read")
	perhaps, whole := r.Whole(&Position{W: "13", Closed: true, Until: "25"}, false)
	assert.True(t, whole)
	assert.Len(t, perhaps, 1)
}
