package k8swatchlistreceiver

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testobjects"
)

// What is tested with every built-in kind is tested with everything that can be watched, but for the two groups whose
// types live elsewhere.
func TestTestObjectsAreOfEveryBuiltin(t *testing.T) {
	have := map[string]string{}
	for _, o := range testobjects.All(t) {
		have[builtin{plural: o.Resource, group: o.Group}.name()] = o.Kind
	}
	for _, b := range builtins {
		if !slices.Contains([]string{"apiextensions.k8s.io", "apiregistration.k8s.io"}, b.group) {
			assert.Equal(t, b.kind, have[b.name()], b.name())
		}
	}
}
