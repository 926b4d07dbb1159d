package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// output is what a command prints while it runs.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for !strings.Contains(o.String(), text) {
		select {
		case <-o.changed:
		case <-timeout:
			t.Fatalf("%q is not in %q", text, o)
		}
	}
}

// tailing runs tail until stop is called, which returns the exit code.
func tailing(t *testing.T, s *apiServer, args ...string) (out, err *output, stop func() int) {
	t.Helper()
	out, err = newOutput(), newOutput()
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	all := append([]string{"k8swatchlist", "tail", "--kubeconfig", s.start(t)}, args...)
	go func() { code <- run(ctx, all, streams{in: strings.NewReader(""), out: out, err: err}) }()
	return out, err, func() int {
		cancel()
		return <-code
	}
}

func TestTailLines(t *testing.T) {
	t.Parallel()
	s := &apiServer{version: "v1.37.2", objects: map[string]int{"pods": 3}}
	out, errs, stop := tailing(t, s, "pods")
	errs.await(t, "watching pods, objects: 3\n")
	s.events <- event("ADDED", "new", 10)
	s.events <- strings.Replace(event("MODIFIED", "pod-1", 11), `"nodeName":"n"`, `"nodeName":"m"`, 1)
	s.events <- event("DELETED", "new", 12)
	out.await(t, "  -  ")
	assert.Equal(t, exitFine, stop(), errs)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 3, out)
	assert.Regexp(t, `^\d\d:\d\d:\d\d\.\d{3}  \+  pods          shop/new$`, lines[0])
	assert.Regexp(t, `~  pods          shop/pod-1 +spec\.nodeName n → m$`, lines[1], "compared with the state at the start, which was not printed")
	assert.Regexp(t, `-  pods          shop/new$`, lines[2])
	assert.Contains(t, errs.String(), "3 records in ")
}

func TestTailPrintsTheInitialState(t *testing.T) {
	t.Parallel()
	s := &apiServer{version: "v1.37.2", objects: map[string]int{"pods": 3}}
	out, errs, stop := tailing(t, s, "pods", "--initial", "--types", "snapshot", "--color", "always")
	errs.await(t, "watching pods, objects: 3\n")
	out.await(t, "pod-2")
	assert.Equal(t, exitFine, stop(), errs)
	assert.Equal(t, 3, strings.Count(out.String(), "\x1b[2m"), out)
}

func TestTailMistakes(t *testing.T) {
	t.Parallel()
	s := &apiServer{version: "v1.37.2"}
	kubeconfig := s.start(t)
	for want, args := range map[string][]string{
		"name the resources":        nil,
		"added, modified, deleted":  {"pods", "--types", "added,new"},
		"only with --initial":       {"pods", "--types", "snapshot"},
		"line, json":                {"pods", "-o", "yaml"},
		"auto, always, never":       {"pods", "--color", "yes"},
		"-1s is negative":           {"pods", "--duration", "-1s"},
		"gizmos.example.com is not": {"gizmos.example.com"},
		"nodes is not in any":       {"nodes", "-n", "shop"},
		"are part of":               {"--config", "-", "-l", "a=b"},
	} {
		r := execute(t, podsConfig, append([]string{"tail", "--kubeconfig", kubeconfig}, args...)...)
		assert.Equal(t, exitUsage, r.code, args)
		assert.Contains(t, r.err, want)
	}
	two := "receivers: {k8s_watchlist: {resources: [pods]}, k8s_watchlist/b: {resources: [nodes]}}"
	r := execute(t, two, "tail", "--kubeconfig", kubeconfig, "--config", "-")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "choose one with --receiver")
	r = execute(t, two, "tail", "--kubeconfig", kubeconfig, "--config", "-", "--receiver", "k8s_watchlist", "--duration", "10ms")
	assert.Equal(t, exitFine, r.code, r.err)
	r = execute(t, "", "tail", "pods", "--kubeconfig", "/no/such/file")
	assert.Equal(t, exitUnreachable, r.code)
}
