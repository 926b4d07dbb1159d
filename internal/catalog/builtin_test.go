package catalog

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testobjects"
)

// What is tested with every built-in kind is tested with everything that can be watched, but for the two groups whose
// types live elsewhere.
func TestTestObjectsAreOfEveryBuiltin(t *testing.T) {
	have := map[string]string{}
	for _, o := range testobjects.All(t) {
		have[schema.GroupResource{Group: o.Group, Resource: o.Resource}.String()] = o.Kind
	}
	for _, b := range builtins {
		if !slices.Contains([]string{"apiextensions.k8s.io", "apiregistration.k8s.io"}, b.group) {
			assert.Equal(t, b.kind, have[b.Name()], b.Name())
		}
	}
}
