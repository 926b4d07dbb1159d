package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
)

// swap measures the cost of a relist of unchanged pods while others change: our receiver's, and the next pull of
// k8sobjects.
func (s *Session) swap(ctx context.Context) error {
	large, small := 50000, swapPlotted
	if s.Quick {
		large, small = 0, 2000
	}
	if large > 0 {
		if err := s.swapOfAll(ctx, large, oursMap); err != nil {
			return err
		}
	}
	return s.swapOfAll(ctx, small, oursMap, peerPull)
}

// swapPlotted is the number of pods in the plot: with more, k8sobjects would take minutes.
const swapPlotted = 10000

func (s *Session) swapOfAll(ctx context.Context, objects int, contenders ...contenderKind) error {
	say("relist of %d pods of 8 KB while 200 per second change", objects)
	return s.onStage(func(st *stage) error {
		for _, k := range contenders {
			interval := 12 * time.Second
			if k.name == peerPull.name {
				interval = 40 * time.Second // counted from the beginning of the first pull, which has to be over
			}
			err := s.swapOf(ctx, st, k, objects, interval)
			for try := 0; errors.Is(err, errTooShort) && try < 3; try++ {
				interval *= 2
				say("  %v: again with %s", err, interval)
				err = s.swapOf(ctx, st, k, objects, interval)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, replay.Serves{Kind: corpus.Pods8K, Count: objects})
}

var errTooShort = errors.New("the relist began before the initial state was complete")

// span is a period of time.
type span struct{ From, To time.Duration }

func (s *Session) swapOf(ctx context.Context, st *stage, k contenderKind, objects int, interval time.Duration) error {
	const rate = 200
	to, err := startSink()
	if err != nil {
		return err
	}
	defer to.stop()
	mark := st.Mark()
	r, err := s.begin(ctx, st, k, setup{resources: podsOnly, otlp: to.address, relist: interval.String(), batch: smallestBatch}, objects)
	if err != nil {
		return err
	}
	receivedBefore := to.received()

	// The second request for all objects is the relist.
	var before, during usage
	var began time.Duration
	st.OnEvent(func(e replay.Event) {
		if e.Kind == replay.Began && began == 0 {
			began = e.At
			before = usageOf(r.process)
			_ = resetPeak(r.PID()) // otherwise the rise is measured from the earlier peak
		}
	})
	start := usageOf(r.process)
	err = resetPeak(r.PID())
	changing, enough := context.WithCancel(ctx)
	defer enough()
	pods := st.Resource("pods")
	made := make(chan int, 1)
	go func() { made <- st.ChangeAt(changing, pods, rate) }()
	var written replay.Event
	if err == nil {
		written, err = await(ctx, r.process, func(ctx context.Context) (replay.Event, error) { return st.Await(ctx, mark, replay.Written, 2) })
	}
	if err == nil {
		// The relist is over when the old stream has reached the new one, which takes a change or two. The rest of the
		// time is for contenders that have to emit what they have read.
		err = linger(ctx, r.process, settleSeconds)
	}
	if err == nil && k.name == peerPull.name {
		err = awaitRecords(ctx, r.process, to, receivedBefore+int64(objects)) // it emits everything again
	}
	during = usageOf(r.process)
	enough()
	changes := <-made
	st.OnEvent(nil)
	if err == nil {
		_, err = r.awaitIdle(ctx)
	}
	if err != nil {
		_ = r.stop()
		return err
	}
	if began == 0 {
		return errors.Join(fmt.Errorf("%s: %w", k.name, errTooShort), r.stop())
	}
	perSecond := (before.cpu - start.cpu).Seconds() / (before.at - start.at).Seconds()
	values := map[string]float64{
		"cpu_s":       (during.cpu - before.cpu).Seconds() - perSecond*(during.at-before.at).Seconds(),
		"rss_rise_mb": float64(max(0, during.peak-before.peak)) / 1e6,
		"before_mb":   float64(before.peak) / 1e6,
		"wall_s":      (written.At - began).Seconds(),
		"records":     float64(to.received() - receivedBefore),
	}
	if k.name == oursMap.name {
		values["records"] -= float64(changes)
		quiet, busy := split(to.Stamps(), st.Times(pods), began, written.At)
		values["quiet_p50_ms"], values["quiet_p99_ms"] = milliseconds(percentile(quiet, 0.5)), milliseconds(percentile(quiet, 0.99))
		values["swap_p50_ms"], values["swap_p99_ms"] = milliseconds(percentile(busy, 0.5)), milliseconds(percentile(busy, 0.99))
		values["swap_changes"] = float64(len(busy))
	}
	series := "swap"
	if objects > swapPlotted {
		series = "swap-large"
	}
	s.Results.addSeries(series, k, r.process, map[string]span{
		"initial state": {r.began - r.started, r.idle.since - r.started}, "relist": {began - r.started, written.At - r.started},
	})
	if err := r.finish(ctx, objects); err != nil {
		return err
	}
	s.Results.add("swap", k, objects, 0, values)
	return nil
}

// awaitRecords waits until the sink has that many records.
func awaitRecords(ctx context.Context, p *process, to *sink, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for to.received() < n {
		select {
		case <-ticker.C:
		case <-p.Done():
			return fmt.Errorf("it ended unexpectedly: %s", p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("waited for %d records, there are %d: %w", n, to.received(), ctx.Err())
		}
	}
	return nil
}

// settleSeconds is how long the measurement continues after the last byte of a relist.
const settleSeconds = 3

// usage is what a process has used up to some time.
type usage struct {
	at, cpu time.Duration
	peak    int64
}

func usageOf(p *process) usage { return usage{clock.Now(), p.cpu(), peakOf(p.PID())} }

// received returns how many records arrived.
func (s *sink) received() int64 { return s.progress.Objects.Load() + s.progress.Changes.Load() }

// split returns the delays of the changes before a span, and within it.
func split(stamps []contender.Stamp, times map[uint64]time.Duration, from, to time.Duration) (before, within []time.Duration) {
	for _, stamp := range stamps {
		switch happened, ok := times[stamp.Version]; {
		case !ok, happened > to:
		case happened < from:
			before = append(before, stamp.At-happened)
		default:
			within = append(within, stamp.At-happened)
		}
	}
	slices.Sort(before)
	slices.Sort(within)
	return before, within
}
