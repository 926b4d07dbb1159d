//go:build !race

package record

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Upper bounds for the memory that a frame needs from its bytes to the record. Unlike times, these figures are the same
// on every machine, so a change that makes the path more expensive fails here: they are a tenth above the measured
// values. This file is excluded from builds with the race detector, which allocates too.
var allocationBounds = map[string]struct{ allocations, bytes float64 }{
	"pod.json/map":            {515, 25_800},
	"pod.json/json":           {33, 8_900},
	"deployment.json/map":     {410, 19_050},
	"deployment.json/json":    {23, 6_100},
	"node.json/map":           {590, 28_600},
	"node.json/json":          {19, 12_800},
	"event-core.json/map":     {76, 5_400},
	"event-core.json/json":    {35, 3_400},
	"event-core.json/message": {35, 3_400},
	"rollout.json/map":        {442, 20_400},
	"rollout.json/json":       {32, 6_600}, // a string for each of its three fingerprints
}

func TestAllocationsOfAFrame(t *testing.T) {
	for _, kind := range benchmarkKinds {
		for _, body := range bodiesOf(kind.resource) {
			name := kind.file + "/" + body.name
			t.Run(name, func(t *testing.T) {
				f := newFrames(t, kind.file, kind.resource, body.options)
				allocations, bytes := allocated(func() { f.round(t) })
				t.Logf("%.1f allocations, %.0f bytes", allocations, bytes)
				bound, ok := allocationBounds[name]
				require.True(t, ok)
				assert.LessOrEqual(t, allocations, bound.allocations)
				assert.LessOrEqual(t, bytes, bound.bytes)
			})
		}
	}
}

// allocated returns the allocations of a round for each of its frames.
func allocated(round func()) (allocations, bytes float64) {
	round() // fills the pools
	const rounds = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / (rounds * frameBatch),
		float64(after.TotalAlloc-before.TotalAlloc) / (rounds * frameBatch)
}
