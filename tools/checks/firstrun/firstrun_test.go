// Package firstrun measures what a newcomer waits for: `make run` in a fresh clone with empty Go caches.
package firstrun

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/checks/envtest"
)

// TestMeasureFirstRun runs `make run` until its first record, first with ready-made binaries from an index on loopback,
// then with binaries that are built. It takes up to an hour, so that only `make measure-first-run` runs it.
func TestMeasureFirstRun(t *testing.T) {
	if os.Getenv("MEASURE_FIRST_RUN") == "" {
		t.Skip("make measure-first-run runs this")
	}
	index := envtest.Serve(t, envtest.Archive(t, binaries(t, os.Getenv("KUBEBUILDER_ASSETS"))))
	for _, way := range []struct{ name, variable string }{
		{"ready-made etcd and kube-apiserver, from an index on loopback", "ENVTEST_INDEX=" + index.Address()},
		{"etcd and kube-apiserver built from source", "CONTROL_PLANE=build"},
	} {
		t.Run(way.name, func(t *testing.T) { measure(t, way.variable) })
	}
}

func measure(t *testing.T, variable string) {
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.Command("git", "clone", "--quiet", "../../..", clone).CombinedOutput(); err != nil {
		t.Fatalf("cannot clone the repository: %v\n%s", err, out)
	}
	run := exec.Command("make", "run")
	run.Dir = clone
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that the interrupt reaches what make has started
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); name != "KUBECONFIG" && name != "KUBEBUILDER_ASSETS" {
			run.Env = append(run.Env, entry)
		}
	}
	run.Env = append(run.Env, "GOCACHE="+t.TempDir(), "GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw", variable)
	run.Stderr = os.Stderr
	output, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	var first time.Duration
	for lines := bufio.NewScanner(output); lines.Scan(); {
		fmt.Fprintln(os.Stderr, lines.Text())
		if first == 0 && strings.HasPrefix(lines.Text(), "SNAPSHOT") {
			first = time.Since(began)
			if err := syscall.Kill(-run.Process.Pid, syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
	}
	_ = run.Wait() // make reports the interrupt as an error
	if first == 0 {
		t.Fatal("make run ended before its first record")
	}
	state := run.ProcessState
	t.Logf("first record after %s; %s of CPU time on %d cores", first.Round(time.Second),
		(state.UserTime() + state.SystemTime()).Round(time.Second), runtime.NumCPU())
}

// binaries returns the content of etcd and kube-apiserver in a folder.
func binaries(t *testing.T, folder string) map[string]string {
	t.Helper()
	programs := map[string]string{}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		content, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // the folder is that of the command
		if err != nil {
			t.Fatal(err)
		}
		programs[name] = string(content)
	}
	return programs
}
