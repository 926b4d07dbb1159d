package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// catchUp is the time that a reader or an authorizer may take, with other tests on the same cores.
const catchUp = 30 * time.Second

// result is how the command ended.
type result struct {
	code     int
	out, err string
}

// k8swatchlist runs the command.
func k8swatchlist(t *testing.T, args ...string) result {
	t.Helper()
	path := os.Getenv("K8SWATCHLIST_BINARY")
	if path == "" {
		t.Fatal("$K8SWATCHLIST_BINARY names no command: run `make test-command` in the repository's root, which builds it and sets the variable")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// writeFile writes a file that ends with the test, and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// running is a command that runs until it is interrupted.
type running struct {
	cmd       *exec.Cmd
	out, errs *output
}

// start starts the command. With out it writes there.
func start(t *testing.T, out io.Writer, args ...string) *running {
	t.Helper()
	r := &running{cmd: exec.CommandContext(t.Context(), os.Getenv("K8SWATCHLIST_BINARY"), args...), out: &output{}, errs: &output{}}
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.errs
	if out != nil {
		r.cmd.Stdout = out
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// interrupt presses Ctrl-C and returns the exit code.
func (r *running) interrupt(t *testing.T) int {
	t.Helper()
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	return r.wait(t)
}

func (r *running) wait(t *testing.T) int {
	t.Helper()
	err := r.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return r.cmd.ProcessState.ExitCode()
}

// output is what a running command has written.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the output has a text.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	harness.Poll(t, catchUp, fmt.Sprintf("the output to have %q", text), func() string {
		if s := o.String(); !strings.Contains(s, text) {
			return "it is:\n" + s
		}
		return ""
	})
}
