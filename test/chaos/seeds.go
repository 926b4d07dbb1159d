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
// commas.
func Seeds(t *testing.T, replicas int) {
	first := number64(t, "CHAOS_SEED", 1)
	seeds := number64(t, "CHAOS_SEEDS", 1)
	duration := 2 * time.Minute
	if s := os.Getenv("CHAOS_DURATION"); s != "" {
		var err error
		if duration, err = time.ParseDuration(s); err != nil {
			t.Fatalf("CHAOS_DURATION: %v", err)
		}
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
