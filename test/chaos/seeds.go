package chaos

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Seeds runs the seeds from the environment with a number of replicas, one after another: CHAOS_SEED is the first, CHAOS_SEEDS
// their number, CHAOS_DURATION the duration of each one's faults, and CHAOS_FAULTS, if set, the kinds of faults, separated by
// commas. CHAOS_REPLICAS_SEED and CHAOS_REPLICAS_DURATION, if set, are those of runs with several replicas, which may go on at
// the same time.
func Seeds(t *testing.T, replicas int) {
	first := number64(t, "CHAOS_SEED", 1)
	seeds := number64(t, "CHAOS_SEEDS", 1)
	duration := durationOf(t, "CHAOS_DURATION", 2*time.Minute)
	if replicas > 1 {
		first = number64(t, "CHAOS_REPLICAS_SEED", first)
		duration = durationOf(t, "CHAOS_REPLICAS_DURATION", duration)
	}
	var only []Kind
	if s := os.Getenv("CHAOS_FAULTS"); s != "" {
		for name := range strings.SplitSeq(s, ",") {
			kind := Kind(strings.TrimSpace(name))
			if !known(kind) {
				t.Fatalf("CHAOS_FAULTS: there is no %q", name)
			}
			only = append(only, kind)
		}
	}
	results := make([]Result, seeds)
	for i := range results {
		seed := first + uint64(i)
		t.Run("seed "+strconv.FormatUint(seed, 10), func(t *testing.T) {
			Run(t, seed, duration, replicas, &results[i], only...)
		})
	}
	t.Logf("%d seeds of %s each:\n%s", len(results), duration, Table(results))
}

func durationOf(t *testing.T, variable string, otherwise time.Duration) time.Duration {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return d
}

func number64(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}
