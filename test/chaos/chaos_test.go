package chaos

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// TestChaos runs the seeds that the environment names, one after the other: CHAOS_SEED is the first, CHAOS_SEEDS how
// many, CHAOS_DURATION how long the faults of each last.
func TestChaos(t *testing.T) {
	first := number64(t, "CHAOS_SEED", 1)
	seeds := number64(t, "CHAOS_SEEDS", 1)
	duration := 2 * time.Minute
	if s := os.Getenv("CHAOS_DURATION"); s != "" {
		var err error
		if duration, err = time.ParseDuration(s); err != nil {
			t.Fatalf("CHAOS_DURATION: %v", err)
		}
	}
	results := make([]Result, seeds)
	for i := range results {
		seed := first + uint64(i)
		t.Run("seed "+strconv.FormatUint(seed, 10), func(t *testing.T) {
			Run(t, seed, duration, &results[i])
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
