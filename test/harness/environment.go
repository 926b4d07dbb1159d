package harness

import (
	"os"
	"path/filepath"
	"testing"
)

const runIt = "run `make test-e2e` in the repository's root, which builds it and sets the variable"

// binaries returns the folder of etcd and kube-apiserver.
func binaries(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	if folder == "" {
		t.Fatal("$KUBEBUILDER_ASSETS names no control plane: " + runIt)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		requireFile(t, "KUBEBUILDER_ASSETS", filepath.Join(folder, name))
	}
	return folder
}

// collectorBinary returns the path of the Collector.
func collectorBinary(t testing.TB) string {
	t.Helper()
	return binaryOf(t, "OTELCOL_BINARY")
}

// peerBinary is the path of the Collector with contrib's receivers.
func peerBinary(t testing.TB) string {
	t.Helper()
	return binaryOf(t, "OTELCOL_PEER_BINARY")
}

// electorBinary is the path of the Collector with our receiver and the extension k8s_leader_elector.
func electorBinary(t testing.TB) string {
	t.Helper()
	return binaryOf(t, "OTELCOL_ELECTOR_BINARY")
}

func binaryOf(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatal("$" + variable + " names no collector: " + runIt)
	}
	requireFile(t, variable, path)
	return path
}

func requireFile(t testing.TB, variable, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("$%s: %v: %s", variable, err, runIt)
	}
}
