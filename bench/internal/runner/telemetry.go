package runner

import (
	"context"
	"fmt"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// The levels of telemetry that are compared. The first is what the others are divided by; the second is the same again and
// shows how exact the comparison is.
var telemetryLevels = []struct{ contender, level string }{
	{"no metrics", "none"},
	{"no metrics, again", "none"},
	{"level normal", "normal"},
	{"level detailed, and telemetry.detailed", "detailed"},
}

// telemetry measures what the Collector's own metrics, with those of the receiver, cost a live change. A Collector for each
// level reads the same changes at the same time, so that whatever else the machine does affects all. Each run starts them
// anew, in another order.
func (s *Session) telemetry(ctx context.Context) error {
	const rate = 1000
	seconds, runs := 10, s.Runs
	if s.Quick {
		seconds, runs = 2, 1
	}
	return s.onStage(func(st *stage) error {
		for run := range runs {
			say("%d changes per second of pods of 8 KB with each level of telemetry, run %d of %d", rate, run+1, runs)
			if err := s.telemetryRun(ctx, st, rate, seconds, run); err != nil {
				return err
			}
		}
		return nil
	}, replay.Serves{Kind: corpus.Pods8K, Count: livePods})
}

func (s *Session) telemetryRun(ctx context.Context, st *stage, rate, seconds, run int) (err error) {
	all := make([]*running, len(telemetryLevels))
	defer func() {
		for _, r := range all {
			if r == nil {
				continue
			}
			if stopped := r.stop(); err == nil {
				err = stopped
			}
		}
	}()
	for i := range telemetryLevels {
		i = (i + run) % len(telemetryLevels)
		l := telemetryLevels[i]
		k := contenderKind{name: l.contender, start: ours("map", now), collector: l.level != "none"}
		r, err := s.begin(ctx, st, k, setup{resources: podsOnly, telemetry: l.level}, livePods)
		if err != nil {
			return err
		}
		all[i] = r
	}
	before := make([]idle, len(all))
	for i, r := range all { // none does anything while another one starts, but for its runtime
		before[i] = idle{cpu: r.cpu()}
	}
	made := 0
	for range 2 { // with a request for the metrics after each part, more often than Prometheus usually makes one
		made += changeFor(ctx, st, st.Resource("pods"), rate, seconds)
		for _, r := range all {
			if !r.kind.collector {
				continue
			}
			if _, err := otelcol.ReadMetrics(ctx, r.metrics); err != nil {
				return err
			}
		}
	}
	used := make([]float64, len(all))
	for i, r := range all {
		end, err := r.awaitIdle(ctx)
		if err != nil {
			return err
		}
		used[i] = float64((end.cpu - before[i].cpu).Microseconds()) / float64(made)
	}
	for i, r := range all {
		if r.kind.collector {
			metrics, err := otelcol.ReadMetrics(ctx, r.metrics)
			if err != nil {
				return err
			}
			if n := int(metrics.Sum(acceptedRecords)); n < livePods+made {
				return fmt.Errorf("%s has emitted %d records, but there were %d objects and %d changes", r.kind.name, n, livePods, made)
			}
		}
		s.Results.add("telemetry", r.kind, livePods, run, map[string]float64{"cpu_us_event": used[i], "over_none": used[i] / used[0]})
	}
	return nil
}
