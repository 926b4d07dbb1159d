package harness

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Kubectl runs the real kubectl with the rights of an administrator, a manifest on its standard input.
func (c *Cluster) Kubectl(t testing.TB, manifest string, args ...string) {
	t.Helper()
	args = append([]string{"--kubeconfig=" + c.Kubeconfig(), "--cache-dir=" + t.TempDir()}, args...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.binaries, "kubectl"), args...)
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl: %v: %s", err, out)
	}
}
