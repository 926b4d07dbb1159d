package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func wantLines(t *testing.T, r *rig, want ...string) {
	t.Helper()
	if got := r.lines(); !slices.Equal(got, want) {
		t.Errorf("logged\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// wantOneTrouble requires that one trouble was reported, and its end.
func wantOneTrouble(t *testing.T, r *rig) {
	t.Helper()
	if len(r.reported) != 2 || r.reported[1] != "well" {
		t.Errorf("reported %q", r.reported)
	}
}

// keepOffering offers an item every second.
func (r *rig) keepOffering(t *testing.T, until time.Duration) {
	t.Helper()
	for end := time.Now().Add(until); time.Now().Before(end); time.Sleep(time.Second) {
		r.Offer(item{1, 1})
	}
	synctest.Wait()
}

// For a consumer that refuses for a while, the beginning, a summary every ten minutes, and the end are logged.
func TestTroubleIsLoggedAtItsBeginningItsEndAndEveryTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		r := newRig(Options[item]{BatchMaxRecords: 1}, refuseWhile(&refuse, fmt.Errorf("sending queue is full: %w", errBusy)))
		r.Start()
		r.keepOffering(t, 35*time.Minute)
		wantLines(t, r, logRefuses, logRefuses, logRefuses, logRefuses)
		for i, entry := range r.logs.All() {
			fields := entry.ContextMap()
			if fields["error"] != "sending queue is full: busy" {
				t.Errorf("line %d: error %q", i, fields["error"])
			}
			if after, ok := fields["after"].(time.Duration); ok != (i > 0) || after.Round(time.Minute) != time.Duration(10*i)*time.Minute {
				t.Errorf("line %d: after %v", i, after)
			}
		}
		refuse.Store(false)
		r.keepOffering(t, 5*time.Minute)
		wantLines(t, r, logRefuses, logRefuses, logRefuses, logRefuses, logAccepts)
		end := r.logs.All()[4].ContextMap()
		if after := end["after"].(time.Duration); after < 34*time.Minute || after > 36*time.Minute {
			t.Errorf("the end was logged after %v", after)
		}
		if end["refused_tries"] != r.retried.Load() {
			t.Errorf("%v refused tries were logged, want %d", end["refused_tries"], r.retried.Load())
		}
		refuses := strings.TrimPrefix(logRefuses, "warn ")
		if want := []string{refuses + ": sending queue is full: busy", "well"}; !slices.Equal(r.reported, want) {
			t.Errorf("reported %q", r.reported)
		}
		r.stop(t)
	})
}

// A slow consumer that accepts occasionally is one trouble, however often it does.
func TestConsumerThatAcceptsOccasionallyIsOneTrouble(t *testing.T) {
	for _, cycle := range []time.Duration{10 * time.Second, 40 * time.Second, 55 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			r := newRig(Options[item]{BatchMaxRecords: 1}, func(context.Context, []int) error {
				if passed := time.Since(begin); passed < 30*time.Minute && passed%cycle < cycle/2 {
					return errBusy
				}
				return nil
			})
			r.Start()
			r.keepOffering(t, 40*time.Minute)
			lines := r.lines()
			if len(lines) < 4 || len(lines) > 5 || lines[0] != logRefuses || !slices.Equal(slices.Compact(lines), []string{logRefuses, logAccepts}) {
				t.Errorf("every %v: logged %q", cycle, r.lines())
			}
			if len(r.reported) != 2 {
				t.Errorf("every %v: reported %q", cycle, r.reported)
			}
			r.stop(t)
		})
	}
}

// Troubles with minutes between them cause at most a pair of lines in ten minutes.
func TestTroublesInARowAreNotLoggedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := newRig(Options[item]{BatchMaxRecords: 1}, func(context.Context, []int) error {
			if time.Since(begin)%(3*time.Minute) < 10*time.Second {
				return errBusy
			}
			return nil
		})
		r.Start()
		r.keepOffering(t, time.Hour)
		if n := len(r.lines()); n < 6 || n > 14 {
			t.Errorf("%d lines in an hour: %q", n, r.lines())
		}
		r.stop(t)
	})
}

// The ten minutes count from the last log line of any kind.
func TestNextTroubleIsLoggedTenMinutesAfterTheEndOfTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := newRig(Options[item]{BatchMaxRecords: 1}, func(context.Context, []int) error {
			if passed := time.Since(begin); passed < 18*time.Minute || passed > 22*time.Minute && passed < 40*time.Minute {
				return errBusy
			}
			return nil
		})
		r.Start()
		r.keepOffering(t, 28*time.Minute)
		wantLines(t, r, logRefuses, logRefuses, logAccepts)
		r.keepOffering(t, 4*time.Minute)
		wantLines(t, r, logRefuses, logRefuses, logAccepts, logRefuses)
		if after := r.logs.All()[3].ContextMap()["after"].(time.Duration); after < 5*time.Minute {
			t.Errorf("logged with after %v, want the time since the trouble began", after)
		}
		if len(r.reported) != 3 {
			t.Errorf("reported %q", r.reported)
		}
		r.keepOffering(t, 10*time.Minute)
		r.stop(t)
	})
}

func TestConsumerThatDoesNotReturnIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 1}, func(ctx context.Context, ids []int) error {
			if ids[0] == 0 {
				time.Sleep(25 * time.Minute)
			}
			return nil
		})
		r.Start()
		r.offer(t, item{0, 1})
		time.Sleep(overdue - time.Second)
		wantLines(t, r)
		time.Sleep(tickEvery + time.Second)
		wantLines(t, r, logHangs)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		wantLines(t, r, logHangs, logHangs, logHangs, logAccepts)
		wantOneTrouble(t, r)
		r.stop(t)
	})
}

func TestConsumerThatDeniesEverythingIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deny atomic.Bool
		r := newRig(Options[item]{BatchMaxRecords: 5}, refuseWhile(&deny, consumererror.NewPermanent(errors.New("PERMISSION_DENIED"))))
		r.Start()
		r.keepOffering(t, 5*time.Minute)
		wantLines(t, r, logDrop, logDenies)
		deny.Store(false)
		r.keepOffering(t, 3*time.Minute)
		wantLines(t, r, logDrop, logDenies, logAccepts)
		r.keepOffering(t, 3*time.Minute)
		wantLines(t, r, logDrop, logDenies, logAccepts, logMoreDrop)
		wantOneTrouble(t, r)
		r.stop(t)
	})
}

// The first record of each kind of error is named at once, the others together.
func TestDropsAreLoggedOnceForEachKindOfError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options[item]{BatchMaxRecords: 10}, func(_ context.Context, ids []int) error {
			for _, id := range ids {
				switch id % 10 {
				case 3:
					return consumererror.NewPermanent(fmt.Errorf("record %d/x is too large\nit holds {\"a\":1}", id))
				case 7:
					return consumererror.NewPermanent(fmt.Errorf("record has no owner"))
				}
			}
			return nil
		})
		r.Start()
		r.offer(t, items(0, 200, 1)...)
		time.Sleep(time.Minute)
		wantLines(t, r, logDrop, logDrop)
		large := r.logs.All()[0].ContextMap()
		if fmt.Sprint(large["dropped"]) != "[item 3]" || large["error"] != "Permanent error: record 3/x is too large" {
			t.Errorf("logged %v", large)
		}
		time.Sleep(10 * time.Minute)
		wantLines(t, r, logDrop, logDrop, logMoreDrop)
		more := r.logs.All()[2].ContextMap()
		if names := more["dropped"].([]any); len(names) != maxNames || names[0] != "item 13" || more["dropped_records"] != int64(38) {
			t.Errorf("logged %v", more)
		}
		time.Sleep(time.Hour)
		r.offer(t, items(203, 204, 1)...)
		r.stop(t) // logs what has not been logged yet
		wantLines(t, r, logDrop, logDrop, logMoreDrop, logMoreDrop)
		if len(r.reported) != 0 {
			t.Errorf("reported %q: a consumer that refuses single records is not in trouble", r.reported)
		}
	})
}

func TestKindsOfErrorsAreBounded(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	l := losses{logger: zap.New(core)}
	now := time.Now()
	for i := range 10 * maxKinds {
		l.dropped(now, 1, []string{"x"}, errors.New(strings.Repeat("a", i+1)))
	}
	l.end()
	if n := logs.Len(); n != maxKinds+1 {
		t.Errorf("%d lines", n)
	}
}

// A dropped record does not hide that the next one is stuck.
func TestStuckAfterDropIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed bool
		r := newRig(Options[item]{BatchMaxRecords: 1}, func(_ context.Context, ids []int) error {
			if ids[0] == 0 {
				return errBad
			}
			if !failed {
				failed = true
				return errBusy
			}
			return nil
		})
		r.offer(t, items(0, 2, 1)...)
		r.Start()
		time.Sleep(2 * time.Minute)
		wantLines(t, r, logDrop, logRefuses, logAccepts)
		r.stop(t)
	})
}
