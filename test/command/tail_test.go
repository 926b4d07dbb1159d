package command

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// tail prints what happens after it has begun to watch, filtered, redacted, and ends with Ctrl-C.
func TestTail(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "before", 2, harness.SmallPod)
	access := []string{"--kubeconfig", c.Kubeconfig()}
	lines := start(t, nil, append(access, "tail", "pods", "configmaps", "-n", "default")...)
	filtered := start(t, nil, append(access, "tail", "pods", "--name", "web-*1", "--types", "added,deleted", "--color", "always")...)
	jsons := start(t, nil, append(access, "tail", "pods", "secrets", "--initial", "-o", "json")...)
	all := []*running{lines, filtered, jsons}
	for _, r := range all {
		r.errs.await(t, "watching pods")
	}
	lines.errs.await(t, "watching configmaps")
	jsons.errs.await(t, "watching secrets")

	c.CreatePods(t, "web", 2, harness.SmallPod)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Labels: map[string]string{"tier": "one"}}}
	configMaps := c.Client.CoreV1().ConfigMaps("default")
	if _, err := configMaps.Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := configMaps.Patch(t.Context(), "settings", types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"two"}}}`), metav1.PatchOptions{FieldManager: "tester"}); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "login"}, StringData: map[string]string{"password": "it-was-blue-once"}}
	if _, err := c.Client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.DeletePods(t, "web", 2)
	lines.out.await(t, "two")
	jsons.out.await(t, "login")
	for _, r := range all {
		harness.Poll(t, catchUp, "the deletion to be printed", func() string {
			if s := r.out.String(); !regexp.MustCompile(`web-00001.*DELETED|DELETED.*web-00001|-  pods .*web-00001`).MatchString(s) {
				return "it is:\n" + s + r.errs.String()
			}
			return ""
		})
		if code := r.interrupt(t); code != 0 {
			t.Errorf("exit code %d after Ctrl-C: %s", code, r.errs)
		}
	}

	for _, want := range []string{
		`^[0-9:.]+  \+  pods          default/web-00000\b`,
		`^[0-9:.]+  \+  configmaps    default/settings\b`,
		`^[0-9:.]+  ~  configmaps    default/settings +metadata\.labels\.tier one → two \(tester\)$`,
		`^[0-9:.]+  -  pods          default/web-00001$`,
	} {
		if !regexp.MustCompile("(?m)" + want).MatchString(lines.out.String()) {
			t.Errorf("no line is like %q:\n%s", want, lines.out)
		}
	}
	for _, r := range []*running{lines, filtered} {
		if text := r.out.String(); strings.Contains(text, "before-") {
			t.Errorf("what existed before is printed:\n%s", text)
		}
	}
	if text := lines.out.String(); strings.Contains(text, "\x1b") {
		t.Errorf("what is no terminal is coloured:\n%q", text)
	}
	if text := filtered.out.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "web-00001") != 2 || !strings.HasPrefix(text, "\x1b[32m") {
		t.Errorf("with filters:\n%q", text)
	}

	// Lines of JSON are records, with the objects that were there at first.
	var records []fold.Record
	for line := range strings.Lines(jsons.out.String()) {
		logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(line))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if n := logs.LogRecordCount(); n != 1 {
			t.Errorf("%d records are on a line", n)
		}
		records = append(records, fold.FromLogs(logs)...)
	}
	listed := c.List(t, harness.Pods).State
	maps.Copy(listed, c.List(t, corev1.SchemeGroupVersion.WithResource("secrets")).State)
	if found := fold.Fold(records).Differences(listed); len(found) > 0 {
		t.Errorf("the records are not what is in the cluster: %q", found)
	}
	if text := jsons.out.String(); strings.Contains(text, "it-was-blue-once") || strings.Contains(text, "aXQtd2FzLWJsdWUtb25jZQ") {
		t.Error("the value of a Secret is printed")
	}
}

// With the configuration of a Collector it emits what the Collector would.
func TestTailOfAConfiguration(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	config := writeFile(t, "collector.yaml", `receivers:
  k8s_watchlist:
    auth_type: kubeConfig
    kubeconfig: `+c.Kubeconfig()+`
    storage: file_storage
    cluster_name: prod-eu-1
    body: json
    resources:
      - {name: pods, drop_fields: [spec.containers]}
      - configmaps
`)
	r := start(t, nil, "tail", "--config", config, "-o", "json", "pods", "--namespace", "def*")
	r.errs.await(t, "watching pods")
	c.CreatePods(t, "web", 1, harness.SmallPod)
	r.out.await(t, "web-00000")
	if code := r.interrupt(t); code != 0 {
		t.Errorf("exit code %d: %s", code, r.errs)
	}
	text := r.out.String()
	for _, want := range []string{"prod-eu-1", `\"kind\":\"Pod\"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	for _, not := range []string{`\"containers\"`, "configmaps"} {
		if strings.Contains(text, not) {
			t.Errorf("%q is in %s", not, text)
		}
	}
}

func TestTailEnds(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	tail := func(args ...string) result {
		return k8swatchlist(t, append([]string{"tail", "--kubeconfig", c.Kubeconfig()}, args...)...)
	}
	if r := tail("pods", "--duration", "100ms"); r.code != 0 || !strings.Contains(r.err, "records in") {
		t.Errorf("after its time: exit code %d: %s%s", r.code, r.out, r.err)
	}
	for name, test := range map[string]struct {
		args []string
		text string
	}{
		"nothing":                 {nil, "name the resources"},
		"a resource of no server": {[]string{"gizmos.example.com"}, "not served"},
		"an unknown type":         {[]string{"pods", "--types", "changed"}, "added, modified, deleted"},
		"a bad selector":          {[]string{"pods", "-l", "a=b=c"}, "label_selector"},
	} {
		if r := tail(test.args...); r.code != 2 || !strings.Contains(r.err, test.text) {
			t.Errorf("%s: exit code %d, want 2 with %q: %s%s", name, r.code, test.text, r.out, r.err)
		}
	}

	// An output that nobody reads keeps no one from ending it.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close() //nolint:errcheck // nothing is read
	r := start(t, write, "tail", "--kubeconfig", c.Kubeconfig(), "configmaps", "clusterroles.rbac.authorization.k8s.io", "--initial", "-o", "json")
	if err := write.Close(); err != nil { // the command has its own
		t.Fatal(err)
	}
	r.errs.await(t, "watching clusterroles")
	if code := r.interrupt(t); code != 0 {
		t.Errorf("exit code %d: %s", code, r.errs)
	}
	r.errs.await(t, "left out")
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}

	if err := c.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if r := tail("pods"); r.code != 3 {
		t.Errorf("no API server: exit code %d\n%s%s", r.code, r.out, r.err)
	}
}
