package takeover

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover/model"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// What the leaders of the model begin with, read, offer and see accepted is given to real parts: to the checkpoint of the standby,
// the handover, the checkpoint of the leader, its publisher and a Lease. They begin where the model's leaders begin, with the
// inventory of these, and publish what these publish. MODEL_SEEDS is how many runs are replayed, from MODEL_FIRST_SEED on.
func TestLeadersFollowTheModel(t *testing.T) {
	seeds := 50
	if n, err := strconv.Atoi(os.Getenv("MODEL_SEEDS")); err == nil {
		seeds = n
	}
	first, _ := strconv.Atoi(os.Getenv("MODEL_FIRST_SEED"))
	var all tally
	for seed := first; seed < first+seeds && !t.Failed(); seed++ {
		r := &leadersReplay{witness: &witness{t: t, seed: seed, mirrors: map[int]*replayed{}}, standbys: map[int]*standby{}, leaders: map[int]*replayedLeader{}}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r.t = t
			defer r.shutdown()
			require.Empty(t, model.Replay(model.Options{Seed: uint64(seed), Witness: r, Leaders: r}))
		})
		all.add(&r.tally)
	}
	t.Logf("%+v", all)
	if seeds >= 50 {
		assert.Greater(t, all.Continued, 2*seeds)
		assert.Greater(t, all.Filled, 0)
		assert.Greater(t, all.Demoted, 0)
		assert.Greater(t, all.Published, 20*seeds)
	}
}

// tally counts what was compared.
type tally struct {
	Terms, Continued, Filled, Anew, Demoted, Batches, Published int
}

func (a *tally) add(b *tally) {
	a.Terms += b.Terms
	a.Continued += b.Continued
	a.Filled += b.Filled
	a.Anew += b.Anew
	a.Demoted += b.Demoted
	a.Batches += b.Batches
	a.Published += b.Published
}

// leadersReplay has the real parts of all replicas of a run.
type leadersReplay struct {
	*witness
	standbys map[int]*standby
	leaders  map[int]*replayedLeader
	tally    tally
}

// standby is the checkpoint of a mirror, and later of the leader that it becomes.
type standby struct {
	keeper *checkpoint.Keeper
	of     *scope.Scope
	reader int

	inventory map[int]int // with which it began
	upto      int         // -1: there was none

	handover func(checkpoint.Own) checkpoint.Handover // nil: it does not lead
	handed   checkpoint.Handover                      // what that has returned
}

func scopeOf(reader int) scope.Scope {
	return scope.New(schema.GroupResource{Resource: fmt.Sprint("resource", reader)}, "", "", "")
}

func (r *leadersReplay) Begin(n, reader int, inventory map[int]int, upto int) {
	of := scopeOf(reader)
	s := &standby{of: &of, reader: reader, upto: upto, inventory: map[int]int{}}
	s.keeper = checkpoint.NewKeeper(checkpoint.Options{
		Extension: checkpoint.NewMemory(), Interval: time.Hour, MaxChanges: 1 << 30, Logger: zap.NewNop(),
		Cluster: func() checkpoint.Cluster { return checkpoint.Cluster{UID: "one"} },
		Report:  func(_ string, err error) { assert.NoError(r.t, err) },
		Handover: func(_ scope.Scope, own checkpoint.Own) *checkpoint.Handover {
			if s.handover == nil {
				return nil
			}
			s.handed = s.handover(own)
			return &s.handed
		},
	})
	s.keeper.Start()
	r.standbys[n] = s
	s.restore(r.t)
	if upto >= 0 {
		var unknown, known []watchlist.Change
		for uid, at := range inventory {
			s.inventory[uid] = at
			c := s.change(model.Offered{Kind: model.Added, UID: uid, Version: at})
			if at == 0 {
				unknown = append(unknown, c)
			} else {
				known = append(known, c)
			}
		}
		s.keeper.BeforeDeliver(r.t.Context(), unknown)
		s.keeper.Accepted(append(known, s.change(model.Offered{Kind: model.Advanced, Closes: upto})))
	}
	r.witness.Begin(n, reader, inventory, upto)
	m := r.mirrors[n]
	noted := m.Mirror.accepted
	m.Mirror.accepted = func(changes []watchlist.Change) {
		noted(changes)
		for i := range changes {
			changes[i].Scope = s.of
		}
		s.keeper.Accepted(changes)
	}
}

func (r *leadersReplay) shutdown() {
	for _, s := range r.standbys {
		assert.NoError(r.t, s.keeper.Shutdown(context.Background()))
	}
}

// restore makes a new reader of the scope continue from the checkpoint. It returns the inventory.
func (s *standby) restore(t *testing.T) (watchlist.Progress, map[int]int) {
	t.Helper()
	s.keeper.Abandon(nil)
	of := *s.of
	s.of = &of
	inventory := map[int]int{}
	progress, err := s.keeper.Restore(t.Context(), s.of, func(o watchlist.Stored) {
		uid, err := strconv.Atoi(o.UID)
		require.NoError(t, err)
		inventory[uid], _ = strconv.Atoi(o.ResourceVersion)
	})
	require.NoError(t, err)
	return progress, inventory
}

// change is what a real reader emits for a change of the model.
func (s *standby) change(o model.Offered) watchlist.Change {
	c := watchlist.Change{Scope: s.of, ReadAt: time.Now(), Origin: watchlist.Recovered, Advances: o.Live}
	if o.Live {
		c.Origin = watchlist.Live
	}
	if o.UID > 0 {
		c.Object.Identity = redact.Identity{UID: strconv.Itoa(o.UID), Name: "x", ResourceVersion: strconv.Itoa(o.Version)}
		c.Key = watchlist.KeyOfIdentity(c.Object.Identity)
	}
	switch o.Kind {
	case model.Snapshot:
		c.Type, c.Origin, c.Snapshot = watchlist.Snapshot, watchlist.Initial, &watchlist.SnapshotInfo{Epoch: strconv.Itoa(o.Epoch)}
	case model.Added:
		c.Type = watchlist.Added
	case model.Modified:
		c.Type = watchlist.Modified
	case model.Deleted:
		c.Type, c.Inferred = watchlist.Deleted, o.Inferred
	case model.Known: // a real reader notes what was accepted, and does not move
		c.Type, c.Advances = watchlist.Known, false
	case model.Forgotten:
		c.Type, c.Advances = watchlist.Forgotten, false
	case model.Unchanged:
		c.Type = watchlist.Unchanged
	case model.Advanced:
		c.Type, c.Closes, c.Advances = watchlist.Advanced, true, false
		c.Object.ResourceVersion = strconv.Itoa(o.Closes)
	case model.Begin:
		c.Type, c.Origin, c.Snapshot = watchlist.SnapshotBegin, watchlist.Initial, &watchlist.SnapshotInfo{Epoch: strconv.Itoa(o.Epoch)}
	case model.End:
		c.Type, c.Origin, c.Closes, c.Verifies = watchlist.SnapshotEnd, watchlist.Initial, true, true
		c.Snapshot = &watchlist.SnapshotInfo{Epoch: strconv.Itoa(o.Epoch), ResourceVersion: strconv.Itoa(o.Closes)}
	case model.Gap:
		c.Type, c.Gap = watchlist.Gap, &watchlist.GapInfo{Reason: o.Reason, FromRV: strconv.Itoa(o.From), ToRV: strconv.Itoa(o.To)}
		c.Closes, c.Verifies = o.Closes > 0, o.Closes > 0
	}
	return c
}

// replayedLeader is a leader with the checkpoints of its readers.
type replayedLeader struct {
	publisher *Publisher
	readers   []*replayedReader // nil: it is not configured
}

type replayedReader struct {
	*standby
	start Position
	early []int        // objects whose accepted events the model reads again
	known map[int]bool // the objects of the inventory
	whole bool         // the inventory is known

	anew   bool // the initial state is emitted, and nobody has all of it
	broken bool // its begin or its end was refused
	first  int  // the version of the first set whose end was offered before there was a position
	behind bool // a refused change has moved the position of the model, which another one must do for the real one
	denied int  // refused records that no gap record has reported
	gaps   []*watchlist.Change
	// forgets are the objects that a reader has forgotten before it began a set, for each that is in the queue.
	forgets []map[int]bool
}

// real is a position of the model as it is published.
func real(p model.Published) Position {
	q := Position{W: "", Until: version(p.Until), Anew: p.Many}
	if p.Ended > 0 && !p.Known {
		q.Ended = version(p.Ended)
	}
	if p.Known {
		q.W, q.Closed = strconv.Itoa(p.W), true
		if p.At > 0 {
			q.W, q.Closed = version(p.At), false
			for _, uid := range p.Seen {
				q.At = append(q.At, watchlist.KeyOfIdentity(redact.Identity{UID: strconv.Itoa(uid)}))
			}
		}
	}
	for _, uid := range p.Owed {
		q.Owed = append(q.Owed, owed{UID: strconv.Itoa(uid), Name: "x"})
	}
	if p.DeniedTo > 0 {
		q.Denied = &denied{Records: 1, From: strconv.Itoa(p.DeniedFrom), To: strconv.Itoa(p.DeniedTo)}
	}
	return q
}

func version(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func (r *leadersReplay) Leads(n int, readers []model.Beginning) {
	r.tally.Terms++
	there := Progress{Term: n, Holder: "before", Readers: map[string]Position{}}
	for k, b := range readers {
		if p := b.Published; p.Known || p.Ended > 0 || p.Until > 0 {
			there.Readers[Key(scopeOf(k))] = real(p)
		}
	}
	l := &lease{}
	client := &leaseClient{lease: l}
	there, err := there.write(r.t.Context(), client)
	require.NoError(r.t, err)
	x := &replayedLeader{}
	for k, b := range readers {
		x.readers = append(x.readers, nil)
		if b.Reads {
			x.readers[k] = r.begin(&there, k, b)
		}
	}
	x.publisher = NewPublisher(PublisherOptions{
		Leases: client, Identity: fmt.Sprint("leader ", n), Interval: time.Hour, Timeout: time.Minute,
		Positions: func(f func(scope.Scope, checkpoint.Position)) {
			for _, at := range x.readers {
				if at != nil {
					at.keeper.Positions(f)
				}
			}
		},
	})
	before, err := x.publisher.Begin(r.t.Context())
	require.NoError(r.t, err)
	assert.Equal(r.t, there.Readers, before.Readers)
	r.leaders[n] = x
}

// begin lets a reader continue, and compares with what it does.
func (r *leadersReplay) begin(there *Progress, k int, b model.Beginning) *replayedReader {
	t, s, m := r.t, r.standbys[b.Mirror], r.mirrors[b.Mirror]
	what := fmt.Sprintf("seed %d, mirror %d, reader %d, %+v", r.seed, b.Mirror, k, b)
	of := scopeOf(k)
	published := there.Readers[Key(of)]
	m.Mirror.Settle(&published)
	s.handover = func(own checkpoint.Own) checkpoint.Handover { return there.Handover(of, m.Mirror, own, b.Led) }
	progress, inventory := s.restore(t)
	s.handover = nil
	h := s.handed
	x := &replayedReader{standby: s, whole: h.Whole, first: b.Published.Ended, start: positionOf(positionIn(s.keeper))}
	if progress.Denied != nil {
		x.denied = progress.Denied.Dropped
	}
	switch {
	case !published.Known():
		assert.True(t, h.Anew, what)
		assert.Subset(t, b.Published.Owed, slices.Collect(maps.Keys(inventory)), what)
	case published.Anew:
		assert.True(t, h.Anew, what)
		assert.Equal(t, published.W, h.FromRV, what)
		r.tally.Anew++
		x.anew = true
	case b.Whole && (h.Whole || b.Published.At == 0): // a real standby must have read all of a version of which something was accepted
		require.True(t, h.Whole, what)
		x.early = b.Published.Seen
		assert.Equal(t, x.without(b.Inventory), x.without(inventory), what)
		at, _ := strconv.Atoi(progress.ResourceVersion)
		assert.GreaterOrEqual(t, at, b.W, what)
		r.tally.Continued++
	default:
		assert.False(t, h.Whole, what)
		assert.Equal(t, published.W, progress.ResourceVersion, what)
		r.tally.Filled++
	}
	x.known = map[int]bool{}
	for uid := range inventory {
		x.known[uid] = true
	}
	r.check()
	return x
}

// without returns an inventory without the objects that are in it early.
func (x *replayedReader) without(inventory map[int]int) map[int]int {
	others := maps.Clone(inventory)
	for _, uid := range x.early {
		delete(others, uid)
	}
	return others
}

func (r *leadersReplay) check() {
	if r.t.Failed() {
		r.t.FailNow()
	}
}

func positionIn(k *checkpoint.Keeper) (at checkpoint.Position) {
	k.Positions(func(_ scope.Scope, p checkpoint.Position) { at = p })
	return at
}

func (r *leadersReplay) Queues(n int, o model.Offered) {
	x := r.leaders[n]
	at := x.readers[o.Reader]
	c := at.change(o)
	if o.Kind == model.Gap && o.Reason == "dropped" {
		c.Gap.Dropped, at.denied = at.denied, 0
		at.gaps = append(at.gaps, &c)
	}
	switch o.Kind {
	case model.Begin: // a real reader forgets what it knows, in order not to miss it in the set
		at.forgets = append(at.forgets, at.known)
		at.known = map[int]bool{}
	case model.Deleted, model.Forgotten:
		delete(at.known, o.UID)
	default:
		at.known[o.UID] = o.UID > 0
	}
	x.publisher.Queued(&c)
}

// take returns the changes of a batch. A gap record reports what had been refused when it was queued.
func (x *replayedLeader) take(batch []model.Offered) []watchlist.Change {
	changes := make([]watchlist.Change, len(batch))
	for i, o := range batch {
		at := x.readers[o.Reader]
		changes[i] = at.change(o)
		if o.Kind == model.Gap && o.Reason == "dropped" {
			changes[i].Gap.Dropped = at.gaps[0].Gap.Dropped
		}
	}
	return changes
}

func (r *leadersReplay) Offers(n int, batch []model.Offered) {
	r.tally.Batches++
	x := r.leaders[n]
	changes := x.take(batch)
	for i := range changes {
		x.readers[batch[i].Reader].keeper.BeforeDeliver(r.t.Context(), changes[i:i+1])
	}
	x.announce(r.t, changes)
	there := x.read(r.t)
	for i, o := range batch {
		p, at := there.Readers[Key(scopeOf(o.Reader))], x.readers[o.Reader]
		what := fmt.Sprintf("seed %d, leader %d, %+v, position %+v", r.seed, n, o, p)
		switch o.Kind {
		case model.Added, model.Snapshot:
			if !p.Known() {
				break // nobody relies on what was published
			}
			assert.True(r.t, p.Anew || atLeast(p.until(), changes[i].Object.ResourceVersion), what)
		case model.Begin:
			at.anew = true
		case model.End:
			if p.Known() {
				break
			}
			if at.first == 0 {
				at.first = o.Version
			}
			assert.Equal(r.t, strconv.Itoa(at.first), p.Ended, what)
		}
	}
	r.check()
}

// announce announces a batch. Nobody but the test publishes.
func (x *replayedLeader) announce(t *testing.T, changes []watchlist.Change) {
	announced := make(chan error, 1)
	go func() { announced <- x.publisher.Announce(t.Context(), changes) }()
	for {
		select {
		case err := <-announced:
			require.NoError(t, err)
			return
		case <-x.publisher.urgent:
			require.NoError(t, x.publisher.Publish(t.Context()))
		}
	}
}

// read returns what was published.
func (x *replayedLeader) read(t *testing.T) Progress {
	p, err := Read(t.Context(), &leaseClient{lease: x.publisher.Leases.(*leaseClient).lease})
	require.NoError(t, err)
	return p
}

func (r *leadersReplay) Settles(n int, batch []model.Offered, denied []bool) {
	x := r.leaders[n]
	changes := x.take(batch)
	for i, o := range batch {
		at, one := x.readers[o.Reader], changes[i:i+1]
		if o.Kind == model.Gap && o.Reason == "dropped" {
			at.gaps = at.gaps[1:]
		}
		if o.Kind == model.Begin {
			at.forget()
		}
		if denied[i] {
			at.keeper.Dropped(one)
		} else {
			at.keeper.Accepted(one)
		}
		at.settled(o, &one[0], denied[i])
	}
}

// forget removes from the checkpoint what the reader has forgotten.
func (x *replayedReader) forget() {
	var changes []watchlist.Change
	for uid, isObject := range x.forgets[0] {
		if isObject {
			changes = append(changes, x.change(model.Offered{Kind: model.Forgotten, UID: uid}))
		}
	}
	x.forgets = x.forgets[1:]
	x.keeper.Accepted(changes)
}

// settled notes what the outcome of a change means for the position.
func (x *replayedReader) settled(o model.Offered, c *watchlist.Change, denied bool) {
	moves := c.Advances || c.Closes
	switch {
	case denied:
		x.denied++
		if c.Gap != nil { // what it would have reported is to be reported again
			x.denied += c.Gap.Dropped
		}
		x.behind = x.behind || moves
		if o.Kind == model.Begin || o.Kind == model.End {
			x.broken = true
		}
	case o.Kind == model.Begin:
		x.anew, x.broken = true, false
	case o.Kind == model.End && !x.broken:
		x.anew, x.whole = false, true
		x.behind = false
	case moves:
		x.behind = false
	}
}

func (r *leadersReplay) Publishes(n int, positions []model.Published) {
	r.tally.Published++
	x := r.leaders[n]
	require.NoError(r.t, x.publisher.Publish(r.t.Context()))
	there := x.read(r.t)
	for k, p := range positions {
		at, now := x.readers[k], there.Readers[Key(scopeOf(k))]
		if at == nil {
			continue
		}
		what := fmt.Sprintf("seed %d, leader %d, reader %d, the model's position %+v, the real one %+v", r.seed, n, k, p, now)
		wanted := real(p)
		if at.start.Known() && (!wanted.Known() || watchlist.VersionBefore(wanted.W, at.start.W)) {
			wanted.W, wanted.Closed, wanted.At = at.start.W, at.start.Closed, at.start.At
		}
		switch {
		case at.behind:
			assert.False(r.t, watchlist.VersionBefore(wanted.W, now.W), what)
		default:
			assert.Equal(r.t, wanted.W, now.W, what)
			for _, key := range now.At {
				assert.True(r.t, wanted.Closed || slices.Contains(wanted.At, key), what)
			}
		}
		assert.True(r.t, !p.Known || atLeast(later(version(p.Until), wanted.W), now.until()), what)
		if !p.Known {
			assert.Contains(r.t, []string{"", version(at.first)}, now.Ended, what)
		}
		assert.Equal(r.t, at.anew && p.Known || len(p.Owed) > maxOwed, now.Anew, what)
		if now.Known() && !now.Anew { // else a set follows, and with its begin nothing is owed
			uids := []int{}
			for _, o := range now.Owed {
				uid, _ := strconv.Atoi(o.UID)
				uids = append(uids, uid)
			}
			slices.Sort(uids)
			assert.Equal(r.t, append([]int{}, p.Owed...), uids, what)
		}
		if p.DeniedTo == 0 && at.denied == 0 {
			assert.Nil(r.t, now.Denied, what)
		}
		if now.Denied == nil {
			assert.Zero(r.t, at.denied, what)
		}
	}
	r.check()
}

func (r *leadersReplay) Ends(n int, mirrors []int) {
	x := r.leaders[n]
	for _, m := range mirrors {
		next := r.standbys[m]
		at := x.readers[next.reader]
		if at == nil || next.upto < 0 || !at.whole || at.anew || at.broken {
			continue
		}
		r.tally.Demoted++
		what := fmt.Sprintf("seed %d, leader %d, reader %d, mirror %d", r.seed, n, next.reader, m)
		progress, inventory := at.restore(r.t)
		assert.Equal(r.t, at.without(next.inventory), at.without(inventory), what)
		if rv, _ := strconv.Atoi(progress.ResourceVersion); !at.behind {
			assert.GreaterOrEqual(r.t, rv, next.upto, what)
		}
	}
	r.check()
}
