package elector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// A candidate notices a renewal up to 2.2 periods late, and tries again up to 2.2 periods after the Lease has ended.
	longest = leaseDuration + 44*retryPeriod/10
)

// store is the API server with the one Lease.
type store struct {
	mu      sync.Mutex
	version int // 0: it does not exist
	lease   kubeclient.Lease
}

func (s *store) now() kubeclient.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// client is the connection of one replica.
type client struct {
	*store
	mu       sync.Mutex
	read     int           // the version that was read last
	cut      bool          // requests are not answered, and do not arrive
	loses    bool          // writes arrive, and are not answered
	answerIn time.Duration // after a write has arrived
}

func (c *client) is(set func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set()
}

func (c *client) state() (cut, loses bool, answerIn time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut, c.loses, c.answerIn
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (c *client) Get(ctx context.Context) (kubeclient.Lease, error) {
	if cut, _, _ := c.state(); cut {
		<-ctx.Done()
		return kubeclient.Lease{}, ctx.Err()
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.read = c.version
	if c.version == 0 {
		return kubeclient.Lease{}, fmt.Errorf("cannot get: %w", apierrors.NewNotFound(leases, "lease"))
	}
	return c.lease, nil
}

func (c *client) Put(ctx context.Context, lease kubeclient.Lease) (kubeclient.Lease, error) {
	cut, loses, answerIn := c.state()
	if cut {
		<-ctx.Done()
		return kubeclient.Lease{}, ctx.Err()
	}
	c.store.mu.Lock()
	conflict := c.read != c.version
	if !conflict {
		c.version++
		c.lease = lease
	}
	c.store.mu.Unlock()
	if loses {
		<-ctx.Done()
		return kubeclient.Lease{}, ctx.Err()
	}
	if conflict {
		return kubeclient.Lease{}, fmt.Errorf("cannot update: %w", apierrors.NewConflict(leases, "lease", errors.New("changed")))
	}
	time.Sleep(answerIn)
	return lease, nil
}

// replica is an elector that runs.
type replica struct {
	*Elector
	client  *client
	stop    func() // and waits
	mu      sync.Mutex
	errors  []error
	leading []bool
}

func start(t *testing.T, s *store, identity string, options ...func(*Options)) *replica {
	t.Helper()
	r := &replica{client: &client{store: s}}
	o := Options{
		Leases: r.client, Identity: identity, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Report: func(err error) { r.mu.Lock(); r.errors = append(r.errors, err); r.mu.Unlock() },
	}
	for _, option := range options {
		option(&o)
	}
	r.Elector = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { r.Run(ctx) })
	all.Go(func() { r.note(ctx) })
	r.stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

// note writes down each change.
func (r *replica) note(ctx context.Context) {
	for {
		select {
		case <-r.Changes():
			r.mu.Lock()
			r.leading = append(r.leading, r.Leads())
			r.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// await returns how long it takes until the condition holds, and checks that never two replicas lead.
func await(t *testing.T, most time.Duration, replicas []*replica, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		require.Less(t, time.Since(began), most, "it does not come to hold")
		time.Sleep(10 * time.Millisecond)
		leaders := 0
		for _, r := range replicas {
			if r.Leads() {
				leaders++
			}
		}
		require.LessOrEqual(t, leaders, 1, "two replicas lead")
	}
	return time.Since(began)
}

func leader(replicas []*replica) *replica {
	for _, r := range replicas {
		if r.Leads() {
			return r
		}
	}
	return nil
}

func three(t *testing.T, s *store) []*replica {
	var all []*replica
	for i := range 3 {
		all = append(all, start(t, s, fmt.Sprintf("replica-%d", i)))
	}
	await(t, 2*retryPeriod, all, func() bool { return leader(all) != nil })
	return all
}

func TestLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		all := three(t, s)
		before := leader(all)
		time.Sleep(time.Minute)
		require.Same(t, before, leader(all), "without a fault the leader stays")
		require.Equal(t, 1, s.now().Transitions)

		before.client.is(func() { before.client.cut = true })
		assert.LessOrEqual(t, await(t, time.Minute, all, func() bool { return !before.Leads() }), renewDeadline+10*time.Millisecond)
		await(t, longest, all, func() bool { return leader(all) != nil })
		after := leader(all)
		assert.NotSame(t, before, after)
		assert.Equal(t, after.Identity, s.now().Holder)
		assert.Equal(t, 2, s.now().Transitions)

		before.client.is(func() { before.client.cut = false })
		time.Sleep(time.Minute)
		assert.Same(t, after, leader(all))
		before.mu.Lock()
		defer before.mu.Unlock()
		assert.Equal(t, []bool{true, false}, before.leading)
		require.Len(t, before.errors, 2, "the first failure and the success after it")
		require.ErrorIs(t, before.errors[0], context.DeadlineExceeded)
		assert.NoError(t, before.errors[1])
	})
}

func TestReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		all := three(t, s)
		before := leader(all)
		time.Sleep(time.Minute)
		before.stop()
		assert.False(t, before.Leads())
		took := await(t, 22*retryPeriod/10+10*time.Millisecond, all, func() bool { return leader(all) != nil })
		t.Logf("released and taken in %v", took)
		assert.NotSame(t, before, leader(all))
	})
}

// A candidate that stops changes nothing.
func TestCandidateStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		all := three(t, s)
		before := leader(all)
		for _, r := range all {
			if r != before {
				r.stop()
			}
		}
		assert.True(t, before.Leads())
		assert.Equal(t, before.Identity, s.now().Holder)
	})
}

// A renewal whose answer is lost proves nothing, but the next one does.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		all := three(t, s)
		before := leader(all)
		before.client.is(func() { before.client.loses = true })
		time.Sleep(retryPeriod + 100*time.Millisecond) // a renewal is under way
		before.client.is(func() { before.client.loses = false })
		await(t, renewDeadline, all, func() bool { deadline, _ := before.Deadline(); return time.Until(deadline) > renewDeadline-time.Second })
		assert.Same(t, before, leader(all))

		before.client.is(func() { before.client.loses = true })
		await(t, renewDeadline+time.Second, all, func() bool { return !before.Leads() })
	})
}

// Leadership is proved as of the time at which the request was sent.
func TestProofIsThatOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		slow := start(t, s, "slow", func(o *Options) { o.Leases.(*client).answerIn = 3 * time.Second })
		await(t, 10*time.Second, []*replica{slow}, slow.Leads)
		deadline, _ := slow.Deadline()
		assert.Equal(t, s.now().Renewed.Add(renewDeadline), deadline)
		assert.Less(t, time.Until(deadline), renewDeadline-2*time.Second)
	})
}

// A process that was stopped while it waited for the answer, as if it took as long, never led.
func TestProofThatIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		stopped := start(t, s, "stopped", func(o *Options) { o.Leases.(*client).answerIn = renewDeadline + time.Second })
		time.Sleep(time.Minute)
		assert.Equal(t, "stopped", s.now().Holder)
		assert.False(t, stopped.Leads())
		stopped.mu.Lock()
		defer stopped.mu.Unlock()
		assert.Empty(t, stopped.leading)
	})
}

// Who stops while a write is not answered does not know that it holds the Lease, and releases it all the same.
func TestReleasedWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		r := start(t, s, "replica-0", func(o *Options) { o.Leases.(*client).loses = true })
		synctest.Wait()
		require.Equal(t, "replica-0", s.now().Holder)
		r.client.is(func() { r.client.loses = false })
		r.stop()
		assert.Empty(t, s.now().Holder)
	})
}

// A process that is started again does not continue the leadership of the one before.
func TestRestartedProcessWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		before := start(t, s, "replica-0_1")
		await(t, retryPeriod, []*replica{before}, before.Leads)
		before.client.is(func() { before.client.cut = true }) // as if killed
		again := start(t, s, "replica-0_2")
		took := await(t, longest, []*replica{before, again}, again.Leads)
		assert.Greater(t, took, leaseDuration)
	})
}

func TestReplicaThatIsNotReadyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		notReady := func(o *Options) { o.Ready = func() bool { return false } }
		one := start(t, s, "not-ready", notReady)
		await(t, leaseDuration+longest, []*replica{one}, one.Leads)
		one.client.is(func() { one.client.cut = true })

		unready, ready := start(t, s, "also-not-ready", notReady), start(t, s, "ready")
		both := []*replica{one, unready, ready}
		await(t, longest, both, func() bool { return unready.Leads() || ready.Leads() })
		assert.True(t, ready.Leads(), "the ready one leads")

		ready.client.is(func() { ready.client.cut = true })
		// It notices that the Lease is free up to 2.2 periods late.
		took := await(t, leaseDuration+longest+22*retryPeriod/10, both, unready.Leads)
		assert.Greater(t, took, 2*leaseDuration-renewDeadline, "if there is no other it waits, and then leads")
	})
}

// A replica that yields lets another one lead at once, and leads again later if there is no other.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		one := start(t, s, "replica-0")
		await(t, retryPeriod, []*replica{one}, one.Leads)
		two := start(t, s, "replica-1")
		both := []*replica{one, two}
		one.Yield()
		assert.False(t, one.Candidate())
		took := await(t, 44*retryPeriod/10, both, two.Leads)
		assert.Less(t, took, leaseDuration)

		two.Yield() // now none of them is to lead, and one does again
		took = await(t, 2*leaseDuration+44*retryPeriod/10, both, func() bool { return one.Leads() || two.Leads() })
		assert.Greater(t, took, leaseDuration)
	})
}

// A holder that asked for a longer duration has it, whatever the clock of its machine says.
func TestHolderWithAnotherConfigurationAndClock(t *testing.T) {
	for _, clock := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{version: 1, lease: kubeclient.Lease{Holder: "other", Duration: time.Minute, Renewed: time.Now().Add(clock), Transitions: 7}}
			r := start(t, s, "replica-0")
			took := await(t, time.Minute+44*retryPeriod/10, []*replica{r}, r.Leads)
			assert.Greater(t, took, time.Minute)
			assert.Equal(t, 8, s.now().Transitions)
		})
	}
}

// A Lease that somebody takes or deletes by hand ends the leadership or is created again.
func TestEditedByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		all := three(t, s)
		s.mu.Lock()
		s.version, s.lease = 0, kubeclient.Lease{}
		s.mu.Unlock()
		time.Sleep(3 * retryPeriod)
		require.NotNil(t, leader(all))

		holder := leader(all)
		s.mu.Lock()
		s.version++
		s.lease.Holder = "somebody"
		s.mu.Unlock()
		await(t, retryPeriod+10*time.Millisecond, all, func() bool { return !holder.Leads() })
		await(t, longest, all, func() bool { return leader(all) != nil })
	})
}

// A replica that finds that another one leads does not wait for its next renewal to read who holds the Lease. Otherwise the two
// would replace each other's terms until then.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		all := three(t, s)
		holder := leader(all)
		transitions := s.now().Transitions
		holder.Doubt()
		assert.False(t, holder.Leads())
		await(t, retryPeriod/10, all, holder.Leads)
		assert.Equal(t, transitions, s.now().Transitions, "it has held the Lease all the time")

		s.mu.Lock()
		s.version++
		s.lease.Holder = "somebody"
		s.mu.Unlock()
		holder.Doubt()
		assert.False(t, holder.Leads())
		time.Sleep(retryPeriod / 10)
		assert.False(t, holder.Leads())
		await(t, longest, all, func() bool { return leader(all) != nil })
	})
}

// What the API server refuses is reported with its reason.
func TestNoRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := apierrors.NewForbidden(leases, "lease", errors.New("no"))
		r := start(t, &store{}, "replica-0", func(o *Options) { o.Leases = failing{refused} })
		time.Sleep(time.Minute)
		assert.False(t, r.Leads())
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Len(t, r.errors, 1, "it is reported once")
		assert.True(t, apierrors.IsForbidden(r.errors[0]))
	})
}

type failing struct{ err error }

func (f failing) Get(context.Context) (kubeclient.Lease, error) { return kubeclient.Lease{}, f.err }
func (f failing) Put(context.Context, kubeclient.Lease) (kubeclient.Lease, error) {
	return kubeclient.Lease{}, f.err
}
