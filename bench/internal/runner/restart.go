package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
)

// restart measures our receiver's restart from a checkpoint, with the changes of the downtime.
func (s *Session) restart(ctx context.Context) error {
	objects, runs := 20000, s.Runs
	if s.Quick {
		objects, runs = 5000, 1
	}
	for run := range runs {
		say("restart with a checkpoint of %d pods, run %d of %d", objects, run+1, runs)
		err := s.onStage(func(st *stage) error { return s.restartOf(ctx, st, objects, run) },
			replay.Serves{Kind: corpus.Pods8K, Count: objects})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) restartOf(ctx context.Context, st *stage, objects, run int) error {
	const meanwhile = 500
	folder := filepath.Join(s.folder, "storage")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // its parent is removed later
	to, err := startSink()
	if err != nil {
		return err
	}
	defer to.stop()
	of := setup{resources: podsOnly, otlp: to.address, storage: folder}
	first, err := s.begin(ctx, st, oursMap, of, objects)
	if err != nil {
		return err
	}
	if err := first.finish(ctx, objects); err != nil {
		return err
	}
	pods := st.Resource("pods")
	for i := range meanwhile {
		st.Change(pods, i)
	}
	receivedBefore, mark := to.received(), st.Mark()
	of.access = st.access
	second, err := oursMap.start(s, of)
	if err != nil {
		return err
	}
	resumed, err := await(ctx, second, func(ctx context.Context) (replay.Event, error) { return st.Await(ctx, mark, replay.Resumed, 1) })
	var end idle
	if err == nil {
		end, err = second.awaitIdle(ctx)
	}
	values := map[string]float64{
		"cpu_s":     end.cpu.Seconds(),
		"resumed_s": (resumed.At - second.started).Seconds(),
		"peak_mb":   float64(peakOf(second.PID())) / 1e6,
		"records":   float64(to.received() - receivedBefore),
	}
	stamps := to.Stamps()
	if len(stamps) > 0 {
		values["caught_up_s"] = (stamps[len(stamps)-1].At - second.started).Seconds()
	}
	if stopped := second.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	if n := to.received() - receivedBefore; n != meanwhile {
		return fmt.Errorf("%d records arrived after the restart, but there were %d changes", n, meanwhile)
	}
	s.Results.add("restart", oursMap, objects, run, values)
	return nil
}
