package model

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seeds is how many runs a test makes: fewer with the race detector, and as many as MODEL_SEEDS says if it is set.
func seeds(t *testing.T, usual uint64) uint64 {
	if raceEnabled {
		usual /= 15
	}
	return number(t, "MODEL_SEEDS", usual)
}

func number(t *testing.T, variable string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 32)
	require.NoError(t, err, "%s must be a number", variable)
	return n
}

// runAll runs n seeds from first on, on all processors, until one fails, and returns what they did.
func runAll(t *testing.T, first, n uint64, o Options) stats {
	t.Helper()
	var mu sync.Mutex
	var all stats
	var failed *result
	next := first
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for failed == nil && next < first+n {
				try := o
				try.Seed = next
				next++
				mu.Unlock()
				r := run(try)
				mu.Lock()
				all.add(r.stats)
				if len(r.violations) > 0 && failed == nil {
					failed = &r
					o.Seed = try.Seed
				}
			}
		})
	}
	workers.Wait()
	if failed != nil {
		t.Fatal(explain(o, *failed))
	}
	return all
}

// Nothing is lost, no deletion is missed, and nothing is repeated that was known to be accepted, whatever fails.
func TestTakeover(t *testing.T) {
	all := runAll(t, number(t, "MODEL_FIRST_SEED", 0), seeds(t, 2000), Options{})
	t.Logf("standbys that keep identities:    %+v", all)
	assert.Greater(t, all.Takeovers, 2*all.Runs, "the faults are too mild to show anything")
	assert.Greater(t, all.Repeats, all.Runs)
	assert.Greater(t, all.Gaps, all.Runs)
}

// The same holds if standbys keep whole objects behind a closed gate.
func TestTakeoverWithBodies(t *testing.T) {
	all := runAll(t, number(t, "MODEL_FIRST_SEED", 0), seeds(t, 600), Options{Bodies: true})
	t.Logf("standbys that keep whole objects: %+v", all)
}

// What each of the rules prevents, and a seed that shows it. If the seed no longer does, others are tried.
var needed = []struct {
	rule  Rule
	kinds []string
	seed  uint64
}{
	{RuleOptimisticWrites, []string{violBack}, 5},
	{RuleTermFirst, []string{violBack, violMissed, violRepeated}, 142},
	{RuleOwnWriteUnanswered, []string{violMissed, violStuck}, 223},
	{RuleNewIdentity, []string{violSet}, 97},
	{RuleProofFromStart, []string{violLate}, 18},
	{RuleDeadline, []string{violLate}, 8},
	{RuleDrainThenRelease, []string{violTwo}, 88},
	{RulePublishAccepted, []string{violLost}, 1},
	{RuleClosedVersions, []string{violLost}, 1},
	{RuleNeverBack, []string{violBack}, 8},
	{RuleOtherReadersKept, []string{violLost, violSet, violBack}, 1},
	{RuleDenialsPublished, []string{violLost}, 18},
	{RuleAnnounce, []string{violMissed}, 12},
	{RuleInitialWhole, []string{violLost}, 15},
	{RuleEndAnnounced, []string{violLost}, 135},
	{RuleFollowPublished, []string{violMissed, violStale}, 0},
	{RuleHoleUntilPassed, []string{violMissed}, 0},
	{RuleHoleNotStored, []string{violMissed}, 4},
	{RuleIntroducedOnDisk, []string{violMissed}, 15},
	{RuleInherited, []string{violMissed}, 175},
	{RuleReadyFirst, []string{violSet}, 56},
	{RuleBeginWhereRead, []string{violMissed}, 56},
	{RuleSilentToPublished, []string{violRepeated}, 1},
	{RuleAcceptedByVersion, []string{violRepeated}, 88},
	{RulePerhapsEmitted, []string{violMissed}, 12},
	{RuleHoleRestates, []string{violMissed}, 0},
	{RuleHoleToView, []string{violMissed}, 982},
	{RuleReadAgain, []string{violMissed, violStale, violLost}, 727},
	{RuleSetCountsAccepted, []string{violMissed}, 18},
	{RuleSetBegunAnew, []string{violMissed}, 157},
	{RuleSetOwedUntilWhole, []string{violMissed, violStale}, 157},
}

func TestEveryRuleIsNeeded(t *testing.T) {
	require.Len(t, needed, int(lastRule))
	for i, n := range needed {
		require.Equal(t, Rule(i+1), n.rule)
		t.Run(n.rule.String(), func(t *testing.T) {
			t.Parallel()
			fails := func(seed uint64) bool {
				r := run(Options{Seed: seed, Off: n.rule})
				return slices.ContainsFunc(n.kinds, r.has)
			}
			if fails(n.seed) {
				return
			}
			for seed := range uint64(3000) {
				if fails(seed) {
					t.Logf("seed %d no longer shows what %s is needed for; seed %d does", n.seed, n.rule, seed)
					return
				}
			}
			t.Errorf("without the rule, no run shows any of %q: it is not needed, or not tested", n.kinds)
		})
	}
}

// docs/takeover.md explains each rule under its number and name.
func TestDocumentExplainsEveryRule(t *testing.T) {
	page, err := os.ReadFile("../../../docs/takeover.md")
	require.NoError(t, err)
	for r := Rule(1); r <= lastRule; r++ {
		assert.Contains(t, string(page), fmt.Sprintf("\n%d. **%s**", r, r))
	}
	assert.NotContains(t, string(page), fmt.Sprintf("\n%d. **", lastRule+1))
}

// The same seed gives the same run, so that a failure can be repeated.
func TestRunsAreDeterministic(t *testing.T) {
	for seed := range uint64(3) {
		one, other := run(Options{Seed: seed, trace: true}), run(Options{Seed: seed, trace: true})
		require.NotEmpty(t, one.lines)
		assert.Equal(t, one.lines, other.lines)
		assert.Equal(t, one.stats, other.stats)
	}
}

// A failure is explained with the few faults that it needs.
func TestFailuresAreShrunk(t *testing.T) {
	o := Options{Seed: 15, Off: RuleIntroducedOnDisk}
	failed := run(o)
	require.True(t, failed.has(violMissed), "choose a seed that fails without the rule")
	less, still := shrink(o, failed)
	assert.True(t, still.has(failed.violations[0].Kind))
	assert.Less(t, len(less.faults), len(failed.schedule))
	assert.Contains(t, explain(o, failed), "The faults that are needed:")
}

// With MODEL_TRACE, prints everything that happens with that seed, without the rule of that number in MODEL_WITHOUT.
func TestTrace(t *testing.T) {
	if os.Getenv("MODEL_TRACE") == "" {
		t.Skip("MODEL_TRACE is not set")
	}
	r := run(Options{Seed: number(t, "MODEL_TRACE", 0), Off: Rule(number(t, "MODEL_WITHOUT", 0)), trace: true})
	for _, line := range r.lines {
		fmt.Println(line)
	}
	for _, v := range r.violations {
		fmt.Println(v)
	}
}
