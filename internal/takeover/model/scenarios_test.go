package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// play runs three replicas under chosen faults, with a history that is long enough for all of them, and checks that
// nothing is violated.
func play(t *testing.T, o Options, faults ...fault) result {
	t.Helper()
	o.faults = faults
	if faults == nil {
		o.faults = []fault{}
	}
	w := newWorld(o)
	w.run()
	if len(w.verdict.violations) > 0 {
		t.Fatal(w.verdict.violations[0])
	}
	return result{stats: w.verdict.stats}
}

// plain are settings in which nothing but the chosen faults happens.
func plain(seed uint64) Options {
	return Options{Seed: seed, Plain: &Plain{Replicas: 3, Window: 100_000}}
}

func everyThird(kind faultKind, lasts millis) []fault {
	var faults []fault
	for at := 20 * second; at < activeFor-40*second; at += 45 * second {
		for which := range 3 {
			faults = append(faults, fault{at: at, kind: kind, which: which, lasts: lasts})
			at += 8 * second
		}
	}
	return faults
}

// Without faults one replica leads all the time, and nothing is repeated.
func TestNoFaults(t *testing.T) {
	for seed := range uint64(20) {
		r := play(t, plain(seed))
		assert.Equal(t, 1, r.stats.Takeovers)
		assert.Zero(t, r.stats.Repeats+r.stats.Gaps+r.stats.Sets-r.stats.readers)
	}
}

// Rolling restarts repeat nothing, and need neither gaps nor sets.
func TestOrderlyStopsRepeatNothing(t *testing.T) {
	takeovers := 0
	for seed := range uint64(20) {
		r := play(t, plain(seed), everyThird(faultStop, 3*second)...)
		takeovers += r.stats.Takeovers
		assert.Zero(t, r.stats.Repeats)
		assert.Zero(t, r.stats.Gaps)
		assert.Equal(t, r.stats.readers, r.stats.Sets, "only the initial state")
	}
	assert.Greater(t, takeovers, 3*20)
}

// Kills, pauses and lost connections repeat a little, and need neither gaps nor sets while the history lasts.
func TestCrashesNeedNoGap(t *testing.T) {
	for _, kind := range []faultKind{faultKill, faultLoseDisk, faultPause, faultCut} {
		for seed := range uint64(10) {
			r := play(t, plain(seed), everyThird(kind, 40*second)...)
			assert.Greater(t, r.stats.Takeovers, 1)
			assert.Zero(t, r.stats.Gaps, faultNames[kind])
			assert.Equal(t, r.stats.readers, r.stats.Sets, faultNames[kind])
		}
	}
}

// All replicas are killed and the history is gone: the last leader's disk knows what the backend has. Without any disk
// nobody does, and everything is emitted as a set.
func TestAllKilledAndHistoryGone(t *testing.T) {
	at := 60 * second
	faults := []fault{
		{at: at, kind: faultKillAll, spread: []millis{6 * second, 5 * second, 7 * second}},
		{at: at + 4*second, kind: faultForgetAll},
	}
	for seed := range uint64(20) {
		o := plain(seed)
		r := play(t, o, faults...)
		assert.Equal(t, r.stats.readers, r.stats.Sets, "seed %d", seed)
		assert.Equal(t, r.stats.readers, r.stats.Gaps, "seed %d", seed)

		o.Plain.NoDisks = true
		r = play(t, o, faults...)
		assert.Equal(t, 2*r.stats.readers, r.stats.Sets, "seed %d", seed)
	}
}

// What differs between standbys that keep identities and those that keep whole objects: how often a takeover needs a
// gap because the history does not reach back to the published position.
func TestDesignsCompared(t *testing.T) {
	n := min(seeds(t, 45), 300)
	for _, window := range []int{30, 100, 300, 1000} {
		for _, bodies := range []bool{false, true} {
			var all stats
			for seed := range n {
				o := plain(seed)
				o.Bodies, o.Plain.Window = bodies, window
				all.add(play(t, o, everyThird(faultKill, 6*second)...).stats)
			}
			reaches := float64(window) * float64(all.readers) * float64(activeFor/second) / float64(all.Events)
			t.Logf("a history of %4.0f s, whole objects %-5v: %d takeovers, %d gaps with %d of %d events, %d sets",
				reaches, bodies, all.Takeovers-all.Runs, all.Gaps, all.InGaps, all.Events, all.Sets-all.readers)
			if window == 1000 {
				require.Zero(t, all.Gaps)
			}
		}
	}
}
