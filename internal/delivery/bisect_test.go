package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// refusePoison refuses any batch that contains one of these.
func refusePoison(poison ...int) func(context.Context, []int) error {
	return func(_ context.Context, ids []int) error {
		for _, id := range ids {
			if slices.Contains(poison, id) {
				return fmt.Errorf("cannot export: %w", errBad)
			}
		}
		return nil
	}
}

func without(ids []int, out ...int) []int {
	return slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return slices.Contains(out, id) })
}

func TestPoisonRecordCostsOnlyItself(t *testing.T) {
	const n = 100
	for poison := range n {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(Options[item]{BatchMaxRecords: n}, refusePoison(poison))
			r.offer(t, items(0, n, 1)...)
			r.Start()
			synctest.Wait()
			if got, want := slices.Concat(r.sink.accepted()...), without(numbers(0, n), poison); !slices.Equal(got, want) {
				t.Errorf("accepted %v", got)
			}
			wantBatches(t, "acknowledged", r.acked, r.sink.accepted()...)
			wantBatches(t, "dropped", r.dropped, []int{poison})
			wantBatches(t, "announced", r.offered, numbers(0, n))
			if calls, most := r.sink.tried(), 2*bits.Len(n)+1; calls > most {
				t.Errorf("%d calls, want at most %d", calls, most)
			}
			if n := r.bytes.Load(); n != 0 {
				t.Errorf("%d bytes are still accounted for", n)
			}
			r.stop(t)
		})
	}
}

// By the Collector's contract, a permanently refused batch is never sent again unchanged.
func TestRefusedBatchIsNeverResentUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 10}, refusePoison(3, 4, 11))
		// Items without a record surround the refused ones.
		for id := range 20 {
			r.offer(t, item{-1, 1}, item{id, 1}, item{-1, 1})
		}
		r.Start()
		synctest.Wait()
		seen := map[string]bool{}
		for _, try := range r.sink.tries {
			if seen[fmt.Sprint(try)] {
				t.Errorf("%v was sent again", try)
			}
			seen[fmt.Sprint(try)] = true
		}
		if got := slices.Concat(r.sink.accepted()...); !slices.Equal(got, without(numbers(0, 20), 3, 4, 11)) {
			t.Errorf("accepted %v", got)
		}
		r.stop(t)
	})
}

func TestItemsWithoutRecordsAreNeverDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 7}, refusePoison(0, 2))
		for _, id := range []int{-10, 0, -11, 1, -12, 2, -13} {
			r.offer(t, item{id, 1})
		}
		r.Start()
		synctest.Wait()
		wantBatches(t, "dropped", r.dropped, []int{0}, []int{2})
		if got := slices.Concat(r.acked...); !slices.Equal(got, []int{-10, -11, 1, -12, -13}) {
			t.Errorf("acknowledged %v", got)
		}
		// Items behind a dropped record are acknowledged after it.
		if slices.Index(r.order, 0) > slices.Index(r.order, -11) || slices.Index(r.order, 2) > slices.Index(r.order, -13) {
			t.Errorf("reported in the order %v", r.order)
		}
		r.stop(t)
	})
}

// They prove nothing about the consumer, since it does not receive them.
func TestItemsWithoutRecordsDoNotEndADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 1}, func(context.Context, []int) error { return errBad })
		for id := range 10 * maxDenials {
			r.offer(t, item{id, 1}, item{-1, 1})
		}
		r.Start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := r.sink.tried(); n < maxDenials || n > maxDenials+20 {
			t.Errorf("%d calls in a minute", n)
		}
		time.Sleep(7 * time.Minute)
		wantLines(t, r, logDrop, logDenies)
		_ = r.Shutdown(t.Context()) // it fails because of the denied records
	})
}

func TestItemsWithoutRecordsNeedNoConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 2}, refusePoison(0))
		r.offer(t, item{0, 1}, item{-1, 1}, item{-2, 1}, item{-3, 1})
		r.Start()
		synctest.Wait()
		if r.sink.tried() != 1 || len(r.again) != 0 {
			t.Errorf("%d calls, AcceptedAgain called at %v", r.sink.tried(), r.again)
		}
		if got := slices.Concat(r.acked...); !slices.Equal(got, []int{-1, -2, -3}) {
			t.Errorf("acknowledged %v", got)
		}
		r.stop(t)
	})
}

// The producer is informed of a drop before any later item is reported as accepted.
func TestDropIsReportedBeforeLaterItemsAreAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []int
		r := newRig(Options[item]{BatchMaxRecords: 16}, refusePoison(0, 5, 6, 15))
		r.Accepted = func(items []item) { reported = append(reported, ids(items)...) }
		r.Dropped = func(items []item, err error) {
			if !errors.Is(err, errBad) {
				t.Errorf("dropped with %v", err)
			}
			reported = append(reported, ids(items)...)
		}
		r.offer(t, items(0, 32, 1)...)
		r.Start()
		synctest.Wait()
		if !slices.Equal(reported, numbers(0, 32)) {
			t.Errorf("reported in the order %v", reported)
		}
		r.stop(t)
	})
}

func TestAcceptedAgainFollowsTheFirstAcceptedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 4}, refusePoison(1, 4, 5, 6, 7, 8))
		r.offer(t, items(0, 16, 1)...)
		r.Start()
		time.Sleep(time.Hour)
		synctest.Wait()
		// After 0, drop 1; 2 and 3 follow. Then 4 to 8 are dropped, and 9 is alone in its half.
		if !slices.Equal(r.again, []int{3, 4}) {
			t.Errorf("AcceptedAgain was called after %v acknowledged items, want after 3 and 4", r.again)
		}
		r.stop(t)
	})
}

// The second half waits while the first is refused temporarily.
func TestHalvesAreRetriedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy bool
		poison := refusePoison(2)
		r := newRig(Options[item]{BatchMaxRecords: 8}, func(ctx context.Context, ids []int) error {
			if err := poison(ctx, ids); err != nil {
				return err
			}
			if busy = !busy; busy {
				return errBusy
			}
			return nil
		})
		r.offer(t, items(0, 8, 1)...)
		r.Start()
		time.Sleep(time.Minute)
		synctest.Wait()
		wantBatches(t, "tried", r.sink.tries, numbers(0, 8), numbers(0, 4), numbers(0, 2), numbers(0, 2), numbers(2, 4),
			[]int{2}, []int{3}, []int{3}, numbers(4, 8), numbers(4, 8))
		r.stop(t)
	})
}

// Accepted or dropped items free their space at once, while the rest of the batch is still retried.
func TestAcceptedHalfMakesSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		poison := refusePoison(5)
		r := newRig(Options[item]{MaxBytes: 1000, BatchMaxRecords: 8}, func(ctx context.Context, ids []int) error {
			if slices.Contains(ids, 7) && !slices.Contains(ids, 5) {
				return errBusy
			}
			return poison(ctx, ids)
		})
		r.offer(t, items(0, 8, 125)...)
		r.Start()
		synctest.Wait()
		if n := r.bytes.Load(); n != 250 {
			t.Errorf("%d bytes are accounted for, want those of the two that are retried", n)
		}
		if err := r.WaitForRoom(t.Context()); err != nil {
			t.Error(err)
		}
		for i, it := range r.batch { // which is held until all of it is accepted or dropped
			if i < 6 && it != (item{}) {
				t.Errorf("item %d is still held", i)
			}
		}
		err := r.Shutdown(t.Context())
		if err == nil || err.Error() != "cannot deliver 2 records before shutdown: "+errDrainTimeout.Error() {
			t.Errorf("Shutdown: %v", err)
		}
		if n := r.bytes.Load(); n != 0 {
			t.Errorf("%d bytes are still accounted for after Shutdown", n)
		}
	})
}

// A consumer that refuses everything permanently is not called for each record, and gets fewer and fewer batches. When
// it accepts again, no record that it had not received is lost.
func TestConsumerThatDeniesEverythingIsNotHammered(t *testing.T) {
	for _, batch := range []int{1, 10, 200} {
		synctest.Test(t, func(t *testing.T) {
			var denies atomic.Bool
			r := newRig(Options[item]{MaxBytes: 1 << 30, BatchMaxRecords: batch}, refuseWhile(&denies, errBad))
			r.Start()
			offered := 0
			for range 360 {
				r.offer(t, items(offered, offered+batch, 1)...)
				offered += batch
				time.Sleep(10 * time.Second)
			}
			synctest.Wait()
			calls := r.sink.tried()
			// A batch comes every 15 to 45 seconds, and needs no more calls than this.
			first, each := 2*maxDenials+3*bits.Len(uint(batch)), 2*bits.Len(uint(batch))
			if most := first + maxDenials + 3600/15*each; calls > most {
				t.Errorf("batches of %d: %d calls in an hour, want at most %d", batch, calls, most)
			}
			if calls < 3600/45 {
				t.Errorf("batches of %d: only %d calls in an hour", batch, calls)
			}
			denies.Store(false)
			time.Sleep(time.Minute)
			synctest.Wait()
			dropped, accepted := slices.Concat(r.dropped...), slices.Concat(r.sink.accepted()...)
			if got := slices.Concat(dropped, accepted); !slices.Equal(got, numbers(0, offered)) {
				t.Errorf("batches of %d: dropped %d and accepted %d of %d, or not in order", batch, len(dropped), len(accepted), offered)
			}
			if len(r.again) != 1 {
				t.Errorf("AcceptedAgain was called at %v", r.again)
			}
			r.stop(t)
		})
	}
}

// The first batch after a denial has a poison record: it costs only itself again.
func TestPoisonRecordAfterADenialCostsOnlyItself(t *testing.T) {
	for _, poison := range []int{1000, 1001, 1050, 1099} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(Options[item]{BatchMaxRecords: 100}, func(_ context.Context, ids []int) error {
				if ids[0] < 1000 || slices.Contains(ids, poison) {
					return errBad
				}
				return nil
			})
			r.offer(t, items(0, 1100, 1)...)
			r.Start()
			time.Sleep(time.Hour)
			synctest.Wait()
			if got := slices.Concat(r.sink.accepted()...); !slices.Equal(got, without(numbers(1000, 1100), poison)) {
				t.Errorf("with %d refused, accepted %v", poison, got)
			}
			r.stop(t)
		})
	}
}

// Random verdicts: some records are always refused, some tries are refused temporarily, and the rest is accepted.
// Nothing else is lost, order is kept, and each refused record is reported once.
func TestRandomVerdicts(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rng, verdicts := rand.New(rand.NewPCG(seed, 9)), rand.New(rand.NewPCG(seed, 10))
			n, poisonIn, busyIn := 1+rng.IntN(400), 2+rng.IntN(60), 2+rng.IntN(8)
			poison := map[int]bool{}
			var want []item
			inRow := 0
			for id := range n {
				it := item{id, 1 + rng.IntN(300)}
				switch {
				case rng.IntN(5) == 0:
					it.id = -1 - id // no record
				case rng.IntN(poisonIn) == 0 && inRow < maxDenials-1:
					poison[id] = true
					inRow++
				default:
					inRow = 0
				}
				want = append(want, it)
			}
			refuse := func(_ context.Context, ids []int) error {
				if verdicts.IntN(busyIn) == 0 {
					return errors.Join(errBad, errBusy) // transient, since one of two consumers may accept it later
				}
				for _, id := range ids {
					if poison[id] {
						return errBad
					}
				}
				return nil
			}
			r := newRig(Options[item]{
				MaxBytes:        2000,
				BatchMaxRecords: rng.IntN(50),
				BatchMaxBytes:   rng.IntN(2) * 500,
				BatchTimeout:    time.Duration(rng.IntN(3)) * time.Second,
				DrainTimeout:    time.Hour,
			}, refuse)
			var reported []int
			r.Accepted = func(items []item) { reported = append(reported, ids(items)...) }
			r.Dropped = func(items []item, _ error) {
				for _, it := range items {
					if !poison[it.id] {
						t.Errorf("seed %d: %d was dropped although it was never refused alone", seed, it.id)
					}
				}
				reported = append(reported, ids(items)...)
			}
			r.Start()
			for _, it := range want {
				for !r.Offer(it) {
					if err := r.WaitForRoom(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if rng.IntN(10) == 0 {
					time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
				}
			}
			r.stop(t)

			// An item without a record may be acknowledged after a drop behind it.
			records := func(ids []int) []int {
				return slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return id < 0 })
			}
			if got, want := records(reported), records(ids(want)); !slices.Equal(got, want) {
				t.Errorf("seed %d: reported %v, want %v", seed, got, want)
			}
			all := ids(want)
			slices.Sort(reported)
			slices.Sort(all)
			if !slices.Equal(reported, all) {
				t.Errorf("seed %d: %d items were reported, want %d", seed, len(reported), len(all))
			}
			accepted := slices.Concat(r.sink.accepted()...)
			if !slices.IsSorted(accepted) || slices.ContainsFunc(accepted, func(id int) bool { return poison[id] }) {
				t.Errorf("seed %d: accepted %v", seed, accepted)
			}
			if r.maxBytes.Load() > 2000 {
				t.Errorf("seed %d: at most %d bytes were held", seed, r.maxBytes.Load())
			}
		})
	}
}
