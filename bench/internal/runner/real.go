package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// real measures what the initial state costs a real API server and its client, for some numbers of pods.
func (s *Session) real(ctx context.Context) (err error) {
	say("starting etcd and kube-apiserver")
	plane, err := controlplane.Start(ctx, controlplane.Options{Binaries: s.ControlPlane})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	a, err := s.accessTo(plane)
	if err != nil {
		return err
	}
	exist := 0
	for _, pods := range s.Real {
		began := time.Now()
		if err := createPods(ctx, plane, exist, pods); err != nil {
			return err
		}
		exist = max(exist, pods)
		// The memory used for creating them must not be included.
		if err := errors.Join(plane.KillAPIServer(), plane.StartAPIServer(ctx)); err != nil {
			return err
		}
		bytes, err := servedBytes(ctx, plane)
		if err != nil {
			return err
		}
		say("%d pods of %d bytes exist, created in %s", exist, bytes, time.Since(began).Round(time.Second))
		if err := s.realWith(ctx, plane, a, exist); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) accessTo(plane *controlplane.ControlPlane) (access, error) {
	config := plane.RESTConfig()
	a := access{
		kubeconfig: plane.Kubeconfig(), server: config.Host, ca: filepath.Join(s.folder, "ca.pem"),
		certificate: filepath.Join(s.folder, "client.pem"), key: filepath.Join(s.folder, "client-key.pem"),
	}
	return a, errors.Join(
		os.WriteFile(a.ca, config.CAData, 0o600),
		os.WriteFile(a.certificate, config.CertData, 0o600),
		os.WriteFile(a.key, config.KeyData, 0o600),
	)
}

// createPods creates the pods from one number to another.
func createPods(ctx context.Context, plane *controlplane.ControlPlane, from, to int) error {
	config := plane.RESTConfig()
	config.ContentType = runtime.ContentTypeProtobuf // it costs both ends less
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	const writers = 16
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := from + w; i < to && ctx.Err() == nil; i += writers {
				pod := corpus.NewPod(seed+uint64(i%64), fmt.Sprintf("pod-%06d", i))
				if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					cancel(fmt.Errorf("cannot create a pod: %w", err))
				}
				if i%10_000 == 9999 {
					say("  %d pods", i+1)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// servedBytes returns the size of a pod as the API server sends it.
func servedBytes(ctx context.Context, plane *controlplane.ControlPlane) (int, error) {
	client, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		return 0, err
	}
	raw, err := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/pods/pod-000000").
		SetHeader("Accept", "application/json").DoRaw(ctx)
	return len(raw), err
}

// realKind is a contender with its requests to the API server.
type realKind struct {
	contenderKind
	setup
	times int  // how many run at once
	again bool // repeated in every run, and with many pods
}

func (s *Session) realWith(ctx context.Context, plane *controlplane.ControlPlane, a access, pods int) error {
	plain := setup{access: a, resources: podsOnly}
	compressed, metadata := plain, plain
	compressed.gzip, metadata.metadata = true, true
	metadataJSON := metadata
	metadataJSON.json = true
	called := func(k contenderKind, more string) contenderKind { k.name += ", " + more; return k }
	kinds := []realKind{
		{theFloor, plain, 1, true}, {called(theFloor, "metadata only"), metadata, 1, true},
		{called(theFloor, "metadata only, JSON"), metadataJSON, 1, true}, {called(theFloor, "compressed"), compressed, 1, false},
		{oursMap, plain, 1, true}, {oursJSON, plain, 1, true}, {called(oursMap, "compressed"), compressed, 1, false},
		{reflector, plain, 1, false}, {called(reflector, "compressed"), compressed, 1, false},
		{peerPull, compressed, 1, false}, // it has no such setting
		{called(theFloor, "five at once"), plain, 5, false}, {called(oursMap, "five at once"), plain, 5, false},
	}
	// The first client after its start pays for one-time work.
	if _, err := s.realOf(ctx, plane.APIServerPID(), realKind{theFloor, plain, 1, false}, pods); err != nil {
		return err
	}
	for run := range s.Runs {
		say("initial state of %d pods from kube-apiserver, run %d of %d", pods, run+1, s.Runs)
		for _, k := range kinds {
			if run > 0 && !k.again || pods > realInFull && !k.again && k.name != peerPull.name {
				continue // they take a long time
			}
			values, err := s.realOf(ctx, plane.APIServerPID(), k, pods)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			s.Results.add("real", k.contenderKind, pods, run, values)
		}
	}
	return nil
}

// realInFull is the maximum number of pods with which all contenders are measured on a real API server.
const realInFull = 20_000

// realOf measures one contender, or several at once. Here nothing reports the last byte written: a contender is
// complete when it says so, or its metrics show that it has emitted everything, and it then becomes idle.
func (s *Session) realOf(ctx context.Context, server int, k realKind, pods int) (values map[string]float64, err error) {
	// The API server's own background work is subtracted.
	background, err := cpuPerSecond(ctx, server, 2*time.Second)
	if err != nil {
		return nil, err
	}
	if err := resetPeak(server); err != nil {
		return nil, err
	}
	resident, err := residentOf(server)
	if err != nil {
		return nil, err
	}
	began := clock.Now()
	before, err := clock.CPU(server)
	if err != nil {
		return nil, err
	}
	all := make([]*running, 0, k.times)
	defer func() {
		for _, r := range all {
			if err != nil {
				_ = r.stop() // the first error is more useful
			} else {
				err = r.finish(ctx, pods)
			}
		}
	}()
	for range k.times {
		p, err := k.start(s, k.setup)
		if err != nil {
			return nil, err
		}
		all = append(all, &running{process: p, kind: k.contenderKind, values: map[string]float64{}})
	}
	var last time.Duration
	var used, peak float64
	for _, r := range all {
		if err := r.saysComplete(ctx, pods); err != nil {
			return nil, err
		}
		end, err := r.awaitIdle(ctx)
		if err != nil {
			return nil, err
		}
		last = max(last, end.since)
		used += end.cpu.Seconds()
		peak = max(peak, float64(peakOf(r.PID()))/1e6)
	}
	after, err := clock.CPU(server)
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		"cpu_total_s":    used,
		"peak_mb":        peak,
		"wall_s":         (last - began).Seconds(),
		"server_cpu_s":   (after - before).Seconds() - background*(clock.Now()-began).Seconds(),
		"server_peak_mb": float64(peakOf(server)) / 1e6,
		"server_rise_mb": float64(peakOf(server)-resident) / 1e6,
	}, nil
}

func cpuPerSecond(ctx context.Context, pid int, over time.Duration) (float64, error) {
	before, err := clock.CPU(pid)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(over):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := clock.CPU(pid)
	return (after - before).Seconds() / over.Seconds(), err
}

// saysComplete waits until the contender reports that it has read everything.
func (r *running) saysComplete(ctx context.Context, pods int) error {
	period := samplePeriod
	if r.kind.collector {
		period = 250 * time.Millisecond // each request costs the contender time
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if r.kind.collector {
			metrics, err := otelcol.ReadMetrics(ctx, r.metrics)
			if err == nil && int(metrics.Sum(acceptedRecords)) >= pods { // an error means that it is starting
				return nil
			}
		} else if strings.Contains(r.output.String(), contender.CompleteLine+"\n") {
			return nil
		}
		select {
		case <-ticker.C:
		case <-r.Done():
			return fmt.Errorf("it ended unexpectedly: %s", r.Tail())
		case <-ctx.Done():
			return fmt.Errorf("it did not read everything: %w", ctx.Err())
		}
	}
}
