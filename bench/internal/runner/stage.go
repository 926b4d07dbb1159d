package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// seed is constant, so that every run has the same objects.
const seed = 20260504

// timeout bounds every wait: a million objects on a busy machine.
const timeout = 10 * time.Minute

// stage is a replay server with the files for access to it.
type stage struct {
	*replay.Server
	access access
}

func (s *Session) startStage(resources ...replay.Serves) (*stage, error) {
	server, err := replay.Start(seed, resources...)
	if err != nil {
		return nil, err
	}
	st := &stage{Server: server, access: access{
		server: server.URL(), ca: filepath.Join(s.folder, "replay-ca.pem"), kubeconfig: filepath.Join(s.folder, "replay.kubeconfig"),
	}}
	err = os.WriteFile(st.access.ca, server.CA(), 0o600)
	if err == nil {
		err = server.WriteKubeconfig(st.access.kubeconfig)
	}
	if err != nil {
		_ = server.Close()
		return nil, err
	}
	return st, nil
}

// onStage starts a server, calls do with it and stops it.
func (s *Session) onStage(do func(*stage) error, resources ...replay.Serves) error {
	st, err := s.startStage(resources...)
	if err != nil {
		return err
	}
	err = do(st)
	if closed := st.Close(); err == nil {
		err = closed
	}
	return err
}

// running is a contender that has read the initial state and become idle.
type running struct {
	*process
	kind   contenderKind
	values map[string]float64
	began  time.Duration // the request for the initial state
	idle   idle
}

// begin starts a contender on a stage, and waits until it has read the initial state of its resources, which hold that
// many objects.
//
// Complete means the same for all: the server has written the last byte of the last initial state, and from some later
// time on the contender has used no processor time for the duration of quiet. That time is the end. Contenders that
// count must have counted all objects by then.
func (s *Session) begin(ctx context.Context, st *stage, k contenderKind, of setup, objects int) (*running, error) {
	of.access = st.access
	var began, cpuBegan time.Duration
	var p *process
	started := make(chan struct{})
	st.OnEvent(func(e replay.Event) {
		if e.Kind != replay.Began || began != 0 {
			return
		}
		<-started
		began, cpuBegan = e.At, p.cpu()
	})
	defer st.OnEvent(nil)
	mark, own := st.Mark(), ownCPU()
	var err error
	if p, err = k.start(s, of); err != nil {
		return nil, err
	}
	close(started)
	r := &running{process: p, kind: k}
	if err := r.initialState(ctx, st, mark, len(of.resources), objects); err != nil {
		_ = p.stop()
		return nil, fmt.Errorf("%s: %w", k.name, err)
	}
	st.OnEvent(nil) // began is no longer written
	written, err := st.Await(ctx, mark, replay.Written, len(of.resources))
	if err != nil {
		return nil, err
	}
	r.began = began
	r.values = map[string]float64{
		"cpu_s":        (r.idle.cpu - cpuBegan).Seconds(),
		"cpu_total_s":  r.idle.cpu.Seconds(),
		"wall_s":       (r.idle.since - began).Seconds(),
		"written_s":    (written.At - began).Seconds(),
		"peak_mb":      float64(peakOf(p.PID())) / 1e6,
		"server_cpu_s": (ownCPU() - own).Seconds(),
		"stream_mb":    float64(written.Bytes) / 1e6,
	}
	return r, nil
}

func (r *running) initialState(ctx context.Context, st *stage, mark, resources, objects int) error {
	if _, err := await(ctx, r.process, func(ctx context.Context) (replay.Event, error) {
		return st.Await(ctx, mark, replay.Written, resources)
	}); err != nil {
		return err
	}
	stalled := idle{since: clock.Now()} // when it stalled, and its CPU time then
	for {
		var err error
		if r.idle, err = r.awaitIdle(ctx); err != nil {
			return err
		}
		if !r.kind.collector || r.kind.silent {
			return nil
		}
		metrics, err := otelcol.ReadMetrics(ctx, r.metrics)
		if err != nil {
			return err
		}
		// A contender that sends everything at once is idle until the sink has read it.
		n := int(metrics.Sum(acceptedRecords))
		if n >= objects {
			return nil
		}
		if r.idle.cpu-stalled.cpu > stallCPU {
			stalled = r.idle
		} else if clock.Now()-stalled.since > stallTimeout {
			return fmt.Errorf("it is idle but has emitted only %d records of %d objects\n%s", n, objects, r.Tail())
		}
	}
}

// The Collector's own metrics.
const (
	acceptedRecords = "otelcol_receiver_accepted_log_records"
	allocatedBytes  = "otelcol_process_runtime_total_alloc_bytes"
)

const (
	// stallTimeout is how long a contender may wait for the sink.
	stallTimeout = time.Minute
	// stallCPU is more CPU time than the requests for its metrics cost in that time.
	stallCPU = 2 * time.Second
)

// await waits for something, and fails if the process ends.
func await[T any](ctx context.Context, p *process, what func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-p.Done():
			cancel(fmt.Errorf("it ended unexpectedly: %s", p.Tail()))
		case <-ctx.Done():
		}
	}()
	value, err := what(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	cancel(nil)
	<-done
	return value, err
}

// finish adds the allocations, if known, and ends the contender, which must have read that many objects.
func (r *running) finish(ctx context.Context, objects int) error {
	if r.kind.collector {
		metrics, err := otelcol.ReadMetrics(ctx, r.metrics)
		if err == nil {
			r.values["allocated_mb"] = metrics.Sum(allocatedBytes) / 1e6
		}
		if stopped := r.stop(); err == nil {
			err = stopped
		}
		return err
	}
	if err := r.stop(); err != nil {
		return err
	}
	results, err := r.output.results()
	if err != nil {
		return err
	}
	if len(results) == 0 || results[len(results)-1].Objects != int64(objects) {
		return fmt.Errorf("%s has read %+v instead of %d objects", r.kind.name, results, objects)
	}
	r.values["allocated_mb"] = float64(results[len(results)-1].AllocBytes) / 1e6
	return nil
}

// ownCPU returns the CPU time of this process: that of the server and, if there is one, the sink.
func ownCPU() time.Duration {
	used, err := clock.CPU(unix.Getpid())
	if err != nil {
		panic(err) // it is this process
	}
	return used
}
