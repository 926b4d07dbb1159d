package command

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
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
