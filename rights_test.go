package k8swatchlistreceiver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
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

// mayAll answers every question, and counts them.
type mayAll struct{ asked int }

func (m *mayAll) May(context.Context, kubeclient.Right) (bool, error) {
	m.asked++
	return true, nil
}

// A replica that begins to lead or to stand by does not ask about the same rights again.
func TestRightsAreAskedAboutOnce(t *testing.T) {
	server := &mayAll{}
	r := &watchlistReceiver{rights: rights.New(server, 1000), health: newHealth(nil), set: receivertest.NewNopSettings(metadata.Type)}
	need := func(resource string) rights.Need {
		return rights.Need{Scope: scope.New(schema.GroupResource{Resource: resource}, "", "", "")}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	r.reportNeeds(over, []rights.Need{need("pods")})
	r.reportNeeds(t.Context(), []rights.Need{need("pods")})
	assert.Equal(t, 2, server.asked, "the first session has ended before it had asked")
	r.reportNeeds(t.Context(), []rights.Need{need("pods")})
	assert.Equal(t, 2, server.asked)
	r.reportNeeds(t.Context(), []rights.Need{need("nodes")})
	assert.Equal(t, 4, server.asked)
}
