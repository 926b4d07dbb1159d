package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
)

// process is a running contender.
type process struct {
	*child.Child
	started time.Duration // clock.Now
	output  output
	metrics string // address, if it is a Collector

	sampling sync.WaitGroup
	stopped  chan struct{}
	mu       sync.Mutex
	samples  []sample
}

// sample is the resident memory at a time.
type sample struct {
	At       time.Duration // since the start
	Resident int64         // bytes
}

// samplePeriod is short enough to resolve a small initial state.
const samplePeriod = 20 * time.Millisecond

func startProcess(cmd *exec.Cmd, metrics string) (*process, error) {
	p := &process{metrics: metrics, stopped: make(chan struct{}), started: clock.Now()}
	var err error
	if p.Child, err = child.Start(cmd, &p.output); err != nil {
		return nil, err
	}
	p.sampling.Go(p.sample)
	return p, nil
}

func (p *process) sample() {
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for {
		if resident, err := residentOf(p.PID()); err == nil {
			p.mu.Lock()
			p.samples = append(p.samples, sample{clock.Now() - p.started, resident})
			p.mu.Unlock()
		}
		select {
		case <-ticker.C:
		case <-p.stopped:
			return
		}
	}
}

func (p *process) series() []sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]sample(nil), p.samples...)
}

// stop ends the process and waits for it.
func (p *process) stop() error {
	close(p.stopped)
	p.sampling.Wait()
	if !p.Running() {
		return fmt.Errorf("it ended unexpectedly: %w\n%s", errors.Join(p.Err()), p.Tail())
	}
	// contrib's receiver may take its time; the measurement is already over.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := p.Stop(ctx, syscall.SIGINT); err != nil {
		return fmt.Errorf("it did not end normally: %w\n%s", err, p.Tail())
	}
	return nil
}

// kill ends the process at once.
func (p *process) kill() error {
	close(p.stopped)
	p.sampling.Wait()
	if !p.Running() {
		return fmt.Errorf("it ended unexpectedly: %w\n%s", errors.Join(p.Err()), p.Tail())
	}
	_ = p.Kill() // how it ended is known
	return nil
}

// awaitOutput waits until the process has printed a text, and returns when that was seen.
func (p *process) awaitOutput(ctx context.Context, text string) (time.Duration, error) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !strings.Contains(p.output.String(), text) {
		select {
		case <-ticker.C:
		case <-p.Done():
			return 0, fmt.Errorf("it ended unexpectedly: %w\n%s", errors.Join(p.Err()), p.Tail())
		case <-ctx.Done():
			return 0, fmt.Errorf("it did not log %q: %w\n%s", text, ctx.Err(), p.Tail())
		}
	}
	return clock.Now(), nil
}

func (p *process) cpu() time.Duration {
	used, err := clock.CPU(p.PID())
	if err != nil {
		return 0 // it has ended, which the waiting code will notice
	}
	return used
}

// peakOf returns the peak of resident memory since the start, or the last resetPeak.
func peakOf(pid int) int64 {
	var kilobytes int64
	_, _ = fmt.Sscan(field(fmt.Sprintf("/proc/%d/status", pid), "VmHWM"), &kilobytes) // 0 if it has ended
	return kilobytes << 10
}

func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

func residentOf(pid int) (int64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(content))
	if len(fields) < 2 {
		return 0, errors.New("cannot read statm")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

const (
	// quiet is how long a process must have done nothing to count as idle: longer than a batch waits to fill.
	quiet = 400 * time.Millisecond
	// quietCPU is the CPU time that it may use in that time, for Go's runtime.
	quietCPU = 3 * time.Millisecond
)

// idle is when a process became idle, and its CPU time by then.
type idle struct{ since, cpu time.Duration }

// awaitIdle waits until the process has been idle for a while.
func (p *process) awaitIdle(ctx context.Context) (idle, error) {
	var seen []idle
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		now := idle{clock.Now(), p.cpu()}
		seen = append(seen, now)
		for len(seen) > 0 && now.since-seen[0].since >= quiet {
			if now.cpu-seen[0].cpu <= quietCPU {
				return seen[0], nil
			}
			seen = seen[1:]
		}
		select {
		case <-ticker.C:
		case <-p.Done():
			return idle{}, fmt.Errorf("it ended unexpectedly: %w\n%s", errors.Join(p.Err()), p.Tail())
		case <-ctx.Done():
			return idle{}, fmt.Errorf("it did not become idle: %w", ctx.Err())
		}
	}
}

// output keeps the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// results returns the results that a small program has printed so far.
func (o *output) results() ([]contender.Result, error) {
	var all []contender.Result
	for line := range strings.Lines(o.String()) {
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "\n") {
			continue
		}
		var r contender.Result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("cannot read the result: %w", err)
		}
		all = append(all, r)
	}
	return all, nil
}
