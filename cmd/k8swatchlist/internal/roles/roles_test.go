package roles

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
)

func read(index int, name string, s catalog.Spec) []Read {
	var reads []Read
	for _, spec := range catalog.Expand(index, name, s) {
		reads = append(reads, Read{Spec: spec})
	}
	return reads
}

func policy(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

var clusterUID = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}}

func policies(r *Roles, namespace string) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, rule := range r.Rules(namespace) {
		all = append(all, rule.PolicyRule)
	}
	return all
}

func TestRules(t *testing.T) {
	t.Parallel()
	named := policy("", []string{"configmaps"}, "list", "watch")
	named.ResourceNames = []string{"settings"}
	crds := policy("apiextensions.k8s.io", []string{"customresourcedefinitions"}, "list", "watch")
	apiServices := policy("apiregistration.k8s.io", []string{"apiservices"}, "get", "list", "watch")
	for name, test := range map[string]struct {
		reads   []Read
		options Options
		want    map[string][]rbacv1.PolicyRule
	}{
		"resources of a group share a rule": {
			reads: append(read(0, "services", catalog.Spec{}), read(1, "pods", catalog.Spec{LabelSelector: "app=web"})...),
			want:  map[string][]rbacv1.PolicyRule{"": {policy("", []string{"pods", "services"}, "list", "watch"), clusterUID}},
		},
		"watch only": {
			reads:   append(read(0, "pods", catalog.Spec{}), read(1, "pods.metrics.k8s.io", catalog.Spec{})...),
			options: Options{WatchOnly: true},
			want: map[string][]rbacv1.PolicyRule{"": {
				policy("", []string{"pods"}, "watch"), policy("metrics.k8s.io", []string{"pods"}, "list", "watch"), clusterUID,
			}},
		},
		"namespaces": {
			reads: read(0, "deployments", catalog.Spec{Namespaces: []string{"shop", "pay"}}),
			want: map[string][]rbacv1.PolicyRule{
				"":     {clusterUID},
				"pay":  {policy("apps", []string{"deployments"}, "list", "watch")},
				"shop": {policy("apps", []string{"deployments"}, "list", "watch")},
			},
		},
		"namespaces that are selected of all": {
			reads: append(read(0, "deployments", catalog.Spec{Namespaces: []string{"shop", "team-*"}}),
				read(1, "jobs", catalog.Spec{ExcludeNamespaces: []string{"kube-system"}})...),
			want: map[string][]rbacv1.PolicyRule{"": {
				policy("apps", []string{"deployments"}, "list", "watch"), policy("batch", []string{"jobs"}, "list", "watch"), clusterUID,
			}},
		},
		"namespaces that are selected by labels": {
			reads: read(0, "pods", catalog.Spec{Namespaces: []string{"shop"}, NamespaceLabels: "env=prod"}),
			want:  map[string][]rbacv1.PolicyRule{"": {policy("", []string{"namespaces", "pods"}, "list", "watch"), clusterUID}},
		},
		"what the cluster role grants is not granted again": {
			reads: append(append(read(0, "pods", catalog.Spec{Namespaces: []string{"shop"}, LabelSelector: "a=b"}),
				read(1, "pods", catalog.Spec{LabelSelector: "a!=b"})...),
				read(2, "pods", catalog.Spec{FieldSelector: "metadata.name=web"})...),
			want: map[string][]rbacv1.PolicyRule{"": {policy("", []string{"pods"}, "list", "watch"), clusterUID}},
		},
		"one object": {
			reads: read(0, "configmaps", catalog.Spec{Namespaces: []string{"shop"}, FieldSelector: "metadata.name=settings"}),
			want:  map[string][]rbacv1.PolicyRule{"": {clusterUID}, "shop": {named}},
		},
		"a preset of several groups, and a custom resource": {
			reads:   append(read(0, "endpoints", catalog.Spec{}), read(1, "certificates.cert-manager.io", catalog.Spec{})...),
			options: Options{Definitions: true},
			want: map[string][]rbacv1.PolicyRule{"": {
				policy("", []string{"endpoints"}, "list", "watch"),
				policy("cert-manager.io", []string{"certificates"}, "list", "watch"),
				policy("discovery.k8s.io", []string{"endpointslices"}, "list", "watch"),
				clusterUID, crds, apiServices,
			}},
		},
		"an API group, in which only a namespace is read": {
			reads: []Read{{Spec: catalog.Spec{GroupResource: schema.GroupResource{Group: "cert-manager.io", Resource: "*"}, Namespaces: []string{"shop"}}}},
			want:  map[string][]rbacv1.PolicyRule{"": {clusterUID}, "shop": {policy("cert-manager.io", []string{"*"}, "list", "watch")}},
		},
		"discovery": {
			options: Options{Discovery: true},
			want: map[string][]rbacv1.PolicyRule{"": {
				clusterUID, {NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*"}, Verbs: []string{"get"}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(test.reads, test.options)
			got := make(map[string][]rbacv1.PolicyRule)
			for _, namespace := range r.Namespaces() {
				got[namespace] = policies(r, namespace)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestYAMLIsTheObjects(t *testing.T) {
	t.Parallel()
	reads := append(read(0, "pods", catalog.Spec{}), read(1, "deployments", catalog.Spec{Namespaces: []string{"on", "42"}})...)
	r := New(append(reads, read(2, "configmaps", catalog.Spec{FieldSelector: "metadata.name=a.b"})...), Options{
		Name:      "otelcol",
		Discovery: true,
		Subjects:  []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "1", Name: "true"}},
	})
	var text bytes.Buffer
	require.NoError(t, r.WriteYAML(&text))
	documents := bytes.Split(text.Bytes(), []byte("---\n"))
	objects := r.Objects()
	require.Len(t, documents, len(objects))
	for i, document := range documents {
		want, err := json.Marshal(objects[i])
		require.NoError(t, err)
		got, err := yaml.YAMLToJSONStrict(document)
		require.NoError(t, err, "%s", document)
		assert.JSONEq(t, string(want), string(got), "%s", document)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "1 resource, cluster-wide, no secrets.", New(read(0, "pods", catalog.Spec{}), Options{}).Summary())
	reads := append(read(0, "secrets", catalog.Spec{}), read(1, "pods", catalog.Spec{Namespaces: []string{"a", "b"}})...)
	assert.Equal(t, "2 resources, some only in their namespaces (2), including secrets, whose values the receiver masks.",
		New(reads, Options{}).Summary())
}
