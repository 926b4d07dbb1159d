package catalog

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testobjects"
)

// Tests with every built-in kind cover everything that can be watched, except the two groups whose types are in other
// modules.
func TestTestObjectsCoverEveryBuiltin(t *testing.T) {
	have, best := map[string]string{}, map[string]string{}
	for _, o := range testobjects.All(t) {
		name := schema.GroupResource{Group: o.Group, Resource: o.Resource}.String()
		have[name] = o.Kind
		if known := best[name]; known == "" || version.CompareKubeAwareVersionStrings(o.Version, known) > 0 {
			best[name] = o.Version
		}
	}
	for _, b := range builtins {
		if !slices.Contains([]string{"apiextensions.k8s.io", "apiregistration.k8s.io"}, b.group) {
			assert.Equal(t, b.kind, have[b.Name()], b.Name())
			assert.Equal(t, best[b.Name()], b.bestVersion(), b.Name())
		}
	}
}
