package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// item is a test item: a number, and the bytes that it counts for.
type item struct{ id, size int }

func items(from, to, size int) []item {
	var out []item
	for id := from; id < to; id++ {
		out = append(out, item{id, size})
	}
	return out
}

func ids(items []item) []int {
	out := make([]int, len(items))
	for i, it := range items {
		out[i] = it.id
	}
	return out
}

func numbers(from, to int) []int { return ids(items(from, to, 0)) }

var (
	errBusy = errors.New("busy")
	errBad  = consumererror.NewPermanent(errors.New("bad"))
)

// sink is the next consumer: it passes each try to consume and keeps the accepted items.
type sink struct {
	consume func(ctx context.Context, ids []int) error

	mu      sync.Mutex
	tries   [][]int
	batches [][]int
}

func (s *sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{MutatesData: true} }

func (s *sink) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	var got []int
	if logs.ResourceLogs().Len() == 1 {
		records := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
		for _, record := range records.All() {
			got = append(got, int(record.Body().Int()))
		}
	}
	// The consumer owns the logs and may do this.
	logs.ResourceLogs().RemoveIf(func(plog.ResourceLogs) bool { return true })

	s.mu.Lock()
	s.tries = append(s.tries, got)
	s.mu.Unlock()
	if s.consume != nil {
		if err := s.consume(ctx, got); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.batches = append(s.batches, got)
	s.mu.Unlock()
	return nil
}

func (s *sink) accepted() [][]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

func (s *sink) tried() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tries)
}

func build(items []item) plog.Logs {
	logs := plog.NewLogs()
	records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for _, it := range items {
		if it.id >= 0 {
			records.AppendEmpty().Body().SetInt(int64(it.id))
		}
	}
	return logs
}

// rig is a delivery to a sink, with everything that it reported.
type rig struct {
	*Delivery[item]
	sink *sink
	logs *observer.ObservedLogs

	offered  [][]int // the loop's, read when it has ended or is idle
	acked    [][]int // and this
	dropped  [][]int // and this
	order    []int   // and this: everything acknowledged or dropped
	again    []int   // and this: how many items were acknowledged at each call of AcceptedAgain
	reported []string

	retried  atomic.Int64
	bytes    atomic.Int64
	maxBytes atomic.Int64
}

// newRig fills in the options that o leaves out. An item with a negative id has no record.
func newRig(o Options[item], consume func(ctx context.Context, ids []int) error) *rig {
	core, logs := observer.New(zap.DebugLevel)
	r := &rig{sink: &sink{consume: consume}, logs: logs}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 5 * time.Second
	}
	o.Size = func(it item) int { return it.size }
	o.IsRecord = func(it item) bool { return it.id >= 0 }
	o.Describe = func(it item) string { return fmt.Sprintf("item %d", it.id) }
	o.Build = build
	o.Next = r.sink
	o.BeforeDeliver = func(_ context.Context, batch []item) { r.offered = append(r.offered, ids(batch)) }
	o.Accepted = func(items []item) { r.acked, r.order = append(r.acked, ids(items)), append(r.order, ids(items)...) }
	o.Dropped = func(items []item, _ error) {
		r.dropped, r.order = append(r.dropped, ids(items)), append(r.order, ids(items)...)
	}
	o.AcceptedAgain = func() { r.again = append(r.again, len(slices.Concat(r.acked...))) }
	o.Retried = func() { r.retried.Add(1) }
	o.Report = func(err error) {
		text := "well"
		if err != nil {
			text = err.Error()
		}
		r.reported = append(r.reported, text)
	}
	o.QueueBytes = func(delta int) {
		now := r.bytes.Add(int64(delta))
		for {
			most := r.maxBytes.Load()
			if now <= most || r.maxBytes.CompareAndSwap(most, now) {
				return
			}
		}
	}
	o.Logger = zap.New(core)
	r.Delivery = New(o)
	return r
}

// lines returns the log lines so far, without their fields.
func (r *rig) lines() []string {
	var lines []string
	for _, entry := range r.logs.All() {
		lines = append(lines, entry.Level.String()+" "+entry.Message)
	}
	return lines
}

const (
	logRefuses  = "warn next consumer does not accept records, trying again until it does"
	logDenies   = "warn next consumer refuses every record permanently, slowing down until it accepts one"
	logHangs    = "warn next consumer does not return"
	logAccepts  = "info next consumer accepts records again"
	logDrop     = "error next consumer refused records permanently, they are dropped"
	logMoreDrop = "error next consumer refused more records permanently, they are dropped"
)

func (r *rig) offer(t *testing.T, items ...item) {
	t.Helper()
	for _, it := range items {
		if !r.Offer(it) {
			t.Fatalf("there is no room for item %d", it.id)
		}
	}
}

// stop shuts down a delivery that can deliver everything it has left.
func (r *rig) stop(t *testing.T) {
	t.Helper()
	if err := r.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if n := r.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are still accounted for after Shutdown", n)
	}
}

// refuseWhile fails with err as long as refuse is set.
func refuseWhile(refuse *atomic.Bool, err error) func(context.Context, []int) error {
	refuse.Store(true)
	return func(context.Context, []int) error {
		if refuse.Load() {
			return err
		}
		return nil
	}
}

func wantBatches(t *testing.T, what string, got [][]int, want ...[]int) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestFlushByRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 3, BatchTimeout: time.Hour}, nil)
		r.Start()
		r.offer(t, items(0, 7, 1)...)
		synctest.Wait()
		wantBatches(t, "accepted", r.sink.accepted(), []int{0, 1, 2}, []int{3, 4, 5})
		r.stop(t)
		wantBatches(t, "accepted", r.sink.accepted(), []int{0, 1, 2}, []int{3, 4, 5}, []int{6})
		wantBatches(t, "acknowledged", r.acked, r.sink.accepted()...)
	})
}

func TestFlushByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxBytes: 100, BatchTimeout: time.Hour}, nil)
		r.Start()
		r.offer(t, item{0, 40}, item{1, 40})
		synctest.Wait()
		wantBatches(t, "accepted", r.sink.accepted())
		r.offer(t, item{2, 40}) // a batch of all three would be too large
		synctest.Wait()
		wantBatches(t, "accepted", r.sink.accepted(), []int{0, 1})
		r.offer(t, item{3, 500}) // travels alone
		synctest.Wait()
		wantBatches(t, "accepted", r.sink.accepted(), []int{0, 1}, []int{2}, []int{3})
		r.offer(t, item{4, 60}, item{5, 40})
		synctest.Wait()
		wantBatches(t, "accepted", r.sink.accepted(), []int{0, 1}, []int{2}, []int{3}, []int{4, 5})
		r.stop(t)
	})
}

func TestFlushByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 100, BatchTimeout: time.Second}, nil)
		r.Start()
		time.Sleep(10 * time.Second)
		r.offer(t, item{0, 1})
		time.Sleep(900 * time.Millisecond)
		r.offer(t, item{1, 1}) // does not postpone the flush
		time.Sleep(99 * time.Millisecond)
		wantBatches(t, "accepted", r.sink.accepted())
		time.Sleep(2 * time.Millisecond)
		wantBatches(t, "accepted", r.sink.accepted(), []int{0, 1})
		r.stop(t)
	})
}

// Items that waited while the consumer was busy do not wait for the timeout again.
func TestTimeoutCountsFromTheOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 2, BatchTimeout: 10 * time.Second},
			func(_ context.Context, ids []int) error {
				if ids[0] == 0 {
					time.Sleep(15 * time.Second)
				}
				return nil
			})
		r.Start()
		r.offer(t, item{0, 1}, item{1, 1}) // full: the consumer is busy now
		time.Sleep(2 * time.Second)
		r.offer(t, item{2, 1})
		time.Sleep(13*time.Second + time.Millisecond)
		wantBatches(t, "accepted", r.sink.accepted(), []int{0, 1}, []int{2})
		r.stop(t)
	})
}

func TestWithoutBatchTimeoutNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 100}, nil)
		r.Start()
		r.offer(t, item{0, 1})
		synctest.Wait()
		wantBatches(t, "accepted", r.sink.accepted(), []int{0})
		r.stop(t)
	})
}

func TestItemsOfferedBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 10, BatchTimeout: time.Second}, nil)
		r.offer(t, items(0, 4, 1)...)
		r.Start()
		time.Sleep(2 * time.Second)
		wantBatches(t, "accepted", r.sink.accepted(), numbers(0, 4))
		r.stop(t)
	})
}

func TestRetryKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 7))
		var current []int
		var r *rig
		r = newRig(Options[item]{BatchMaxRecords: 7, BatchTimeout: time.Second},
			func(_ context.Context, ids []int) error {
				if n := len(r.offered); n == 0 || !slices.Equal(r.offered[n-1], ids) {
					t.Errorf("got %v, and announced before was %v", ids, r.offered)
				}
				// A refused batch is repeated unchanged before anything else.
				if current != nil && !slices.Equal(current, ids) {
					t.Errorf("got %v while %v was not accepted", ids, current)
				}
				if current = ids; rng.IntN(3) > 0 {
					return fmt.Errorf("refused: %w", errBusy)
				}
				current = nil
				return nil
			})
		r.Start()
		for id := range 200 {
			r.offer(t, item{id, 1})
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := slices.Concat(r.sink.accepted()...); !slices.Equal(got, numbers(0, 200)) {
			t.Errorf("accepted %v", got)
		}
		wantBatches(t, "acknowledged", r.acked, r.sink.accepted()...)
		wantBatches(t, "announced", r.offered, r.sink.accepted()...)
		if r.retried.Load() == 0 || int(r.retried.Load()) != r.sink.tried()-len(r.sink.accepted()) {
			t.Errorf("%d retries reported, %d tries, %d accepted", r.retried.Load(), r.sink.tried(), len(r.sink.accepted()))
		}
		wantBatches(t, "dropped", r.dropped)
		r.stop(t)
	})
}

// During five minutes of refusal, the pauses grow to at most half a minute.
func TestRetryPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		var refuse atomic.Bool
		refuse.Store(true)
		r := newRig(Options[item]{BatchMaxRecords: 1}, func(context.Context, []int) error {
			at = append(at, time.Now())
			if refuse.Load() {
				return errBusy
			}
			return nil
		})
		begin := time.Now()
		r.Start()
		r.offer(t, item{0, 1})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		refuse.Store(false)
		time.Sleep(46 * time.Second)
		synctest.Wait()
		if first := at[0].Sub(begin); first != 0 {
			t.Errorf("the first try came after %v", first)
		}
		for i := 1; i < len(at); i++ {
			if pause := at[i].Sub(at[i-1]); pause < retryFirst/2 || pause > retryMax*3/2 {
				t.Errorf("pause %d was %v", i, pause)
			}
		}
		if n := len(at); n < 12 || n > 60 {
			t.Errorf("%d tries in five minutes", n)
		}
		wantBatches(t, "accepted", r.sink.accepted(), []int{0})

		r.stop(t)
	})
}

// The sink empties the logs that it receives, at every try.
func TestConsumerThatMutates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := newRig(Options[item]{BatchMaxRecords: 3}, func(context.Context, []int) error {
			if tries++; tries < 4 {
				return errBusy
			}
			return nil
		})
		r.offer(t, items(0, 3, 1)...)
		r.Start()
		time.Sleep(time.Minute)
		synctest.Wait()
		wantBatches(t, "tried", r.sink.tries, numbers(0, 3), numbers(0, 3), numbers(0, 3), numbers(0, 3))
		r.stop(t)
	})
}

func TestBoundWithBlockedConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(Options[item]{MaxBytes: 1000, BatchMaxRecords: 5}, func(context.Context, []int) error {
			<-release
			return nil
		})
		r.Start()
		r.offer(t, items(0, 5, 100)...)
		synctest.Wait() // five are in flight, and count
		r.offer(t, items(5, 10, 100)...)
		for range 100 {
			if r.Offer(item{99, 1}) {
				t.Fatal("an item was accepted by a full queue")
			}
		}
		time.Sleep(5 * time.Minute)
		if r.Offer(item{99, 1}) {
			t.Fatal("an item was accepted by a full queue")
		}
		if most := r.maxBytes.Load(); most != 1000 {
			t.Errorf("at most %d bytes were held, want 1000", most)
		}
		close(release)
		synctest.Wait()
		r.offer(t, item{10, 1000})
		r.stop(t)
		if got := slices.Concat(r.sink.accepted()...); !slices.Equal(got, numbers(0, 11)) {
			t.Errorf("accepted %v", got)
		}
	})
}

// What is appended to a full queue is delivered behind everything else, and counts.
func TestAppendToAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		r := newRig(Options[item]{MaxBytes: 1000, BatchMaxRecords: 5}, func(context.Context, []int) error {
			<-block
			return nil
		})
		r.Start()
		r.offer(t, items(0, 10, 100)...)
		r.Append(item{-1, 50})
		if held := r.bytes.Load(); held != 1050 {
			t.Errorf("%d bytes are held, want 1050", held)
		}
		close(block)
		synctest.Wait()
		r.offer(t, item{10, 100})
		r.stop(t)
		r.Append(item{-2, 50})
		if held := r.bytes.Load(); held != 0 {
			t.Errorf("%d bytes are held after Shutdown", held)
		}
		if want := append(numbers(0, 10), -1, 10); !slices.Equal(r.order, want) {
			t.Errorf("accepted %v, want %v", r.order, want)
		}
	})
}

// An item that does not fit beside others, or not at all, is accepted once WaitForRoom has returned.
func TestLargeItems(t *testing.T) {
	for _, size := range []int{700, 1000, 5000} {
		synctest.Test(t, func(t *testing.T) {
			block := make(chan struct{})
			r := newRig(Options[item]{MaxBytes: 1000, BatchMaxRecords: 1}, func(context.Context, []int) error {
				<-block
				return nil
			})
			r.Start()
			r.offer(t, item{0, 200}, item{1, 400})
			if r.Offer(item{2, size}) {
				t.Errorf("an item of %d was accepted beside 600 bytes", size)
			}
			block <- struct{}{}
			if err := r.WaitForRoom(t.Context()); err != nil {
				t.Error(err)
			}
			r.offer(t, item{2, size})
			if r.Offer(item{3, 1}) && size > 600 {
				t.Errorf("an item was accepted beside one of %d", size)
			}
			close(block)
			r.stop(t)
		})
	}
}

func TestWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		r := newRig(Options[item]{MaxBytes: 1000, BatchMaxRecords: 1}, func(context.Context, []int) error {
			<-step
			return nil
		})
		r.Start()
		if err := r.WaitForRoom(t.Context()); err != nil {
			t.Errorf("empty: %v", err)
		}
		r.offer(t, items(0, 10, 100)...)

		var woken atomic.Int32
		for range 3 {
			go func() {
				if err := r.WaitForRoom(t.Context()); err != nil {
					t.Error(err)
				}
				woken.Add(1)
			}()
		}
		for range 4 {
			step <- struct{}{}
			synctest.Wait()
			if n := woken.Load(); n != 0 {
				t.Fatalf("%d were woken above the low-water mark", n)
			}
		}
		step <- struct{}{} // 500 left
		synctest.Wait()
		if n := woken.Load(); n != 3 {
			t.Errorf("%d were woken at the low-water mark, want 3", n)
		}

		r.offer(t, item{10, 100})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.WaitForRoom(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its deadline: %v", err)
		}

		closed := make(chan error)
		go func() { closed <- r.WaitForRoom(t.Context()) }()
		synctest.Wait()
		close(step)
		go r.stop(t)
		// Both are true: there is room now, and there will be none.
		if err := <-closed; err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("at shutdown: %v", err)
		}
		synctest.Wait()
		if err := r.WaitForRoom(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after shutdown: %v", err)
		}
		if r.Offer(item{11, 1}) {
			t.Error("an item was accepted after shutdown")
		}
	})
}

func TestWaitForRoomEndsAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{MaxBytes: 100, BatchMaxRecords: 1}, func(context.Context, []int) error { return errBusy })
		r.Start()
		r.offer(t, item{0, 100})
		closed := make(chan error, 1)
		go func() { closed <- r.WaitForRoom(context.Background()) }()
		synctest.Wait()
		go func() { _ = r.Shutdown(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-closed:
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		default:
			t.Error("WaitForRoom still waits while Shutdown drains")
		}
		time.Sleep(time.Minute)
	})
}

// Producers that wait for room lose nothing, and keep their order. In real time, for the race detector.
func TestManyProducers(t *testing.T) {
	const producers, each = 8, 2000
	var refused atomic.Int64
	most := 0
	r := newRig(Options[item]{MaxBytes: 4000, BatchMaxRecords: 50, BatchMaxBytes: 1000, BatchTimeout: time.Millisecond}, nil)
	r.Start()
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				for !r.Offer(item{p*each + i, 10 + i%90}) {
					refused.Add(1)
					if err := r.WaitForRoom(context.Background()); err != nil {
						t.Error(err)
						return
					}
				}
				r.mu.Lock()
				most = max(most, r.queued+r.inflight)
				r.mu.Unlock()
			}
		})
	}
	wg.Wait()
	r.stop(t)

	last := make([]int, producers)
	for _, id := range slices.Concat(r.sink.accepted()...) {
		if p, i := id/each, id%each; i != last[p] {
			t.Fatalf("producer %d: got its item %d, want %d", p, i, last[p])
		}
		last[id/each]++
	}
	for p, n := range last {
		if n != each {
			t.Errorf("producer %d: %d of %d items came", p, n, each)
		}
	}
	if most > 4000 {
		t.Errorf("at most %d bytes were held, want no more than 4000", most)
	}
	t.Logf("%d offers were refused, %d batches", refused.Load(), len(r.sink.accepted()))
}

// Only an occasional block of the queue is allocated.
func TestOfferDoesNotAllocate(t *testing.T) {
	r := newRig(Options[item]{MaxBytes: 1 << 30, BatchTimeout: time.Hour}, nil)
	defer func() { _ = r.Shutdown(context.Background()) }()
	if allocs := testing.AllocsPerRun(100, func() {
		for id := range blockLen {
			r.Offer(item{id, 1})
		}
	}); allocs > 1 {
		t.Errorf("%d offers allocate %v times", blockLen, allocs)
	}
}

func TestPanicIsNotSwallowed(t *testing.T) {
	r := newRig(Options[item]{BatchMaxRecords: 1}, func(context.Context, []int) error { panic("consumer panics") })
	r.offer(t, item{0, 1})
	defer func() {
		if got := recover(); got != "consumer panics" {
			t.Errorf("recovered %v", got)
		}
		if len(r.acked) != 0 {
			t.Error("the batch was acknowledged")
		}
	}()
	r.run() // Start runs this in its goroutine
}

func TestShutdownDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := newRig(Options[item]{BatchMaxRecords: 3, BatchTimeout: time.Hour, DrainTimeout: time.Minute},
			func(context.Context, []int) error {
				if tries++; tries%2 == 1 {
					return errBusy
				}
				time.Sleep(time.Second)
				return nil
			})
		r.Start()
		r.offer(t, items(0, 8, 1)...)
		r.stop(t)
		wantBatches(t, "accepted", r.sink.accepted(), numbers(0, 3), numbers(3, 6), numbers(6, 8))
		wantBatches(t, "acknowledged", r.acked, r.sink.accepted()...)
		if err := r.Shutdown(context.Background()); err != nil {
			t.Errorf("second Shutdown: %v", err)
		}
	})
}

func TestShutdownOfIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 3, BatchTimeout: time.Hour}, nil)
		r.Start()
		synctest.Wait()
		begin := time.Now()
		r.stop(t)
		if took := time.Since(begin); took != 0 {
			t.Errorf("Shutdown took %v", took)
		}
	})
}

func TestShutdownWithoutDelivery(t *testing.T) {
	honours := func(ctx context.Context, _ []int) error {
		<-ctx.Done()
		return ctx.Err()
	}
	refuses := func(context.Context, []int) error { return errBusy }
	for _, tt := range []struct {
		name    string
		consume func(context.Context, []int) error
		drain   time.Duration
		ctx     time.Duration // 0: no deadline
		took    time.Duration
		want    error
	}{
		{"drain timeout, blocked", honours, 5 * time.Second, 0, 5 * time.Second, errDrainTimeout},
		{"drain timeout, refused", refuses, 5 * time.Second, 0, 5 * time.Second, errDrainTimeout},
		{"drain timeout is first", honours, 5 * time.Second, time.Minute, 5 * time.Second, errDrainTimeout},
		{"context is first", honours, time.Minute, 3 * time.Second, 3 * time.Second, context.DeadlineExceeded},
		{"context is first, refused", refuses, time.Minute, 3 * time.Second, 3 * time.Second, context.DeadlineExceeded},
		// A consumer that marks its context's end as permanent has not refused the records.
		{"permanent by context", func(ctx context.Context, _ []int) error {
			<-ctx.Done()
			return consumererror.NewPermanent(ctx.Err())
		}, 5 * time.Second, 0, 5 * time.Second, errDrainTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(Options[item]{BatchMaxRecords: 3, DrainTimeout: tt.drain}, tt.consume)
				r.Start()
				r.offer(t, items(0, 8, 1)...)
				ctx := context.Background()
				if tt.ctx > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.ctx)
					defer cancel()
				}
				begin := time.Now()
				err := r.Shutdown(ctx)
				if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "cannot deliver 8 records before shutdown: ") {
					t.Errorf("Shutdown: %v", err)
				}
				if took := time.Since(begin); took != tt.took {
					t.Errorf("Shutdown took %v, want %v", took, tt.took)
				}
				if len(r.acked) != 0 || len(r.dropped) != 0 || r.bytes.Load() != 0 {
					t.Errorf("acknowledged %v, dropped %v, %d bytes held", r.acked, r.dropped, r.bytes.Load())
				}
			})
		})
	}
}

// A batch accepted at the last moment counts, and no other follows it.
func TestShutdownWhenTheConsumerAcceptsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 3, DrainTimeout: 5 * time.Second}, func(ctx context.Context, _ []int) error {
			<-ctx.Done()
			return nil
		})
		r.offer(t, items(0, 8, 1)...)
		r.Start()
		err := r.Shutdown(context.Background())
		if err == nil || !strings.Contains(err.Error(), "5 records") {
			t.Errorf("Shutdown: %v", err)
		}
		wantBatches(t, "tried", r.sink.tries, numbers(0, 3))
		wantBatches(t, "acknowledged", r.acked, numbers(0, 3))
	})
}

// The consumer accepts one batch, then ignores its context for an hour.
func TestShutdownWithConsumerThatIgnoresContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := newRig(Options[item]{BatchMaxRecords: 3, DrainTimeout: 5 * time.Second}, func(_ context.Context, ids []int) error {
			if calls.Add(1); ids[0] > 0 {
				time.Sleep(time.Hour)
			}
			return nil
		})
		r.offer(t, items(0, 8, 1)...)
		r.Start()
		begin := time.Now()
		err := r.Shutdown(context.Background())
		if took := time.Since(begin); took != 5*time.Second+shutdownGrace {
			t.Errorf("Shutdown took %v", took)
		}
		if !errors.Is(err, errIgnoresCtx) || !errors.Is(err, errDrainTimeout) || !strings.Contains(err.Error(), "5 records") {
			t.Errorf("Shutdown: %v", err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		// It accepted a batch too late that was counted as not delivered: that is not reported, and nothing follows.
		wantBatches(t, "acknowledged", r.acked, numbers(0, 3))
		if calls.Load() != 2 || r.bytes.Load() != 0 {
			t.Errorf("%d calls, %d bytes held", calls.Load(), r.bytes.Load())
		}
	})
}

func TestShutdownWithoutStart(t *testing.T) {
	r := newRig(Options[item]{BatchMaxRecords: 3}, nil)
	r.offer(t, items(0, 2, 1)...)
	if err := r.Shutdown(context.Background()); !errors.Is(err, errNotStarted) {
		t.Errorf("Shutdown: %v", err)
	}
	r.Start() // too late, and harmless

	r = newRig(Options[item]{BatchMaxRecords: 3}, nil)
	r.stop(t)
}
