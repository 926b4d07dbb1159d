package runner

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
)

// inventory measures our receiver's memory per object: the difference between one that knows many and one that knows a
// few, both after a garbage collection.
func (s *Session) inventory(ctx context.Context) error {
	few, many := 1000, 1_000_000
	if s.Quick {
		many = 50_000
	}
	var kept [2]keeps
	for i, objects := range []int{few, many} {
		say("memory per object with %d pods", objects)
		err := s.onStage(func(st *stage) error {
			var err error
			kept[i], err = s.keepsOf(ctx, st, objects)
			return err
		}, replay.Serves{Kind: corpus.Pods2K, Count: objects})
		if err != nil {
			return err
		}
	}
	s.Results.add("inventory", ourLibrary, many, 0, map[string]float64{
		"heap_b_object":    float64(kept[1].HeapBytes-kept[0].HeapBytes) / float64(many-few),
		"rss_b_object":     float64(kept[1].resident-kept[0].resident) / float64(many-few),
		"heap_mb":          float64(kept[1].HeapBytes) / 1e6,
		"rss_mb":           float64(kept[1].resident) / 1e6,
		"peak_mb":          float64(kept[1].peak) / 1e6,
		"longest_pause_ms": float64(kept[1].LongestPause.Microseconds()) / 1000,
	})
	return nil
}

type keeps struct {
	contender.Result
	resident, peak int64
}

func (s *Session) keepsOf(ctx context.Context, st *stage, objects int) (keeps, error) {
	r, err := s.begin(ctx, st, ourLibrary, setup{resources: podsOnly}, objects)
	if err != nil {
		return keeps{}, err
	}
	k := keeps{peak: peakOf(r.PID())}
	err = r.Signal(syscall.SIGUSR1)
	for ticker := time.Tick(10 * time.Millisecond); err == nil; <-ticker {
		var results []contender.Result
		if results, err = r.output.results(); len(results) > 0 {
			k.Result = results[0]
			break
		}
		if !r.Running() || ctx.Err() != nil {
			err = fmt.Errorf("it does not report its memory: %s", r.Tail())
		}
	}
	if err == nil {
		k.resident, err = residentOf(r.PID())
	}
	if finished := r.finish(ctx, objects); err == nil {
		err = finished
	}
	return k, err
}
