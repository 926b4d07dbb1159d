package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// What client-go logs through klog is an entry of the Collector's log: here that a plugin for credentials fails after its
// token was refused. It recurs with each request and is logged once a minute.
func TestClientGoLogsThroughTheCollector(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	folder := t.TempDir()
	plugin, runs, path := filepath.Join(folder, "plugin"), filepath.Join(folder, "runs"), filepath.Join(folder, "kubeconfig")
	write := func(path, content string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	const token = "a-token-that-nobody-has-issued"
	write(plugin, `#!/bin/sh
echo run >> `+runs+`
[ $(grep -c run `+runs+`) = 1 ] || exit 7
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"`+token+`"}}'
`, 0o700)
	write(path, fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test}}]
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority-data: %s}}]
users: [{name: test, user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: %s}}}]
`, c.Address(), base64.StdEncoding.EncodeToString(c.RESTConfig().CAData), plugin), 0o600)

	collector := harness.StartCollector(t, toFile(kubeconfig(path)+"resources: [{name: pods}]"))
	collector.AwaitLog(t, "refreshing credentials", catchUp)
	ran := func() int {
		content, err := os.ReadFile(runs)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(content), "run")
	}
	harness.Poll(t, catchUp, "the plugin to fail again and again", func() string {
		if n := ran(); n < 4 {
			return fmt.Sprintf("it ran %d times", n)
		}
		return ""
	})
	collector.Interrupt(t)
	said := collector.LogLines("refreshing credentials")
	t.Log(said[0])
	for _, want := range []string{"\terror\t", "klog", "exit code 7", `"location": "exec.go:`} {
		if !strings.Contains(said[0], want) {
			t.Errorf("the entry lacks %s: %s", want, said[0])
		}
	}
	for _, line := range said {
		if !strings.Contains(line, "\terror\t") {
			t.Errorf("this is no entry of the Collector's log: %s", line)
		}
	}
	if n := ran(); len(said) > 1+n/3 {
		t.Errorf("%d entries for %d runs", len(said), n)
	}
	if strings.Contains(collector.Log(), token) {
		t.Error("the log has the token")
	}
}
