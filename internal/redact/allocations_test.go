//go:build !race

package redact

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Fields cost no allocation once their nodes are made, and what is dropped is not even copied.
func TestAllocationsWithFields(t *testing.T) {
	data := realObject(t, "pod.json")
	decode := func(p *Plan) (allocations float64) {
		return testing.AllocsPerRun(100, func() {
			_, _, err := p.Decode(data)
			require.NoError(t, err)
		})
	}
	all := decode(NewPlan("", "pods"))
	for _, c := range []struct {
		name   string
		fields Fields
		facts  float64 // that are dropped, so that each is a string of its own
	}{
		{"nothing is dropped", Fields{Drop: []string{"spec.notes", "spec.containers.*.notes"}}, 0},
		{"some is", Fields{Drop: []string{"spec.containers.*.env", "status"}}, 3}, // the phase, the IP and the time of the start
		{"most is", Fields{Keep: []string{"spec.containers.*.image"}}, 9},         // four of the owner and five of the pod
	} {
		assert.LessOrEqual(t, decode(NewPlan("", "pods").WithFields(c.fields)), all+c.facts, c.name)
	}
}
