package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// smallestBatch sends each record without waiting for others.
const smallestBatch = "{timeout: 0s}"

// livePods is the number of pods that change.
const livePods = 1000

// live measures the cost of a change.
func (s *Session) live(ctx context.Context) error {
	const rate = 1000
	seconds, runs := 5, s.Runs
	if s.Quick {
		seconds, runs = 3, 1
	}
	return s.onStage(func(st *stage) error {
		for run := range runs {
			say("%d changes per second of pods of 8 KB, run %d of %d", rate, run+1, runs)
			for _, k := range []contenderKind{theFloor, oursMap, oursJSON, reflector, peerWatch} {
				if err := s.liveOf(ctx, st, k, "live", rate, seconds, run); err != nil {
					return err
				}
			}
		}
		return nil
	}, replay.Serves{Kind: corpus.Pods8K, Count: livePods})
}

func (s *Session) liveOf(ctx context.Context, st *stage, k contenderKind, scenario string, rate, seconds, run int) error {
	r, err := s.begin(ctx, st, k, setup{resources: podsOnly}, livePods)
	if err != nil {
		return err
	}
	before := r.cpu()
	made := changeFor(ctx, st, st.Resource("pods"), rate, seconds)
	end, err := r.awaitIdle(ctx)
	if err != nil {
		return err
	}
	r.values = map[string]float64{
		"cpu_us_event": float64((end.cpu - before).Microseconds()) / float64(made),
		"peak_mb":      float64(peakOf(r.PID())) / 1e6,
	}
	if k.collector {
		metrics, err := otelcol.ReadMetrics(ctx, r.metrics)
		if err != nil {
			return err
		}
		if n := int(metrics.Sum(acceptedRecords)); n < made {
			return fmt.Errorf("%s has emitted %d records, but there were %d changes", k.name, n, made)
		}
	}
	if err := r.finish(ctx, livePods); err != nil {
		return err
	}
	s.Results.add(scenario, k, livePods, run, r.values)
	return nil
}

func changeFor(ctx context.Context, st *stage, r *replay.Resource, rate, seconds int) int {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	return st.ChangeAt(ctx, r, rate)
}

// latency measures the time of a change from the server to the consumer.
func (s *Session) latency(ctx context.Context) error {
	seconds := 5
	if s.Quick {
		seconds = 2
	}
	for _, rate := range []int{100, 1000, 3000} {
		say("latency at %d changes per second", rate)
		err := s.onStage(func(st *stage) error {
			otlp := func(k contenderKind) contenderKind { k.name += "," + toOTLP; return k }
			contenders := []contenderKind{theFloor, ourLibrary, otlp(oursMap)}
			if rate <= 1000 {
				contenders = append(contenders, otlp(peerWatch)) // it cannot keep up with more
			}
			for _, k := range contenders {
				if err := s.latencyOf(ctx, st, k, rate, seconds); err != nil {
					return err
				}
			}
			return nil
		}, replay.Serves{Kind: corpus.Pods8K, Count: livePods})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) latencyOf(ctx context.Context, st *stage, k contenderKind, rate, seconds int) error {
	of := setup{resources: podsOnly, batch: smallestBatch}
	var to *sink
	if k.collector {
		var err error
		if to, err = startSink(); err != nil {
			return err
		}
		defer to.stop()
		of.otlp = to.address
	} else {
		of.stamps = filepath.Join(s.folder, "stamps")
	}
	r, err := s.begin(ctx, st, k, of, livePods)
	if err != nil {
		return err
	}
	from := uint64(len(st.Times(st.Resource("pods"))))
	made := changeFor(ctx, st, st.Resource("pods"), rate, seconds)
	if _, err := r.awaitIdle(ctx); err != nil {
		return err
	}
	if err := r.finish(ctx, livePods); err != nil {
		return err
	}
	var stamps []contender.Stamp
	if to != nil {
		stamps = to.Stamps()
	} else if stamps, err = contender.ReadStamps(of.stamps); err == nil {
		err = os.Remove(of.stamps)
	}
	if err != nil {
		return err
	}
	waits := delays(stamps, st.Times(st.Resource("pods")))
	if len(waits) < made {
		return fmt.Errorf("%s has emitted %d of %d changes (after %d)", k.name, len(waits), made, from)
	}
	s.Results.add("latency", k, rate, 0, map[string]float64{
		"p50_ms": milliseconds(percentile(waits, 0.5)), "p99_ms": milliseconds(percentile(waits, 0.99)), "max_ms": milliseconds(waits[len(waits)-1]),
	})
	return nil
}

// delays returns the sorted delays between changes and their arrival.
func delays(stamps []contender.Stamp, times map[uint64]time.Duration) []time.Duration {
	var waits []time.Duration
	for _, stamp := range stamps {
		if happened, ok := times[stamp.Version]; ok {
			waits = append(waits, stamp.At-happened)
		}
	}
	slices.Sort(waits)
	return waits
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
