package command

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// checked is the part of check's result that the tests look at.
type checked struct {
	User      string
	Version   string
	Streams   bool `json:"streams_initial_state"`
	Resources []checkedResource
	Estimate  struct {
		Streams, Objects int64
		Complete         bool
	}
	Warnings []string
	Missing  map[string]string `json:"missing_rules"`
	Optional map[string]string `json:"optional_rules"`
}

type checkedResource struct {
	Resource, Scope, State string
	MatchedBy              string `json:"matched_by"`
	Objects, Bytes         *int64
	Streams                int
	Rights, Lacks, Notes   []string
}

func check(t *testing.T, wantCode int, args ...string) checked {
	t.Helper()
	r := k8swatchlist(t, append([]string{"check", "-o", "json"}, args...)...)
	if r.code != wantCode {
		t.Fatalf("exit code %d, want %d: %s%s", r.code, wantCode, r.out, r.err)
	}
	var reports []checked
	if err := json.Unmarshal([]byte(r.out), &reports); err != nil || len(reports) != 1 {
		t.Fatalf("%v: %s", err, r.out)
	}
	return reports[0]
}

// row describes a resource of the result.
func (c checked) row(t *testing.T, resource string) string {
	t.Helper()
	for _, r := range c.Resources {
		if r.Resource != resource {
			continue
		}
		objects := "?"
		if r.Objects != nil {
			objects = fmt.Sprint(*r.Objects)
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s %s objects %s streams %d may %s %s", r.MatchedBy, r.Scope, r.State, objects, r.Streams,
			strings.Join(r.Rights, ","), strings.Join(r.Lacks, ",")))
	}
	t.Fatalf("%s is not in the result: %+v", resource, c)
	return ""
}

const checkedConfig = `receivers:
  k8s_watchlist:
    resources:
      - {name: pods, label_selector: "app in (one, two)"}
      - {name: configmaps, namespaces: [shop, default]}
      - secrets
      - leases.coordination.k8s.io
      - gizmos.example.com
      - "*.acme.example.org"
      - {name: deployments, diff: true}
    leader_election: {enabled: true}
    shard: {total: 2, index: 0}
`

// check shows what will be read and counts it, and what it says is missing is what is missing.
func TestCheck(t *testing.T) {
	t.Parallel()
	c := startShop(t)
	c.CreatePods(t, "web", 25, harness.SmallPod)
	config := writeFile(t, "collector.yaml", checkedConfig)
	admin := check(t, 0, "--config", config, "--kubeconfig", c.Kubeconfig())
	for resource, want := range map[string]string{
		"pods":                    "resources[0] cluster readable objects 0 streams 1 may watch,list",
		"configmaps":              "resources[1] 2 namespaces readable objects 1 streams 2 may watch,list",
		"secrets":                 "resources[2] cluster readable objects 0 streams 1 may watch,list",
		"gizmos.example.com":      "resources[4] - not_served objects ? streams 0 may",
		"orders.acme.example.org": "resources[5] cluster readable objects 0 streams 1 may watch,list",
		"deployments.apps":        "resources[6] cluster readable objects 0 streams 1 may watch,list",
	} {
		if got := admin.row(t, resource); resource != "configmaps" && got != want {
			t.Errorf("%s: %s, want %s", resource, got, want)
		} else if resource == "configmaps" && !strings.HasPrefix(got, "resources[1] 2 namespaces readable") {
			t.Errorf("%s: %s, want %s", resource, got, want)
		}
	}
	if admin.Version == "" || !admin.Streams || admin.User == "" || len(admin.Missing)+len(admin.Optional) > 0 || admin.Estimate.Streams != 2+7 {
		t.Errorf("the result is %+v", admin)
	}
	counting := writeFile(t, "counting.yaml", "receivers: {k8s_watchlist: {resources: [pods, {name: nodes, field_selector: metadata.name=none}]}}")
	if got := check(t, 0, "--config", counting, "--kubeconfig", c.Kubeconfig()); got.row(t, "pods") != "resources[0] cluster readable objects 25 streams 1 may watch,list" || got.Estimate.Objects != 25 || !got.Estimate.Complete {
		t.Errorf("25 pods: %+v", got)
	}
	selecting := writeFile(t, "selecting.yaml", `receivers: {k8s_watchlist: {resources: [{name: pods, field_selector: "metadata.namespace=default"}]}}`)
	if got := check(t, 0, "--config", selecting, "--kubeconfig", c.Kubeconfig()).row(t, "pods"); got != "resources[0] cluster readable objects 25 streams 1 may watch,list" {
		t.Errorf("25 pods with a selector: %s\n%s", got, k8swatchlist(t, "check", "--config", selecting, "--kubeconfig", c.Kubeconfig()).out)
	}

	// With the rules that it prints, one after the other, nothing is missing.
	user := "--as=" + userOf("nobody")
	before := check(t, 1, "--config", config, "--kubeconfig", c.Kubeconfig(), user)
	if before.User != userOf("nobody") || len(before.Missing) != 4 || before.Missing[collectorNamespace] == "" || before.Missing[""] == "" || before.Missing["shop"] == "" || before.Missing["default"] == "" {
		t.Errorf("without any right: %+v", before)
	}
	if got := before.row(t, "pods"); got != "resources[0] cluster forbidden objects ? streams 1 may  watch" {
		t.Errorf("without any right: %s", got)
	}
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: collectorNamespace, Name: "nobody"}}
	for n, rules := range []map[string]string{before.Missing, before.Optional} {
		for namespace, text := range rules {
			var policies []rbacv1.PolicyRule
			if err := yaml.UnmarshalStrict([]byte(text), &policies); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			meta := metav1.ObjectMeta{Name: fmt.Sprintf("added-%d", n), Namespace: namespace}
			ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}
			client := c.Client.RbacV1()
			var errs [2]error
			if namespace == "" {
				_, errs[0] = client.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: policies}, metav1.CreateOptions{})
				_, errs[1] = client.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subject}, metav1.CreateOptions{})
			} else {
				ref.Kind = "Role"
				_, errs[0] = client.Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: policies}, metav1.CreateOptions{})
				_, errs[1] = client.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subject}, metav1.CreateOptions{})
			}
			for _, err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		// The authorizer learns of roles by a watch.
		harness.Poll(t, catchUp, "the rules that were added to be all", func() string {
			r := k8swatchlist(t, "check", "--config", config, "--kubeconfig", c.Kubeconfig(), user)
			if r.code != 0 || n == 1 && strings.Contains(r.out, "apiGroups") {
				return fmt.Sprintf("exit code %d\n%s%s", r.code, r.out, r.err)
			}
			return ""
		})
	}
}

// Without the verb list everything can be read, but not counted.
func TestCheckWithoutList(t *testing.T) {
	t.Parallel()
	c := startShop(t)
	apply(t, c, printed(t, "watcher", "--watch-only"))
	kubeconfig := serviceAccount(t, c, "watcher")
	awaitRights(t, c, "watcher", "watch")
	config := writeFile(t, "collector.yaml", collectorConfig(kubeconfig))
	got := check(t, 0, "--config", config) // with the credentials of the configuration
	if row := got.row(t, "pods"); row != "resources[0] cluster readable objects ? streams 1 may watch" {
		t.Errorf("pods: %s", row)
	}
	if got.User != userOf("watcher") || got.Estimate.Complete {
		t.Errorf("the result is %+v", got)
	}
	i := slices.IndexFunc(got.Resources, func(r checkedResource) bool { return r.Resource == "pods" })
	if notes := strings.Join(got.Resources[i].Notes, "; "); !strings.Contains(notes, "without list") {
		t.Errorf("the notes on pods are %q", notes)
	}
	table := k8swatchlist(t, "check", "--config", config)
	if !regexp.MustCompile(`(?m)^configmaps +resources\[2\] +cluster +\? +1 +watch +without list`).MatchString(table.out) {
		t.Errorf("the table is\n%s", table.out)
	}
}

func TestCheckExitCodes(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	config := writeFile(t, "collector.yaml", "receivers: {k8s_watchlist: {resources: [pods]}}")
	defineIn(t, c, "Cluster", "cronpolicies", "CronPolicy", "example.com")
	for name, test := range map[string]struct {
		code int
		args []string
		text string
	}{
		"a wrong key":        {2, []string{"--config", writeFile(t, "bad.yaml", "receivers: {k8s_watchlist: {resource: [pods]}}")}, "resource"},
		"no configuration":   {2, nil, "--config"},
		"a wrong format":     {2, []string{"--config", config, "-o", "html"}, "table, json, yaml"},
		"no such kubeconfig": {3, []string{"--config", config, "--kubeconfig", "/nowhere"}, "/nowhere"},
		"what has no namespace": {1, []string{"--kubeconfig", c.Kubeconfig(), "--config",
			writeFile(t, "scope.yaml", "receivers: {k8s_watchlist: {resources: [{name: cronpolicies.example.com, namespaces: [default]}]}}")}, "not namespaced"},
		"namespaces of a resource that has none": {2, []string{"--kubeconfig", c.Kubeconfig(), "--config",
			writeFile(t, "namespaces.yaml", "receivers: {k8s_watchlist: {resources: [{name: nodes, namespaces: [default]}]}}")}, "not in any namespace"},
	} {
		r := k8swatchlist(t, append([]string{"check"}, test.args...)...)
		if r.code != test.code || !strings.Contains(r.out+r.err, test.text) {
			t.Errorf("%s: exit code %d, want %d with %q\n%s%s", name, r.code, test.code, test.text, r.out, r.err)
		}
	}
	if err := c.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if r := k8swatchlist(t, "check", "--config", config, "--kubeconfig", c.Kubeconfig()); r.code != 3 {
		t.Errorf("no API server: exit code %d\n%s%s", r.code, r.out, r.err)
	}
}
