package catalog

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Without the right to read the discovery documents, resources that do not need them can still be read.
func TestResourcesThatNeedNoDiscovery(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		namespaces    []string
		resource      string // "" if it needs discovery
		api           scope.API
	}{
		{name: "pods", resource: "pods", api: scope.API{Version: "v1", Kind: "Pod", Namespaced: true}},
		{name: "jobs", resource: "jobs.batch", api: scope.API{Version: "v1", Kind: "Job", Namespaced: true}},
		{name: "nodes", resource: "nodes", api: scope.API{Version: "v1", Kind: "Node"}},
		{name: "horizontalpodautoscalers", resource: "horizontalpodautoscalers.autoscaling", api: scope.API{Version: "v2", Kind: "HorizontalPodAutoscaler", Namespaced: true}},
		{name: "cronjobs.batch", version: "v1beta1", resource: "cronjobs.batch", api: scope.API{Version: "v1beta1", Kind: "CronJob", Namespaced: true}},
		{name: "widgets.example.com", version: "v1", resource: "widgets.example.com", api: scope.API{Version: "v1"}},
		{name: "widgets.example.com", version: "v1", namespaces: []string{"shop"}, resource: "widgets.example.com", api: scope.API{Version: "v1", Namespaced: true}},
		{name: "jobs.batch.volcano.sh"},
		{name: "widgets.example.com"},
		{name: "widgets"},
		{name: "widgets", version: "v1"},
	} {
		for _, spec := range Expand(0, tt.name, Spec{Version: tt.version, Namespaces: tt.namespaces}) {
			resource, api, ok := spec.withoutDiscovery()
			assert.Equal(t, tt.resource != "", ok, tt.name)
			assert.Equal(t, tt.resource, resource.String(), tt.name)
			assert.Equal(t, tt.api, api, tt.name)
		}
	}
}
