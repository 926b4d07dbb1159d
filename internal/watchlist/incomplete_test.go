package watchlist_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// A set without an object that could not be decoded is marked as incomplete at its end; a complete set is not.
func TestSetWithAnUndecodableObjectIsIncomplete(t *testing.T) {
	for scenario, incomplete := range map[string][]bool{
		"undecodable-object-in-the-initial-state":               {true},
		"undecodable-object-in-the-initial-state-and-a-restart": {true},
		"undecodable-object-in-a-relist-that-emits-snapshots":   {false, true},
		"relist-emits-snapshot":                                 {false, false},
	} {
		t.Run(scenario, func(t *testing.T) {
			archive, err := txtar.ParseFile("testdata/scenarios/" + scenario + ".txtar")
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) {
				var ends []bool
				for _, c := range playScenario(t, archive).changes {
					if c.Type == watchlist.SnapshotEnd {
						ends = append(ends, c.Snapshot.Incomplete)
					}
				}
				assert.Equal(t, incomplete, ends)
			})
		})
	}
}
