package scope

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

func TestSpellingsOfASelectorAreOneScope(t *testing.T) {
	same := func(want string, spellings ...string) {
		t.Helper()
		for _, spelling := range spellings {
			assert.Equal(t, want, CanonicalLabels(spelling), "%q", spelling)
		}
	}
	same("", "", " ")
	same("team=x", "team=x", "team==x", " team = x ", "team in (x)", "team=x,team in (x)")
	same("team!=x", "team!=x", "team notin (x)", "team notin (x , x)")
	same("a=1,team in (x,y)", "team in (y, x),a=1", "a in (1),team in (x,y)")
	same("!gone,there", "there,!gone", "! gone , there")
	same("not a selector (", "not a selector (")

	assert.Equal(t, "metadata.name!=x,status.phase=Running", CanonicalFields("status.phase==Running,metadata.name!=x"))
	assert.Equal(t, "spec.nodeName=", CanonicalFields("spec.nodeName="))
	assert.Equal(t, `a=x\,y`, CanonicalFields(`a=x\,y`))
	assert.Equal(t, "no selector", CanonicalFields("no selector"))

	assert.Equal(t, New(deployments, "shop", "team in (x)", "a==b"), New(deployments, "shop", "team=x", "a=b"))
}

func TestEveryPartDistinguishesScopes(t *testing.T) {
	scopes := []Scope{
		New(deployments, "", "", ""),
		New(schema.GroupResource{Resource: "deployments"}, "", "", ""),
		New(schema.GroupResource{Group: "apps", Resource: "replicasets"}, "", "", ""),
		New(deployments, "shop", "", ""),
		New(deployments, "", "", "").In(Namespaces{Include: []string{"shop"}}),
		New(deployments, "", "a=b", ""),
		New(deployments, "", "", "a=b"),
		New(deployments, "", "", "").Of(shard.Shard{Index: 1, Total: 2}),
		New(deployments, "", "", "").Of(shard.Shard{Index: 1, Total: 2, By: shard.Namespace}),
	}
	keys, names := map[string]bool{}, map[string]bool{}
	for _, s := range scopes {
		keys[s.Key()] = true
		names[s.String()] = true
	}
	assert.Len(t, keys, len(scopes))
	assert.Len(t, names, len(scopes)-3, "label and field selectors look alike to people, and shards are not named")
	assert.Equal(t, scopes[0], New(deployments, "", "", "").Of(shard.Shard{Total: 1, By: shard.Namespace}), "nothing is divided")
	assert.Equal(t, "deployments.apps in namespace shop (team=x; a=b)", New(deployments, "shop", "team=x", "a=b").String())
	assert.Equal(t, "deployments.apps in namespaces pay,team-*,!team-x", New(deployments, "", "", "").In(
		Namespaces{Include: []string{"team-*", "pay"}, Exclude: []string{"team-x"}}).String())
}

func TestBothGroupsOfEvents(t *testing.T) {
	assert.True(t, IsEvents(schema.GroupResource{Resource: "events"}))
	assert.True(t, IsEvents(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}))
	assert.False(t, IsEvents(schema.GroupResource{Group: "example.com", Resource: "events"}))
	assert.False(t, IsEvents(schema.GroupResource{Resource: "pods"}))
}

func TestRequiredNamespace(t *testing.T) {
	for selector, want := range map[string]string{
		"metadata.namespace=shop":                   "shop",
		"metadata.name=x,metadata.namespace==shop":  "shop",
		"metadata.namespace!=shop":                  "",
		"metadata.namespace=":                       "",
		"metadata.namespace=../nodes":               "",
		"metadata.name=shop":                        "",
		"metadata.namespace=shop,cannot be, parsed": "",
	} {
		s := New(schema.GroupResource{Resource: "pods"}, "", "app=web", selector)
		got := s.InRequiredNamespace()
		assert.Equal(t, want, got.Namespace, selector)
		got.Namespace = ""
		assert.Equal(t, s, got, selector)
	}
	s := New(schema.GroupResource{Resource: "pods"}, "pay", "", "metadata.namespace=shop")
	assert.Equal(t, s, s.InRequiredNamespace(), "no object is in both")
}

func TestRule(t *testing.T) {
	nodes := New(schema.GroupResource{Resource: "nodes"}, "", "", "")
	assert.Equal(t, `- {apiGroups: [""], resources: ["nodes"], verbs: [watch, list]}`, nodes.Rule("watch", "list"))
	one := New(schema.GroupResource{Group: "apps", Resource: "deployments"}, "shop", "", "metadata.name==web")
	assert.Equal(t, `- {apiGroups: ["apps"], resources: ["deployments"], resourceNames: ["web"], verbs: [watch]}`, one.Rule("watch"))
	several := New(schema.GroupResource{Resource: "pods"}, "", "", "metadata.name!=web")
	assert.Empty(t, several.OnlyName())
}
