package child_test

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, script string) *child.Child {
	t.Helper()
	c, err := child.Start(exec.Command("sh", "-c", script), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Kill() })
	return c
}

// waitFor waits until the process has printed text, after which its traps are set.
func waitFor(t *testing.T, c *child.Child, text string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(c.Tail(), text) {
		if time.Now().After(deadline) {
			t.Fatalf("the process printed only %q", c.Tail())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestStopWaitsForACleanEnd(t *testing.T) {
	c := start(t, `trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	waitFor(t, c, "ready")
	if err := c.Stop(t.Context(), syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if c.Running() {
		t.Error("it still runs")
	}
	if !strings.HasSuffix(c.Tail(), "bye") {
		t.Errorf("it printed last: %q", c.Tail())
	}
	if err := c.Stop(t.Context(), syscall.SIGTERM); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	c := start(t, `trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	waitFor(t, c, "ready")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Stop(ctx, syscall.SIGTERM); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("how it ended: %v", err)
	}
	if err := syscall.Kill(c.PID(), 0); err != syscall.ESRCH {
		t.Errorf("process %d is still there: %v", c.PID(), err)
	}
}

func TestAnEndByItself(t *testing.T) {
	c := start(t, `echo "out of luck" >&2; exit 3`)
	<-c.Done()
	if err := c.Err(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("how it ended: %v", err)
	}
	if c.Tail() != "out of luck" {
		t.Errorf("it printed last: %q", c.Tail())
	}
}

func TestTheTailIsShortAndTheLogWhole(t *testing.T) {
	var log bytes.Buffer
	c, err := child.Start(exec.Command("sh", "-c", `i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); done`), &log)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if n := strings.Count(log.String(), "\n"); n != 2000 {
		t.Errorf("the log has %d lines", n)
	}
	tail := c.Tail()
	if !strings.HasPrefix(tail, "line ") || !strings.HasSuffix(tail, "line 1999") || len(tail) > 4<<10 {
		t.Errorf("the tail does not consist of whole lines: %d bytes, %.20q", len(tail), tail)
	}
}

func TestStartFails(t *testing.T) {
	if _, err := child.Start(exec.Command("/no/such/program"), nil); err == nil || !strings.Contains(err.Error(), "cannot start program") {
		t.Errorf("the error: %v", err)
	}
}
