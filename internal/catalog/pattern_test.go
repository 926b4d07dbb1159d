package catalog

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		exclude  []string
		yes, not []string
	}{
		{
			"*", nil,
			[]string{"pods", "deployments.apps", "configmaps", "endpoints", "certificates.cert-manager.io", "secrets.example.com", "events.example.com"},
			[]string{"secrets", "leases.coordination.k8s.io", "events", "events.events.k8s.io", "ingresses.extensions"},
		},
		{"*.cert-manager.io", nil, []string{"certificates.cert-manager.io"}, []string{"challenges.acme.cert-manager.io", "pods", "x.not-cert-manager.io"}},
		{"*.*.istio.io", nil, []string{"gateways.networking.istio.io"}, []string{"istios.istio.io", "pods"}},
		{"*.*", nil, []string{"deployments.apps", "x.y.z"}, []string{"pods"}},
		{"deploy*", nil, []string{"deployments.apps", "deploys.example.com"}, []string{"pods"}},
		{"*sets.apps", nil, []string{"replicasets.apps", "daemonsets.apps"}, []string{"deployments.apps", "sets.example.com"}},
		{"secret*", nil, []string{"secretstores.external-secrets.io"}, []string{"secrets"}},
		{
			"*",
			[]string{"pods", "*.wgpolicyk8s.io", "ciliumendpoints.cilium.io", "rbac", "jobs", "widgets", "*.*.istio.io"},
			[]string{"deployments.apps", "ciliumnodes.cilium.io", "pods.metrics.example.com", "jobs.batch.volcano.sh"},
			[]string{"pods", "policyreports.wgpolicyk8s.io", "ciliumendpoints.cilium.io", "roles.rbac.authorization.k8s.io", "jobs.batch", "widgets.example.com", "gateways.networking.istio.io"},
		},
		{"*", []string{"*.*"}, []string{"pods"}, []string{"deployments.apps"}},
		{"*", []string{"endpoints"}, []string{"pods"}, []string{"endpoints", "endpointslices.discovery.k8s.io"}},
	} {
		p := ParsePattern(c.pattern).Excluding(c.exclude, false)
		for _, name := range c.yes {
			assert.True(t, p.selects(schema.ParseGroupResource(name)), "%s without %v: %s", c.pattern, c.exclude, name)
		}
		for _, name := range c.not {
			assert.False(t, p.selects(schema.ParseGroupResource(name)), "%s without %v: %s", c.pattern, c.exclude, name)
		}
	}
}

// A name wins over a pattern, whatever its namespaces and selectors, and a more specific pattern over another.
func TestReading(t *testing.T) {
	specs := []Spec{
		{Pattern: ParsePattern("*").Excluding([]string{"services"}, false), LabelSelector: "a=b"},
		{GroupResource: schema.GroupResource{Resource: "pods"}, GroupKnown: true, Namespaces: []string{"shop"}},
		{GroupResource: schema.GroupResource{Resource: "widgets"}},
		{Pattern: ParsePattern("*.example.com").Excluding(nil, true), Namespaces: []string{"pay"}},
		{GroupResource: schema.GroupResource{Resource: "pods"}, GroupKnown: true, Namespaces: []string{"web"}},
	}
	of := func(name, namespace, labels string) scope.Scope {
		return scope.New(schema.ParseGroupResource(name), namespace, labels, "")
	}
	for want, scopes := range map[int][]scope.Scope{
		0:  {of("configmaps", "", "a=b"), of("things.other.org", "", "a in (b)")},
		1:  {of("pods", "shop", "")},
		2:  {of("widgets.example.com", "", ""), of("widgets.other.org", "", "")},
		3:  {of("gadgets.example.com", "pay", "")},
		4:  {of("pods", "web", "")},
		-1: {of("pods", "", "a=b"), of("pods", "", ""), of("services", "", "a=b"), of("gadgets.example.com", "", "a=b"), of("secrets", "", "a=b")},
	} {
		for _, s := range scopes {
			assert.Equal(t, want, Reading(specs, s), s.String())
		}
	}
}
