package takeover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// lease is the Lease in the API server.
type lease struct {
	mu      sync.Mutex
	version int
	content kubeclient.Lease
	writes  int
	reads   int
}

// leaseClient is the connection of one replica to it.
type leaseClient struct {
	*lease
	read  int
	fails error // of every request
	loses bool  // writes arrive, and are not answered
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (c *leaseClient) Get(context.Context) (kubeclient.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		return kubeclient.Lease{}, c.fails
	}
	c.reads++
	c.read = c.version
	if c.version == 0 {
		return kubeclient.Lease{}, apierrors.NewNotFound(leases, "progress")
	}
	return c.content, nil
}

func (c *leaseClient) Put(ctx context.Context, l kubeclient.Lease) (kubeclient.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.fails != nil:
		return kubeclient.Lease{}, c.fails
	case c.read != c.version:
		return kubeclient.Lease{}, apierrors.NewConflict(leases, "progress", errors.New("changed"))
	}
	c.version++
	c.writes++
	l.Annotations, l.Version = maps.Clone(l.Annotations), strconv.Itoa(c.version)
	c.content = l
	if c.loses {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return kubeclient.Lease{}, ctx.Err()
	}
	c.read = c.version
	return l, nil
}

func (l *lease) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *lease) progress(t *testing.T) Progress {
	t.Helper()
	p, err := Read(t.Context(), &leaseClient{lease: l})
	require.NoError(t, err)
	return p
}

var (
	pods    = scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	podsKey = Key(pods)
)

// leader is a publisher, and how far its records were accepted.
type leader struct {
	*Publisher
	client *leaseClient
	mu     sync.Mutex
	at     checkpoint.Position
	proofs int
	errs   []error
}

func newLeader(l *lease, identity string) *leader {
	x := &leader{client: &leaseClient{lease: l}}
	x.Publisher = NewPublisher(PublisherOptions{
		Leases: x.client, Identity: identity, Interval: time.Second, Timeout: 5 * time.Second,
		Positions: func(f func(scope.Scope, checkpoint.Position)) {
			x.mu.Lock()
			defer x.mu.Unlock()
			f(pods, x.at)
		},
		Proved: func(int, time.Time) { x.proofs++ },
		Report: func(err error) { x.errs = append(x.errs, err) },
	})
	return x
}

// startLeader returns a leader that has begun its term.
func startLeader(t *testing.T, l *lease, identity string) *leader {
	t.Helper()
	x := newLeader(l, identity)
	_, err := x.Begin(t.Context())
	require.NoError(t, err)
	return x
}

func (x *leader) accepted(w int) {
	x.set(checkpoint.Position{ResourceVersion: strconv.Itoa(w), Closed: true})
}

func (x *leader) set(p checkpoint.Position) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = p
}

// run runs the publisher until stop is called, which returns its error.
func (x *leader) run(t *testing.T) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

func created(rv int) watchlist.Change {
	return watchlist.Change{Scope: &pods, Type: watchlist.Added, Object: redact.Object{Identity: redact.Identity{ResourceVersion: strconv.Itoa(rv)}}}
}

func TestPublisherWritesOnlyWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		x := newLeader(l, "a")
		before, err := x.Begin(t.Context())
		require.NoError(t, err)
		assert.False(t, before.Exists())
		stop := x.run(t)
		x.accepted(7)
		time.Sleep(time.Minute)
		assert.ErrorIs(t, stop(), context.Canceled)
		p := l.progress(t)
		assert.Equal(t, 1, p.Term)
		assert.Equal(t, "a", p.Holder)
		assert.Equal(t, Position{W: "7", Closed: true}, p.Readers[podsKey])
		assert.Equal(t, 2, l.writes)
		assert.Equal(t, 2, x.proofs)
		assert.Empty(t, x.errs)
	})
}

// The new leader's term is the fence: the old one can no longer publish, and learns why.
func TestLaterTermEndsAPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		old, now := newLeader(l, "a"), newLeader(l, "b")
		_, err := old.Begin(t.Context())
		require.NoError(t, err)
		stop := old.run(t)
		old.accepted(7)
		time.Sleep(2 * time.Second)
		before, err := now.Begin(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "7", before.Readers[podsKey].W)
		old.accepted(8)
		time.Sleep(2 * time.Second)
		assert.ErrorIs(t, stop(), ErrTermOver)
		p := l.progress(t)
		assert.Equal(t, 2, p.Term)
		assert.Equal(t, "7", p.Readers[podsKey].W)
	})
}

// A write without an answer is no write until a read shows it, and a conflict with an own write is no loss.
func TestWriteWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		x := startLeader(t, l, "a")
		x.accepted(7)
		x.client.set(func() { x.client.loses = true })
		require.Error(t, x.Publish(t.Context()))
		assert.Equal(t, 1, x.proofs)
		x.client.set(func() { x.client.loses = false })
		x.accepted(8)
		require.NoError(t, x.Publish(t.Context()))
		assert.Equal(t, "8", l.progress(t).Readers[podsKey].W)
		assert.Equal(t, 1, l.progress(t).Term)
		require.Len(t, x.errs, 2)
		assert.NoError(t, x.errs[1])
	})
}

// Objects that are created are announced before they are offered, with one write for all that wait in the queue.
func TestAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		x := startLeader(t, l, "a")
		x.accepted(7)
		require.NoError(t, x.Publish(t.Context()))
		stop := x.run(t)
		for _, rv := range []int{8, 9, 12} {
			c := created(rv)
			x.Queued(&c)
		}
		began := time.Now()
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{created(8)}))
		assert.Equal(t, "12", l.progress(t).Readers[podsKey].Until)
		writes := l.writes
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{created(9), created(12)}))
		assert.Equal(t, writes, l.writes)
		assert.Zero(t, time.Since(began), "it waits for no interval")

		// While it cannot be published, nothing is offered.
		x.client.set(func() { x.client.fails = errors.New("no connection") })
		done := make(chan error, 1)
		go func() { done <- x.Announce(t.Context(), []watchlist.Change{created(13)}) }()
		time.Sleep(10 * time.Second)
		assert.Empty(t, done)
		x.client.set(func() { x.client.fails = nil })
		require.NoError(t, <-done)
		assert.Equal(t, "13", l.progress(t).Readers[podsKey].Until)
		x.accepted(13)
		time.Sleep(2 * time.Second)
		assert.Equal(t, Position{W: "13", Closed: true}, l.progress(t).Readers[podsKey])
		assert.ErrorIs(t, stop(), context.Canceled)
	})
}

func TestEndOfInitialStateIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		x := startLeader(t, l, "a")
		stop := x.run(t)
		end := watchlist.Change{Scope: &pods, Type: watchlist.SnapshotEnd, Origin: watchlist.Initial, Snapshot: &watchlist.SnapshotInfo{ResourceVersion: "20"}}
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{end}))
		p := l.progress(t).Readers[podsKey]
		assert.Equal(t, Position{Ended: "20"}, p)
		h := (&Progress{Term: 1, Readers: map[string]Position{podsKey: p}}).Handover(pods, nil, checkpoint.Own{}, false)
		assert.Equal(t, checkpoint.Handover{Anew: true, FromRV: "20"}, h)
		assert.ErrorIs(t, stop(), context.Canceled)
	})
}

// A consumer may take the first set for the beginning, so that the history which a later one hides begins there, also if that is
// of an API server that lags behind.
func TestFirstEndOfAnInitialStateStaysAnnounced(t *testing.T) {
	for _, later := range []string{"25", "15"} {
		synctest.Test(t, func(t *testing.T) {
			l := &lease{}
			for i, rv := range []string{"20", later} {
				x := startLeader(t, l, strconv.Itoa(i))
				stop := x.run(t)
				end := watchlist.Change{Scope: &pods, Type: watchlist.SnapshotEnd, Origin: watchlist.Initial, Snapshot: &watchlist.SnapshotInfo{ResourceVersion: rv}}
				require.NoError(t, x.Announce(t.Context(), []watchlist.Change{end}))
				assert.ErrorIs(t, stop(), context.Canceled)
				assert.Equal(t, Position{Ended: "20"}, l.progress(t).Readers[podsKey])
			}
		})
	}
}

// An initial state that is emitted again has objects that were created after the published position. If the leader ends before it
// can publish that it has begun, whoever takes over has to begin anew too, or the deletion of those that are gone is never emitted.
func TestInitialStateThatBeginsAnewIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		x := startLeader(t, l, "a")
		x.set(checkpoint.Position{ResourceVersion: "7", Closed: true, Compared: 1})
		require.NoError(t, x.Publish(t.Context()))
		stop := x.run(t)
		begin := watchlist.Change{Scope: &pods, Type: watchlist.SnapshotBegin, Origin: watchlist.Initial, Snapshot: &watchlist.SnapshotInfo{}}
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{begin}))
		anew := Position{W: "7", Closed: true, Anew: true}
		assert.Equal(t, anew, l.progress(t).Readers[podsKey])

		x.set(checkpoint.Position{Compared: 1}) // its begin is accepted
		time.Sleep(2 * time.Second)
		assert.Equal(t, anew, l.progress(t).Readers[podsKey])
		x.set(checkpoint.Position{ResourceVersion: "9", Closed: true, Compared: 2}) // its end too
		time.Sleep(2 * time.Second)
		assert.Equal(t, Position{W: "9", Closed: true}, l.progress(t).Readers[podsKey])

		relist := begin
		relist.Origin = watchlist.Relist // of objects that are known
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{relist}))
		assert.Equal(t, Position{W: "9", Closed: true}, l.progress(t).Readers[podsKey])
		assert.ErrorIs(t, stop(), context.Canceled)
	})
}

// If the end of an initial state is refused, it is emitted again by whoever takes over, although live records are accepted, until
// another set was accepted. The history that it hides begins where it did before.
func TestSetStaysPublishedAsOwedUntilOneIsWhole(t *testing.T) {
	for name, c := range map[string]struct {
		before Position
		owed   Position
	}{
		"first of all":  {Position{}, Position{Ended: "7"}},
		"that was anew": {Position{W: "5", Closed: true, Anew: true}, Position{W: "5", Closed: true, Anew: true}},
	} {
		t.Run(name, func(t *testing.T) {
			keeper := checkpoint.NewKeeper(checkpoint.Options{
				Extension: checkpoint.NewMemory(), Interval: time.Second, MaxChanges: 100, Cluster: func() checkpoint.Cluster { return checkpoint.Cluster{} },
				Report: func(string, error) {}, Logger: zap.NewNop(),
			})
			keeper.Start()
			reader := pods
			_, err := keeper.Restore(t.Context(), &reader, func(watchlist.Stored) {})
			require.NoError(t, err)
			x := newLeader(&lease{}, "a")
			x.Positions = keeper.Positions
			_, err = x.Begin(t.Context())
			require.NoError(t, err)
			x.now.Readers = map[string]Position{podsKey: c.before}

			set := func(of watchlist.Type, origin watchlist.Origin, rv string) watchlist.Change {
				return watchlist.Change{Scope: &reader, Type: of, Origin: origin, Closes: of == watchlist.SnapshotEnd && origin == watchlist.Initial,
					Snapshot: &watchlist.SnapshotInfo{Epoch: fmt.Sprint(origin), ResourceVersion: rv}}
			}
			live := created(8)
			live.Scope, live.Advances = &reader, true
			keeper.Accepted([]watchlist.Change{set(watchlist.SnapshotBegin, watchlist.Initial, "")})
			x.ended[podsKey] = "7" // see Announce
			keeper.Dropped([]watchlist.Change{set(watchlist.SnapshotEnd, watchlist.Initial, "7")})
			keeper.Accepted([]watchlist.Change{live})
			require.NoError(t, x.Publish(t.Context()))
			published := func() Position {
				p := x.client.progress(t).Readers[podsKey]
				p.Denied = nil
				return p
			}
			assert.Equal(t, c.owed, published())
			keeper.Accepted([]watchlist.Change{set(watchlist.SnapshotBegin, watchlist.Relist, ""), set(watchlist.SnapshotEnd, watchlist.Relist, "8")})
			require.NoError(t, x.Publish(t.Context()))
			assert.Equal(t, Position{W: "8", At: []watchlist.Key{{}}}, published())
			require.NoError(t, keeper.Shutdown(t.Context()))
		})
	}
}

// Readers of other configurations keep their positions, and a set that has to be emitted again stays owed.
func TestPositionsThatOthersNeed(t *testing.T) {
	l := &lease{}
	x := startLeader(t, l, "a")
	x.accepted(7)
	require.NoError(t, x.Publish(t.Context()))
	y := startLeader(t, l, "b")
	require.NoError(t, y.Publish(t.Context()))
	p := l.progress(t)
	assert.Equal(t, Position{W: "7", Closed: true, Anew: true}, p.Readers[podsKey])
	assert.Equal(t, checkpoint.Handover{Anew: true, FromRV: "7", Position: checkpoint.Position{Closed: true}}, p.Handover(pods, nil, checkpoint.Own{}, false))

	other := p
	other.Readers = map[string]Position{podsKey: p.Readers[podsKey], "services/1": {W: "3"}}
	other.Term, other.Holder = 3, "c"
	client := &leaseClient{lease: l}
	_, err := client.Get(t.Context())
	require.NoError(t, err)
	_, err = other.write(t.Context(), client)
	require.NoError(t, err)
	z := startLeader(t, l, "d")
	z.accepted(9)
	require.NoError(t, z.Publish(t.Context()))
	assert.Equal(t, map[string]Position{podsKey: {W: "9", Closed: true}, "services/1": {W: "3"}}, l.progress(t).Readers)
}

// Somebody edits or removes the progress.
func TestDamagedProgress(t *testing.T) {
	for name, damage := range map[string]func(*lease){
		"removed": func(l *lease) { l.version = 0 },
		"garbled": func(l *lease) { l.version++; l.content.Annotations = map[string]string{annotation: "{"} },
		"emptied": func(l *lease) { l.version++; l.content.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			l := &lease{}
			x := startLeader(t, l, "a")
			x.accepted(7)
			require.NoError(t, x.Publish(t.Context()))
			damage(l)
			x.accepted(8)
			require.NoError(t, x.Publish(t.Context()))
			p := l.progress(t)
			assert.Equal(t, 1, p.Term)
			assert.Equal(t, "8", p.Readers[podsKey].W)
		})
	}
	// Also if nothing changes.
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		x := startLeader(t, l, "a")
		x.accepted(7)
		stop := x.run(t)
		reads := func() (n int) {
			l.set(func() { n = l.reads })
			return n
		}
		time.Sleep(time.Minute)
		before := reads()
		time.Sleep(time.Minute)
		assert.Equal(t, 12, reads()-before)
		l.set(func() { l.version = 0 })
		time.Sleep(6 * time.Second)
		p := l.progress(t)
		assert.Equal(t, 1, p.Term)
		assert.Equal(t, "7", p.Readers[podsKey].W)
		assert.ErrorIs(t, stop(), context.Canceled)
	})

	l := &lease{}
	l.version, l.content.Annotations = 1, map[string]string{annotation: `{"v":2,"term":5}`}
	limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := newLeader(l, "a").Begin(limited)
	assert.Error(t, err)
	assert.Zero(t, l.writes, "a newer layout is left alone")
}

// etcd is set back, and the progress with it. The leader notices although nothing is to be published, and begins another generation,
// whose positions are published once everything was compared.
func TestProgressIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		x := startLeader(t, l, "a")
		x.accepted(10)
		require.NoError(t, x.Publish(t.Context()))
		saved := l.content
		time.Sleep(time.Second)
		x.accepted(20)
		stop := x.run(t)
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{created(21)}))
		l.set(func() { l.version, l.content = l.version+100, saved })
		time.Sleep(10 * time.Second)
		assert.ErrorIs(t, stop(), ErrSetBack)
		last := x.Last()
		assert.Equal(t, Position{W: "20", Closed: true, Until: "21"}, last.Readers[podsKey])

		y := newLeader(l, "a")
		y.Known = last
		before, err := y.Begin(t.Context())
		require.NoError(t, err)
		want := Position{W: "20", Closed: true, SetBack: true}
		for _, p := range []Progress{before, l.progress(t)} {
			assert.Equal(t, want, p.Readers[podsKey])
			assert.Equal(t, 1, p.Generation)
		}
		assert.Equal(t, 2, y.Term())
		stop = y.run(t)
		y.set(checkpoint.Position{ResourceVersion: "20", Closed: true, SetBack: true})
		require.NoError(t, y.Announce(t.Context(), []watchlist.Change{created(5)}), "nobody relies on what is published")
		time.Sleep(2 * time.Second)
		assert.Equal(t, want, l.progress(t).Readers[podsKey])
		require.NoError(t, y.Announce(t.Context(), []watchlist.Change{created(13)}))
		y.set(checkpoint.Position{ResourceVersion: "12", Closed: true, Compared: 1})
		time.Sleep(2 * time.Second)
		p := l.progress(t)
		assert.Equal(t, Position{W: "12", Closed: true, Until: "13"}, p.Readers[podsKey])
		assert.Equal(t, 1, p.Generation)
		assert.ErrorIs(t, stop(), context.Canceled)
	})
}

// The etcd of one resource is set back, or another replica takes over that has noticed it.
func TestReaderFindsThatEtcdWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		x := startLeader(t, l, "a")
		x.accepted(20)
		require.NoError(t, x.Publish(t.Context()))
		stop := x.run(t)
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{created(22)}))
		found := watchlist.Change{Scope: &pods, Type: watchlist.Suspected, Gap: &watchlist.GapInfo{Reason: watchlist.ReasonHistoryReset}}
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{found}))
		published := func(want Position, generation int) {
			t.Helper()
			p := l.progress(t)
			assert.Equal(t, want, p.Readers[podsKey])
			assert.Equal(t, generation, p.Generation)
		}
		published(Position{W: "20", Closed: true, SetBack: true}, 1)
		x.set(checkpoint.Position{ResourceVersion: "20", Closed: true, SetBack: true})
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{found}))
		time.Sleep(2 * time.Second)
		published(Position{W: "20", Closed: true, SetBack: true}, 1)
		x.set(checkpoint.Position{ResourceVersion: "12", Closed: true, Compared: 7})
		time.Sleep(2 * time.Second)
		published(Position{W: "12", Closed: true}, 1)
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{created(13)}))
		published(Position{W: "12", Closed: true, Until: "13"}, 1)
		rewinds := watchlist.Change{Scope: &pods, Type: watchlist.Advanced, Rewinds: true}
		require.NoError(t, x.Announce(t.Context(), []watchlist.Change{rewinds}))
		published(Position{W: "12", Closed: true, SetBack: true}, 2)
		x.set(checkpoint.Position{ResourceVersion: "14", Closed: true, Compared: 8})
		time.Sleep(2 * time.Second)
		published(Position{W: "14", Closed: true}, 2)
		assert.ErrorIs(t, stop(), context.Canceled)

		y := newLeader(l, "b")
		y.SetBack = func() []string { return []string{podsKey} }
		_, err := y.Begin(t.Context())
		require.NoError(t, err)
		published(Position{W: "14", Closed: true, SetBack: true}, 3)
		y.set(checkpoint.Position{})
		require.NoError(t, y.Publish(t.Context()))
		published(Position{W: "14", Closed: true, SetBack: true, Anew: true}, 3)
		y.set(checkpoint.Position{ResourceVersion: "9", Closed: true, Compared: 1})
		require.NoError(t, y.Publish(t.Context()))
		published(Position{W: "9", Closed: true}, 3)
	})
}

// What tells a replica that etcd was set back.
func TestProgressThatIsBehind(t *testing.T) {
	progress := func(term int, holder, version string) *Progress {
		p := &Progress{Term: term, Holder: holder}
		p.lease.Version = version
		return p
	}
	known := progress(5, "a", "50")
	for _, p := range []*Progress{progress(5, "a", "49"), progress(4, "a", "60"), progress(5, "b", "60")} {
		assert.True(t, p.IsBehind(known), "%+v", p)
		assert.False(t, p.IsBehind(&Progress{}))
	}
	for _, p := range []*Progress{known, progress(5, "a", "51"), progress(6, "b", "60"), progress(6, "b", "40"), {}} {
		assert.False(t, p.IsBehind(known), "%+v", p)
	}
}
