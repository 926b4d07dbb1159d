package delivery

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// script answers each call with the next verdict, repeating the last one, and records the times of the calls.
type script struct {
	verdicts []error
	at       []time.Time
}

func (s *script) consume(context.Context, []int) error {
	s.at = append(s.at, time.Now())
	return s.verdicts[min(len(s.at), len(s.verdicts))-1]
}

// pause returns the time between a call and the next one.
func (s *script) pause(call int) time.Duration { return s.at[call+1].Sub(s.at[call]) }

func repeat(err error, n int) []error {
	all := make([]error, n)
	for i := range all {
		all[i] = err
	}
	return all
}

func TestPausesRestartAfterEachVerdict(t *testing.T) {
	for _, verdict := range []error{nil, errBad} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{verdicts: append(append(repeat(errBusy, 12), verdict), errBusy, nil)}
			r := newRig(Options[item]{BatchMaxRecords: 1}, s.consume)
			r.offer(t, items(0, 2, 1)...)
			r.Start()
			time.Sleep(time.Hour)
			synctest.Wait()
			if grown := s.pause(10); grown < retryMax/2 {
				t.Errorf("after %v: the pauses have grown to %v only", verdict, grown)
			}
			if first := s.pause(13); first > retryFirst*3/2 {
				t.Errorf("after %v: the first pause is %v", verdict, first)
			}
			r.stop(t)
		})
	}
}

// Shutdown ends a long pause, and if the consumer still refuses, the next pauses are short ones.
func TestPausesRestartAtShutdown(t *testing.T) {
	t.Run("refused temporarily", func(t *testing.T) { testPausesAtShutdown(t, errBusy) })
	t.Run("every record refused permanently", func(t *testing.T) { testPausesAtShutdown(t, errBad) })
}

func testPausesAtShutdown(t *testing.T, refusal error) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{verdicts: repeat(refusal, 1)}
		r := newRig(Options[item]{BatchMaxRecords: 1, DrainTimeout: 10 * time.Second}, s.consume)
		r.Start()
		if refusal == errBusy {
			r.offer(t, item{0, 1})
		} else {
			r.offer(t, items(0, maxDenials+200, 1)...)
		}
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		before, begin := len(s.at), time.Now()
		s.verdicts = append(repeat(refusal, before+4), nil)
		r.stop(t)
		if len(s.at) < before+5 {
			t.Fatalf("%d tries during Shutdown, want at least 5", len(s.at)-before)
		}
		if took := s.at[before].Sub(begin); took != 0 {
			t.Errorf("the first try of Shutdown came after %v", took)
		}
		for i, longest := before, retryFirst*3/2; i < before+4; i, longest = i+1, 2*longest {
			if pause := s.pause(i); pause == 0 || pause > longest {
				t.Errorf("pause %d of Shutdown was %v, want at most %v and not none", i-before, pause, longest)
			}
		}
		if took := time.Since(begin); took != s.at[before+4].Sub(begin) {
			t.Errorf("Shutdown took %v, longer than until the consumer accepted", took)
		}
	})
}

// Each period of denial begins with small pauses, and they grow.
func TestPausesOfADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const denied = maxDenials + 15
		s := &script{verdicts: append(append(append(repeat(errBad, denied), nil), repeat(errBad, denied)...), nil)}
		r := newRig(Options[item]{BatchMaxRecords: 1}, s.consume)
		r.offer(t, items(0, 2*denied+2, 1)...)
		r.Start()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for _, begin := range []int{0, denied + 1} {
			for i := begin; i < begin+maxDenials-1; i++ {
				if pause := s.pause(i); pause != 0 {
					t.Fatalf("a pause of %v after %d drops", pause, i-begin+1)
				}
			}
			if first := s.pause(begin + maxDenials - 1); first == 0 || first > retryFirst*3/2 {
				t.Errorf("the first pause is %v", first)
			}
			if last := s.pause(begin + denied - 1); last < retryMax/2 || last > retryMax*3/2 {
				t.Errorf("the pauses have grown to %v", last)
			}
			if accepted := s.at; len(accepted) != 2*denied+2 {
				t.Fatalf("%d calls", len(accepted))
			}
		}
		r.stop(t)
	})
}

// A long pause, for whatever reason, does not prevent Shutdown from delivering what the consumer would accept by now.
func TestShutdownEndsALongPause(t *testing.T) {
	for name, tt := range map[string]struct {
		refusal      error
		batch, items int
		pending      []int // when Shutdown begins
	}{
		"refused temporarily":              {errBusy, 3, 3, numbers(0, 3)},
		"every record refused permanently": {errBad, 1, 1000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refuse atomic.Bool
				r := newRig(Options[item]{BatchMaxRecords: tt.batch, DrainTimeout: time.Second}, refuseWhile(&refuse, tt.refusal))
				r.offer(t, items(0, tt.items, 1)...)
				r.Start()
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				refuse.Store(false)
				begin := time.Now()
				r.stop(t)
				if took := time.Since(begin); took != 0 {
					t.Errorf("Shutdown took %v", took)
				}
				if tt.pending != nil {
					wantBatches(t, "accepted", r.sink.accepted(), tt.pending)
				}
			})
		})
	}
}

// Whatever hangs, Shutdown returns, and so does each further call of it.
func TestShutdownHonoursItsContext(t *testing.T) {
	hang := func() { time.Sleep(time.Hour) }
	for name, build := range map[string]func(*Options[item]) func(context.Context, []int) error{
		"consumer hangs": func(*Options[item]) func(context.Context, []int) error {
			return func(context.Context, []int) error { hang(); return nil }
		},
		"consumer hangs and refuses": func(*Options[item]) func(context.Context, []int) error {
			return func(context.Context, []int) error { hang(); return errBad }
		},
		"consumer hangs, then is busy": func(*Options[item]) func(context.Context, []int) error {
			return func(context.Context, []int) error { hang(); return errBusy }
		},
		"storage hangs before the delivery": func(o *Options[item]) func(context.Context, []int) error {
			o.BeforeDeliver = func(context.Context, []item) { hang() }
			return nil
		},
		"storage hangs after it": func(o *Options[item]) func(context.Context, []int) error {
			o.Accepted = func([]item) { hang() }
			return nil
		},
		"producer hangs": func(o *Options[item]) func(context.Context, []int) error {
			o.Dropped = func([]item, error) { hang() }
			return func(context.Context, []int) error { return errBad }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o Options[item]
				consume := build(&o)
				r := newRig(Options[item]{BatchMaxRecords: 1, DrainTimeout: 24 * time.Hour}, consume)
				if o.BeforeDeliver != nil {
					r.BeforeDeliver = o.BeforeDeliver
				}
				if o.Accepted != nil {
					r.Accepted = o.Accepted
				}
				if o.Dropped != nil {
					r.Dropped = o.Dropped
				}
				r.offer(t, items(0, 3, 1)...)
				r.Start()
				synctest.Wait()
				begin := time.Now()
				done := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					done <- r.Shutdown(ctx)
				}()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if err := r.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("second Shutdown: %v", err)
				}
				if took := time.Since(begin); took != 3*time.Second {
					t.Errorf("second Shutdown took %v", took)
				}
				if err := <-done; !errors.Is(err, errIgnoresCtx) {
					t.Errorf("Shutdown: %v", err)
				}
				if took := time.Since(begin); took != 10*time.Second+shutdownGrace {
					t.Errorf("Shutdown took %v", took)
				}
				if n := r.bytes.Load(); n != 0 {
					t.Errorf("%d bytes are still accounted for", n)
				}
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				if n := r.bytes.Load(); n != 0 {
					t.Errorf("%d bytes are accounted for after it returned late", n)
				}
			})
		})
	}
}

// A context that has already ended leaves only the grace period.
func TestShutdownWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 1, DrainTimeout: time.Hour}, func(context.Context, []int) error {
			time.Sleep(time.Minute)
			return nil
		})
		r.offer(t, items(0, 3, 1)...)
		r.Start()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		if err := r.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(begin); took != shutdownGrace {
			t.Errorf("Shutdown took %v", took)
		}
		time.Sleep(time.Hour)
	})
}
