package runner

import (
	"context"
	"fmt"
	"slices"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
)

var podsOnly = []string{"api/v1/pods"}

// initial measures the cost of reading the existing pods.
func (s *Session) initial(ctx context.Context) error {
	objects, large := 20000, 50000
	runs := s.Runs
	if s.Quick {
		objects, large, runs = 5000, 0, 1
	}
	fast := []contenderKind{theFloor, ourLibrary, oursMap, oursJSON, oursOTLP}
	err := s.onStage(func(st *stage) error {
		for run := range runs {
			say("initial state of %d pods of 8 KB, run %d of %d", objects, run+1, runs)
			all := fast
			switch run { // the others take ten times as long
			case 0:
				all = append(slices.Clone(fast), reflector, peerPull, peerWatch, peerOTLP)
			case 1:
				all = append(slices.Clone(fast), reflector, peerPull)
			}
			for _, k := range all {
				if err := s.initialOf(ctx, st, k, "initial", objects, run); err != nil {
					return err
				}
			}
		}
		return nil
	}, replay.Serves{Kind: corpus.Pods8K, Count: objects})
	if err != nil || large == 0 {
		return err
	}
	return s.onStage(func(st *stage) error {
		for run := range runs {
			say("initial state of %d pods of 8 KB, run %d of %d", large, run+1, runs)
			all := []contenderKind{theFloor, oursMap, oursJSON}
			if run == 0 {
				all = append(all, reflector, peerPull)
			}
			for _, k := range all {
				if err := s.initialOf(ctx, st, k, "initial-large", large, run); err != nil {
					return err
				}
			}
		}
		return nil
	}, replay.Serves{Kind: corpus.Pods8K, Count: large})
}

func (s *Session) initialOf(ctx context.Context, st *stage, k contenderKind, scenario string, objects, run int) error {
	of := setup{resources: podsOnly}
	if k.name == oursOTLP.name || k.name == peerOTLP.name {
		sink, err := startSink()
		if err != nil {
			return err
		}
		defer sink.stop()
		of.otlp = sink.address
	}
	r, err := s.begin(ctx, st, k, of, objects)
	if err != nil {
		return err
	}
	s.Results.addSeries(scenario, k, r.process, map[string]span{"initial state": {r.began - r.started, r.idle.since - r.started}})
	if err := r.finish(ctx, objects); err != nil {
		return err
	}
	s.Results.add(scenario, k, objects, run, r.values)
	return nil
}

// counts measures how the cost grows with the number of objects.
func (s *Session) counts(ctx context.Context) error {
	numbers := []int{1000, 10_000, 100_000, 1_000_000}
	if s.Quick {
		numbers = numbers[:2]
	}
	for _, n := range numbers {
		say("initial state of %d pods of 2 KB", n)
		err := s.onStage(func(st *stage) error {
			for _, k := range []contenderKind{theFloor, oursMap, oursJSON, reflector, peerPull} {
				if n > 100_000 && (k.name == reflector.name || k.name == peerPull.name) {
					continue // they hold all objects, which exceeds the memory
				}
				if err := s.initialOf(ctx, st, k, "counts", n, 0); err != nil {
					return err
				}
			}
			return nil
		}, replay.Serves{Kind: corpus.Pods2K, Count: n})
		if err != nil {
			return err
		}
	}
	return nil
}

// idle measures the cost of watching 30 resources without changes.
func (s *Session) idle(ctx context.Context) error {
	seconds := 20
	if s.Quick {
		seconds = 5
	}
	const readers, each = 30, 667
	var resources []replay.Serves
	var paths []string
	for i := range readers {
		kind := corpus.SmallCustom(fmt.Sprintf("things%02d", i), fmt.Sprintf("Thing%02d", i))
		resources = append(resources, replay.Serves{Kind: kind, Count: each})
		paths = append(paths, "apis/bench.example.com/v1/"+kind.Plural)
	}
	say("idle for %d s with %d objects of %d resources", seconds, readers*each, readers)
	return s.onStage(func(st *stage) error {
		for _, k := range []contenderKind{theFloor, oursMap, reflector, peerWatch} {
			r, err := s.begin(ctx, st, k, setup{resources: paths}, readers*each)
			if err != nil {
				return err
			}
			r.values = map[string]float64{}
			before := r.cpu()
			if err := linger(ctx, r.process, seconds); err != nil {
				return err
			}
			used := r.cpu() - before
			resident, err := residentOf(r.PID())
			if err != nil {
				return err
			}
			r.values["core_percent"] = 100 * used.Seconds() / float64(seconds)
			r.values["rss_mb"] = float64(resident) / 1e6
			if err := r.finish(ctx, readers*each); err != nil {
				return err
			}
			s.Results.add("idle", k, readers*each, 0, r.values)
		}
		return nil
	}, resources...)
}
