package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

const (
	collectorNamespace = "observability"

	// receiver reads in every way that needs other rights.
	receiver = `resources:
  - pods
  - name: deployments
    namespaces: [shop]
  - name: configmaps
    field_selector: metadata.name=settings
  - widgets.example.com
  - "*.acme.example.org"
`
)

var readResources = []string{"pods", "deployments.apps", "configmaps", "widgets.example.com", "orders.acme.example.org"}

func TestCollectorRunsWithExactlyThePrintedRights(t *testing.T) {
	t.Parallel()
	c := startShop(t)
	for _, flags := range [][]string{nil, {"--watch-only"}} {
		account := "otelcol" + strings.Join(flags, "")
		apply(t, c, printed(t, account, flags...))
		kubeconfig := serviceAccount(t, c, account)
		awaitRights(t, c, account, "watch")
		collector := harness.StartCollector(t, collectorConfig(kubeconfig))
		for _, resource := range readResources {
			collector.Records.AwaitSnapshot(t, resource, catchUp)
		}
		c.CreatePods(t, account, 1, harness.SmallPod)
		collector.Records.AwaitObject(t, "pods", account+"-00000", "ADDED", catchUp)
		user := userOf(account)
		for _, resource := range []string{"customresourcedefinitions", "apiservices"} {
			harness.Poll(t, catchUp, resource+" to be watched", func() string {
				for _, request := range c.RequestsOf(t, user) {
					if request.ObjectRef.Resource == resource && request.Verb == "watch" && request.ResponseStatus.Code == 200 {
						return ""
					}
				}
				return "there is no such request"
			})
		}
		collector.Interrupt(t)
		requests := c.RequestsOf(t, user)
		for _, request := range requests {
			// Without the verb list the receiver tries it once where nothing was found, and streams again.
			if request.ResponseStatus.Code == 403 && (flags == nil || request.Verb != "list") {
				t.Errorf("with %v: forbidden: %s %s", flags, request.Verb, request.RequestURI)
			}
		}
		if len(requests) == 0 {
			t.Errorf("the audit log has no request of %s", user)
		}
		if lines := collector.LogLines("no right"); len(lines) > 0 {
			t.Errorf("with %v: the collector lacks rights: %q", flags, lines)
		}
	}
}

// Two replicas of which one takes over from the other need no more rights than are printed.
func TestReplicasRunWithExactlyThePrintedRights(t *testing.T) {
	t.Parallel()
	const account = "replica"
	const elected = "resources: [pods]\nleader_election: {enabled: true, retry_period: 1s}\n" // in the namespace of the pod
	c := harness.StartCluster(t, controlplane.Options{AuditLog: true})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: collectorNamespace}}
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, c, printedFor(t, elected, account))
	config := collectorConfigOf(elected, serviceAccount(t, c, account))
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Verb: "watch", Version: "v1", Resource: "pods"},
		{Verb: "get", Version: "v1", Group: "coordination.k8s.io", Resource: "leases", Namespace: collectorNamespace, Name: "k8s-watchlist-progress"},
	} {
		awaitRight(t, c, account, attributes)
	}
	start := func() *harness.Collector {
		return harness.StartCollectorIn(t, []string{"POD_NAMESPACE=" + collectorNamespace}, config)
	}
	first := start()
	first.AwaitLog(t, "this replica leads", catchUp)
	first.Records.AwaitSnapshot(t, "pods", catchUp)
	second := start()
	n := 0
	harness.Poll(t, catchUp, "the standby", func() string {
		if n > 0 && len(second.LogLines("standby is ready")) > 0 {
			return ""
		}
		c.CreatePods(t, fmt.Sprintf("before-%d", n), 1, harness.SmallPod) // the leader has to pass what the standby has read
		n++
		return "it is not ready"
	})
	first.Records.AwaitObject(t, "pods", fmt.Sprintf("before-%d-00000", n-1), "ADDED", catchUp)
	first.Interrupt(t)
	second.AwaitLog(t, "this replica leads", catchUp)
	c.CreatePods(t, "after", 1, harness.SmallPod)
	second.Records.AwaitObject(t, "pods", "after-00000", "ADDED", catchUp)
	second.Interrupt(t)

	leases := map[string]bool{}
	for _, request := range c.RequestsOf(t, userOf(account)) {
		if request.ResponseStatus.Code == 403 {
			t.Errorf("forbidden: %s %s", request.Verb, request.RequestURI)
		}
		if request.ObjectRef.Resource == "leases" {
			leases[request.Verb] = true
		}
	}
	if want := map[string]bool{"create": true, "get": true, "update": true}; !maps.Equal(leases, want) {
		t.Errorf("the verbs for Leases in the audit log are %v, want %v", leases, want)
	}
}

func TestEachPrintedRuleIsNeeded(t *testing.T) {
	t.Parallel()
	c := startShop(t)
	objects := printed(t, "complete")
	n := 0
	for i, object := range objects {
		rules, _, err := unstructured.NestedSlice(object.Object, "rules")
		if err != nil {
			t.Fatal(err)
		}
		for j := range rules {
			var rule rbacv1.PolicyRule
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(rules[j].(map[string]any), &rule); err != nil {
				t.Fatal(err)
			}
			account := fmt.Sprintf("without-%d", n)
			n++
			reduced := printed(t, account)
			if err := unstructured.SetNestedSlice(reduced[i].Object, slices.Delete(slices.Clone(rules), j, j+1), "rules"); err != nil {
				t.Fatal(err)
			}
			apply(t, c, reduced)
			r := harness.StartReceiver(t, fmt.Sprintf("auth_type: kubeConfig\nkubeconfig: %q\n%s", serviceAccount(t, c, account), receiver), nil)
			missing := strings.TrimSuffix(rule.Resources[0]+"."+rule.APIGroups[0], ".")
			text := rule.Resources[0]
			switch {
			case len(rule.ResourceNames) > 0 && rule.Resources[0] == "namespaces":
				text = rule.ResourceNames[0]
			case text == "*":
				text = "orders"
			}
			harness.Poll(t, catchUp, "the log to name the missing right to "+missing, func() string {
				for _, line := range r.Log.Lines(zapcore.InfoLevel, text) {
					if strings.Contains(line, "no right") || strings.Contains(line, "grant") {
						return ""
					}
				}
				return "it has:\n" + r.Log.String()
			})
			r.Shutdown(t)
		}
	}
	if n < 8 {
		t.Errorf("only %d rules were tested", n)
	}
}

// startShop starts a cluster with something of all that is read.
func startShop(t *testing.T) *harness.Cluster {
	t.Helper()
	c := harness.StartCluster(t, controlplane.Options{AuditLog: true})
	for _, name := range []string{collectorNamespace, "shop"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	if _, err := c.Client.CoreV1().ConfigMaps("shop").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	define(t, c, "widgets", "Widget", "example.com")
	define(t, c, "orders", "Order", "acme.example.org")
	return c
}

// define creates a CRD and waits until it is served.
func define(t *testing.T, c *harness.Cluster, plural, kind, group string) {
	t.Helper()
	defineIn(t, c, "Namespaced", plural, kind, group)
}

func defineIn(t *testing.T, c *harness.Cluster, scope, plural, kind, group string) {
	t.Helper()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": scope,
			"names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := c.Dynamic.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	served := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	harness.Poll(t, catchUp, plural+" to be served", func() string {
		if _, err := c.Dynamic.Resource(served).List(t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

// collectorConfig is the configuration of a Collector with the receiver above.
func collectorConfig(kubeconfig string) string { return collectorConfigOf(receiver, kubeconfig) }

func collectorConfigOf(receiver, kubeconfig string) string {
	indented := strings.ReplaceAll(strings.TrimSpace(receiver), "\n", "\n    ")
	return fmt.Sprintf(`receivers:
  k8s_watchlist:
    auth_type: kubeConfig
    kubeconfig: %q
    %s
exporters:
  file:
    path: %s
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [file]}
`, kubeconfig, indented, harness.OutputFile)
}

// printed returns what the command prints for a service account and the receiver above.
func printed(t *testing.T, account string, flags ...string) []*unstructured.Unstructured {
	t.Helper()
	return printedFor(t, receiver, account, flags...)
}

func printedFor(t *testing.T, receiver, account string, flags ...string) []*unstructured.Unstructured {
	t.Helper()
	config := writeFile(t, "collector.yaml", collectorConfigOf(receiver, "kubeconfig"))
	r := k8swatchlist(t, append([]string{
		"rbac", "--config", config, "--namespace", collectorNamespace, "--service-account", account, "--name", account, "--offline",
	}, flags...)...)
	if r.code != 0 {
		t.Fatalf("exit code %d: %s", r.code, r.err)
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(r.out), 1<<16)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); err == io.EOF {
			return objects
		} else if err != nil {
			t.Fatalf("%v: %s", err, r.out)
		}
		objects = append(objects, object)
	}
}

func apply(t *testing.T, c *harness.Cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		resource := rbacv1.SchemeGroupVersion.WithResource(strings.ToLower(object.GetKind()) + "s")
		client := c.Dynamic.Resource(resource).Namespace(object.GetNamespace())
		if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func serviceAccount(t *testing.T, c *harness.Cluster, name string) (kubeconfig string) {
	t.Helper()
	credentials, err := c.ServiceAccountCredentials(t.Context(), collectorNamespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return credentials.Kubeconfig
}

func userOf(account string) string {
	return "system:serviceaccount:" + collectorNamespace + ":" + account
}

// awaitRights waits until the API server's authorizer knows the last binding.
func awaitRights(t *testing.T, c *harness.Cluster, account, verb string) {
	t.Helper()
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Verb: verb, Version: "v1", Resource: "pods"},
		{Verb: verb, Version: "v1", Group: "apps", Resource: "deployments", Namespace: "shop"},
	} {
		awaitRight(t, c, account, attributes)
	}
}

func awaitRight(t *testing.T, c *harness.Cluster, account string, attributes authorizationv1.ResourceAttributes) {
	t.Helper()
	harness.Poll(t, catchUp, "the authorizer to know the bindings", func() string {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: userOf(account), ResourceAttributes: &attributes}}
		review, err := c.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !review.Status.Allowed {
			return review.Status.Reason
		}
		return ""
	})
}
