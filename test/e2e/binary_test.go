package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// toFile returns the configuration of a Collector that writes records to a file.
func toFile(receiver string) string {
	return `
receivers:
  k8s_watchlist:
` + indent(receiver) + `
exporters:
  file:
    path: ` + harness.OutputFile + `
    flush_interval: 100ms
service:
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [file]}
  telemetry:
    logs: {level: debug}
    metrics: {level: none}
`
}

func indent(yaml string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(yaml), "\n", "\n    ")
}

func TestStartWithAPIServerDown(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", 10, harness.SmallPod)
	if err := c.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	collector := harness.StartCollector(t, toFile(kubeconfig(c.Kubeconfig())+"resources: [{name: pods}]"))
	collector.AwaitLog(t, "cannot reach the API server", catchUp)

	door := harness.CloseDoor(t, c.Address())
	door.AwaitKnocks(t, 3, catchUp)
	door.Open()
	c.BringUpAPIServer(t)
	collector.Records.AwaitSnapshot(t, "pods", 2*catchUp)
	c.CreatePods(t, "live", 1, harness.SmallPod)
	collector.Records.AwaitFold(t, "pods", c.List(t, harness.Pods).State, catchUp)
	collector.Interrupt(t)

	if said := append(collector.LogLines("\twarn\t"), collector.LogLines("\terror\t")...); len(said) != 1 {
		t.Errorf("%d warnings are logged, want one: %q", len(said), said)
	}
}

func TestCollectorBinary(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	// Names in the configuration, with their resources.
	resources := map[string][]schema.GroupVersionResource{
		"namespaces":                {{Version: "v1", Resource: "namespaces"}},
		"nodes":                     {{Version: "v1", Resource: "nodes"}},
		"pods":                      {harness.Pods},
		"configmaps":                {{Version: "v1", Resource: "configmaps"}},
		"secrets":                   {{Version: "v1", Resource: "secrets"}},
		"events":                    {{Version: "v1", Resource: "events"}},
		"services":                  {{Version: "v1", Resource: "services"}},
		"deployments":               {{Group: "apps", Version: "v1", Resource: "deployments"}},
		"replicasets.apps":          {{Group: "apps", Version: "v1", Resource: "replicasets"}},
		"carts.sample.example.com":  {{Group: "sample.example.com", Version: "v1", Resource: "carts"}},
		"customresourcedefinitions": {{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}},
		"rbac": {
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		},
	}
	config := kubeconfig(c.Kubeconfig()) + "kube_api_qps: 50\nkube_api_burst: 50\nresources:\n"
	for name := range resources {
		config += fmt.Sprintf("- name: %s\n", name)
	}

	sample := c.Sample(t)
	collector := harness.StartCollector(t, toFile(config))
	for _, of := range resources {
		for _, resource := range of {
			collector.Records.AwaitSnapshot(t, harness.Name(resource), catchUp)
		}
	}

	// Every kind of change of the sample, some of them more than once.
	sample.Pace = 50 * time.Millisecond
	changing, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	sample.Run(changing)
	cancel()

	total := 0
	for _, of := range resources {
		for _, resource := range of {
			listed := c.List(t, resource)
			total += len(listed.State)
			collector.Records.AwaitFold(t, harness.Name(resource), listed.State, catchUp)
		}
	}
	collector.Interrupt(t)
	records := collector.Records.All()
	t.Logf("%d records of %d objects", len(records), total)
	requireNothingRecovered(t, records)
	for _, of := range resources {
		for _, resource := range of {
			requireOnceAndInOrder(t, harness.Objects(records, harness.Name(resource)))
		}
	}
}
