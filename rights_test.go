package k8swatchlistreceiver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/rights"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// What is asked about is what the receiver reads by name, and what it reads for itself.
func TestNeeds(t *testing.T) {
	pods := catalog.Spec{GroupResource: schema.GroupResource{Resource: "pods"}}
	pattern := catalog.Spec{Pattern: &catalog.Pattern{}}
	everywhere := scope.New(pods.GroupResource, "", "", "")
	some := everywhere.In(scope.Namespaces{Labels: "team=web"})
	widgets := scope.New(schema.GroupResource{Group: "shop.example", Resource: "widgets"}, "", "", "")
	uid := rights.Need{Scope: scope.New(schema.GroupResource{Resource: "namespaces"}, "", "", "metadata.name=kube-system"), Verbs: []string{"get"}, Optional: true}

	assert.Equal(t, []rights.Need{{Scope: everywhere}, uid},
		needs([]catalog.Spec{pods}, []catalog.Resolved{{Scope: everywhere, Spec: pods}}))
	assert.Equal(t, []rights.Need{
		{Scope: scope.New(schema.GroupResource{Resource: "namespaces"}, "", "team=web", "")},
		{Scope: some, Optional: true},
		uid,
		{Scope: scope.New(catalog.DefinitionResources[0], "", "", ""), Optional: true},
		{Scope: scope.New(catalog.DefinitionResources[1], "", "", ""), Verbs: []string{"get", "list", "watch"}, Optional: true},
	}, needs([]catalog.Spec{pods, pattern}, []catalog.Resolved{{Scope: some, Spec: pods}, {Scope: widgets, Spec: pattern}}))
}

func TestIsRead(t *testing.T) {
	h := newHealth(nil)
	h.end()
	of := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	assert.False(t, h.isRead(of))
	for _, c := range watchlist.Conditions() {
		h.reading(of, watchlist.State{Condition: c, Err: assert.AnError}, false)
		assert.Equal(t, !c.IsFault() && c != watchlist.Starting, h.isRead(of), c)
	}
}
