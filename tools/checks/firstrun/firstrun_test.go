// Package firstrun measures what a newcomer waits for: `make run` in a fresh clone with empty Go caches.
package firstrun

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const version = "v1.37.2"

// TestMeasureFirstRun runs `make run` until its first record, first with ready-made binaries from an index on loopback,
// then with binaries that are built. It takes up to an hour, so that only `make measure-first-run` runs it.
func TestMeasureFirstRun(t *testing.T) {
	if os.Getenv("MEASURE_FIRST_RUN") == "" {
		t.Skip("make measure-first-run runs this")
	}
	index := serveIndex(t, os.Getenv("KUBEBUILDER_ASSETS"))
	for _, way := range []struct{ name, variable string }{
		{"ready-made etcd and kube-apiserver, from an index on loopback", "ENVTEST_INDEX=" + index + "/index"},
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

// serveIndex serves the binaries in folder as setup-envtest expects them, and returns the address.
func serveIndex(t *testing.T, folder string) string {
	t.Helper()
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	files := tar.NewWriter(compressed)
	for _, name := range []string{"etcd", "kube-apiserver"} {
		content, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // the folder is that of the command
		if err != nil {
			t.Fatal(err)
		}
		header := &tar.Header{Name: "controller-tools/envtest/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}
		if err := files.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(packed.Bytes())
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/archive" {
			_, _ = w.Write(packed.Bytes())
			return
		}
		_, _ = fmt.Fprintf(w, "releases:\n  %[1]s:\n    envtest-%[1]s-%[2]s-%[3]s.tar.gz: {hash: %[4]s, selfLink: %[5]s/archive}\n",
			version, runtime.GOOS, runtime.GOARCH, hex.EncodeToString(sum[:]), server.URL)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
