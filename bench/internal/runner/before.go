package runner

import (
	"context"
	"slices"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
)

// before measures the receiver beside another build of it, in turn, so that whatever else the machine does affects both.
// Which one is first alternates.
func (s *Session) before(ctx context.Context) error {
	kind := func(body string) [2]contenderKind {
		name := "body " + body
		return [2]contenderKind{
			{name: name, start: ours(body, now), collector: true},
			{name: name + overBefore, start: ours(body, before), collector: true},
		}
	}
	bodies := [][2]contenderKind{kind("map"), kind("json")}
	inTurn := func(what func(k contenderKind, run int) error) error {
		for run := range s.Runs {
			say("beside another build, run %d of %d", run+1, s.Runs)
			for _, pair := range bodies {
				if run%2 == 1 {
					slices.Reverse(pair[:])
				}
				for _, k := range pair {
					if err := what(k, run); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	numbers, rate, seconds := []int{20000, 50000}, 1000, 5
	if s.Quick {
		numbers, seconds = []int{5000}, 2
	}
	for _, objects := range numbers {
		err := s.onStage(func(st *stage) error {
			return inTurn(func(k contenderKind, run int) error {
				return s.initialOf(ctx, st, k, "before-initial", objects, run)
			})
		}, replay.Serves{Kind: corpus.Pods8K, Count: objects})
		if err != nil {
			return err
		}
	}
	return s.onStage(func(st *stage) error {
		return inTurn(func(k contenderKind, run int) error {
			return s.liveOf(ctx, st, k, "before-live", rate, seconds, run)
		})
	}, replay.Serves{Kind: corpus.Pods8K, Count: livePods})
}
