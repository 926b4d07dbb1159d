package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// unchanged matches the line of the table that has the Lease that was only renewed.
var unchanged = regexp.MustCompile(`leases\S+ +default +1 +1 +1 +0 +none`)

// A file agrees with the cluster while it is written, and each damage of it is found.
func TestVerifyFindsWhatIsWrongWithAFile(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "initial", 5, harness.SmallPod)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("one")}}
	leases := c.Client.CoordinationV1().Leases("default")
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "records.json")
	collector := harness.StartCollector(t, fmt.Sprintf(`receivers:
  k8s_watchlist:
    auth_type: kubeConfig
    kubeconfig: %q
    resources:
      - pods
      - {name: configmaps, namespaces: [default, kube-system]}
      - {name: leases.coordination.k8s.io, namespaces: [default]}
    batch: {max_records: 1}
exporters:
  file: {path: %q}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [file]}
`, c.Kubeconfig(), path))
	verify := func(path string, args ...string) result {
		return k8swatchlist(t, append([]string{"verify", path, "--kubeconfig", c.Kubeconfig()}, args...)...)
	}
	harness.Poll(t, catchUp, "the file to begin", func() string {
		content, err := os.ReadFile(path)
		if err != nil {
			return err.Error()
		}
		if n := strings.Count(string(content), "k8s.snapshot.end"); n < 4 {
			return fmt.Sprintf("it has %d of 4 sets of snapshots", n)
		}
		return ""
	})
	c.CreatePods(t, "live", 3, harness.SmallPod)
	c.ChangePods(t, "live", 2)
	c.DeletePods(t, "initial", 2)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a": "b"}}
	if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	renew := func(holder string) { // a renewal is not emitted, because it changes nothing
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"renewTime":%q}}`, holder, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
		if _, err := leases.Patch(t.Context(), "leader", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	renew("one")
	if r := verify(path, "--wait", "30s"); r.code != 0 || !unchanged.MatchString(r.out) || !strings.Contains(r.out, "The records agree with the cluster.") {
		t.Fatalf("a whole file: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	collector.Interrupt(t)

	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	last := func(parts ...string) int {
		t.Helper()
		for i, line := range slices.Backward(lines) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return i
			}
		}
		t.Fatalf("no record has all of %q", parts)
		return -1
	}
	without := func(i int) []string { return slices.Delete(slices.Clone(lines), i, i+1) }
	changed := func(i int, from, to string) []string {
		t.Helper()
		if !strings.Contains(lines[i], from) {
			t.Fatalf("%s is not in %s", from, lines[i])
		}
		all := slices.Clone(lines)
		all[i] = strings.ReplaceAll(all[i], from, to)
		return all
	}
	for name, damage := range map[string]struct {
		lines []string
		want  []string // "kind name"
	}{
		"nothing":                {lines: lines},
		"addition removed":       {lines: without(last("live-00002", "ADDED")), want: []string{"missing live-00002"}},
		"modification removed":   {lines: without(last("live-00000", "MODIFIED")), want: []string{"stale live-00000"}},
		"deletion removed":       {lines: without(last("initial-00000", "DELETED")), want: []string{"extra initial-00000"}},
		"snapshot removed":       {lines: without(last("initial-00003", "SNAPSHOT")), want: []string{"missing initial-00003", "incomplete "}},
		"addition of another":    {lines: without(last("settings", "ADDED")), want: []string{"missing settings"}},
		"addition repeated":      {lines: append(slices.Clone(lines), lines[last("live-00002", "ADDED")]), want: []string{"duplicate live-00002"}},
		"deletion repeated":      {lines: append(slices.Clone(lines), lines[last("initial-00000", "DELETED")]), want: []string{"duplicate initial-00000"}},
		"type changed":           {lines: changed(last("live-00000", "MODIFIED"), "MODIFIED", "DELETED"), want: []string{"missing live-00000", "altered live-00000"}},
		"name changed":           {lines: changed(last("live-00002", "ADDED"), "live-00002", "live-99999"), want: []string{"altered live-00002"}},
		"line cut":               {lines: changed(last("live-00002", "ADDED"), `"logRecords"`, `"logRec`), want: []string{"unreadable ", "missing live-00002"}},
		"whole history repeated": {lines: slices.Concat(lines, lines[last("initial-00004", "SNAPSHOT"):last("initial-00004", "SNAPSHOT")+1]), want: []string{"duplicate initial-00004"}},
	} {
		damaged := writeFile(t, "damaged.json", strings.Join(damage.lines, "\n")+"\n")
		r := verify(damaged, "--wait", "0s", "-o", "json")
		if wantCode := min(len(damage.want), 1); r.code != wantCode {
			t.Errorf("%s: exit code %d, want %d: %s", name, r.code, wantCode, r.err)
		}
		var found struct {
			Findings []struct{ Kind, Name string }
		}
		if err := json.Unmarshal([]byte(r.out), &found); err != nil {
			t.Fatalf("%s: %v: %s", name, err, r.out)
		}
		var got []string
		for _, f := range found.Findings {
			got = append(got, f.Kind+" "+f.Name)
		}
		slices.Sort(got)
		slices.Sort(damage.want)
		if !slices.Equal(got, damage.want) {
			t.Errorf("%s: found %q, want %q", name, got, damage.want)
		}
	}

	// A file that no longer follows the cluster is found, and a cluster that does not answer is no verdict.
	c.DeletePods(t, "live", 1)
	renew("two")
	if r := verify(path, "--wait", "0s"); r.code != 1 || !strings.Contains(r.out, "extra: pods default/live-00000") || !strings.Contains(r.out, "stale: leases.coordination.k8s.io default/leader") {
		t.Errorf("a file without the last change: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	if r := verify(writeFile(t, "empty.json", "")); r.code != 2 {
		t.Errorf("an empty file: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	if err := c.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if r := verify(path); r.code != 3 {
		t.Errorf("no API server: exit code %d\n%s%s", r.code, r.out, r.err)
	}
}

// Records of every shape agree with the cluster: with whole objects, parts of them, none but in an attribute, and with the
// last known state of what was deleted unseen, at other versions than the server's where nothing of substance has changed.
func TestVerifyUnderstandsEveryShapeOfRecords(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	etcd := harness.ConnectEtcd(t, c)
	proxy := harness.StartProxy(t, c.Address())
	kubeconfig := c.KubeconfigVia(t, c.RESTConfig(), proxy.Address())
	c.CreatePods(t, "deleted", 3, harness.SmallPod)
	c.CreatePods(t, "changed", 3, harness.SmallPod)
	leases := c.Client.CoordinationV1().Leases("default")
	for _, name := range []string{"leader", "large"} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("one"), Strategy: new(coordinationv1.OldestEmulationVersion)}}
		if name == "large" {
			lease.Annotations = map[string]string{"example.com/notes": strings.Repeat("many words ", 1000)}
		}
		if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	shapes := map[string]string{
		"map":       "resources: [{name: pods, diff: true}, {name: leases.coordination.k8s.io, namespaces: [default]}]",
		"json":      "{body: json, resources: [{name: pods, diff: true}, {name: leases.coordination.k8s.io, namespaces: [default]}]}",
		"attribute": "{body: summary, object_attribute: map, resource_grouping: object, resources: [{name: pods, diff: true}, {name: leases.coordination.k8s.io, namespaces: [default]}]}",
		"parts":     "{body: none, object_attribute: json, resource_grouping: namespace, resources: [{name: pods, diff: true, drop_fields: [status, spec.containers.*.env]}, {name: leases.coordination.k8s.io, namespaces: [default], keep_fields: [spec], drop_fields: [spec.strategy]}]}",
		"small":     "{max_record_bytes: 4096, resources: [{name: pods}, {name: leases.coordination.k8s.io, namespaces: [default]}]}",
	}
	type running struct {
		collector    *harness.Collector
		config, path string
	}
	collectors := make(map[string]running)
	for shape, receiver := range shapes {
		path := filepath.Join(t.TempDir(), "records.json")
		config := fmt.Sprintf(`receivers:
  k8s_watchlist: %s
exporters:
  file: {path: %q}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [file]}
`, receiver, path)
		if !strings.HasPrefix(receiver, "{") {
			config = strings.Replace(config, receiver, "{"+receiver+"}", 1)
		}
		access := "--config=yaml:" + "receivers::k8s_watchlist::auth_type: kubeConfig"
		collectors[shape] = running{
			harness.StartCollectorIn(t, []string{"KUBECONFIG=" + kubeconfig}, config, access, "--config=yaml:receivers::k8s_watchlist::batch::max_records: 1"),
			writeFile(t, "collector.yaml", config), path,
		}
		awaitInFile(t, path, "k8s.snapshot.end", 2)
	}
	for _, name := range []string{"leader", "large"} { // changes nothing
		patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
		if _, err := leases.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	proxy.Cut()
	c.DeletePods(t, "deleted", 3)
	c.ChangePods(t, "changed", 3)
	etcd.Compact(t)
	c.RestartAPIServer(t)
	proxy.Restore(t)
	for shape, r := range collectors {
		awaitInFile(t, r.path, "k8s.watch.gap", 1)
		awaitInFile(t, r.path, "DELETED", 3)
		result := k8swatchlist(t, "verify", r.path, "--kubeconfig", c.Kubeconfig(), "--config", r.config, "--wait", "30s", "-o", "json")
		var found struct {
			Resources []struct {
				Resource                           string
				Listed, Records, Unchanged, Masked int
			}
			Findings []any
		}
		if err := json.Unmarshal([]byte(result.out), &found); err != nil {
			t.Fatalf("%s: %v: %s%s", shape, err, result.out, result.err)
		}
		if result.code != 0 || len(found.Findings) > 0 || len(found.Resources) != 2 {
			t.Errorf("%s: exit code %d\n%s%s", shape, result.code, result.out, result.err)
			continue
		}
		masked := map[bool]int{true: 1}[shape == "small"]
		if l := found.Resources[0]; l.Unchanged != 2 || l.Masked != masked {
			t.Errorf("%s: of the two Leases that were renewed, %d are unchanged, %d of them as far as the record has them, want 2 and %d", shape, l.Unchanged, l.Masked, masked)
		}
	}
	// Without the configuration it is not known that parts were left out.
	parts := collectors["parts"]
	if result := k8swatchlist(t, "verify", parts.path, "--kubeconfig", c.Kubeconfig(), "--wait", "0s"); result.code != 1 || !strings.Contains(result.out, "stale: leases") {
		t.Errorf("parts, without their configuration: exit code %d\n%s%s", result.code, result.out, result.err)
	}
	// A last known state that is not of this object is found.
	whole := collectors["json"]
	content, err := os.ReadFile(whole.path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		if strings.Contains(line, "DELETED") {
			lines[i] = strings.Replace(line, `\"name\":\"deleted-`, `\"name\":\"another-`, 1)
		}
	}
	altered := writeFile(t, "altered.json", strings.Join(lines, "\n"))
	if result := k8swatchlist(t, "verify", altered, "--kubeconfig", c.Kubeconfig(), "--config", whole.config, "--wait", "0s"); result.code != 1 || strings.Count(result.out, "altered: pods default/deleted-") != 3 {
		t.Errorf("other last states: exit code %d\n%s%s", result.code, result.out, result.err)
	}
}
