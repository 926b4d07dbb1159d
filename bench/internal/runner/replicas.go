package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// What our receiver logs as a replica.
const (
	logsReady = "standby is ready to take over"
	logsLeads = "this replica leads"
)

// replicas measures one Collector, a leader, a standby beside it that takes over when the leader is killed, and shards.
func (s *Session) replicas(ctx context.Context) error {
	objects := 1_000_000
	if s.Quick {
		objects = 20_000
	}
	for _, part := range []func(context.Context, *stage, int) error{s.alone, s.leaderAndStandby, s.shards} {
		err := s.onStage(func(st *stage) error { return part(ctx, st, objects) }, replay.Serves{Kind: corpus.Pods2K, Count: objects})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) alone(ctx context.Context, st *stage, objects int) error {
	say("one Collector with %d pods of 2 KB", objects)
	r, err := s.begin(ctx, st, oursMap, setup{resources: podsOnly}, objects)
	if err != nil {
		return err
	}
	return errors.Join(s.addReplica(ctx, r, "one Collector", objects), r.stop())
}

// addReplica adds the values of a process that has read the initial state.
func (s *Session) addReplica(ctx context.Context, r *running, name string, objects int) error {
	n, err := r.records(ctx)
	if err != nil {
		return err
	}
	resident, err := residentOf(r.PID())
	if err != nil {
		return err
	}
	r.values["records"], r.values["rss_mb"] = float64(n), float64(resident)/1e6
	s.Results.add("replicas", contenderKind{name: name}, objects, 0, r.values)
	return nil
}

// records returns how many records the next consumer has accepted.
func (p *process) records(ctx context.Context) (int, error) {
	metrics, err := otelcol.ReadMetrics(ctx, p.metrics)
	if err != nil {
		return 0, err
	}
	return int(metrics.Sum(acceptedRecords)), nil
}

func (s *Session) leaderAndStandby(ctx context.Context, st *stage, objects int) error {
	say("a leader and a standby with %d pods of 2 KB", objects)
	of := setup{access: st.access, resources: podsOnly, elects: true}
	leader, err := s.begin(ctx, st, oursMap, of, objects)
	if err != nil {
		return err
	}
	err = s.addReplica(ctx, leader, "leader", objects)
	var standby *running
	if err == nil {
		standby, err = s.beginStandby(ctx, st, of)
	}
	if err != nil {
		return errors.Join(err, leader.stop())
	}
	err = s.addReplica(ctx, standby, "standby", objects)
	if n := standby.values["records"]; err == nil && n > 0 {
		err = fmt.Errorf("the standby has emitted %.0f records", n)
	}
	if err != nil {
		return errors.Join(err, leader.stop(), standby.stop())
	}
	if err := leader.kill(); err != nil {
		return errors.Join(err, standby.stop())
	}
	return errors.Join(s.takeover(ctx, st, standby.process, objects), standby.stop())
}

// beginStandby starts a standby and waits until it is ready.
func (s *Session) beginStandby(ctx context.Context, st *stage, of setup) (*running, error) {
	mark := st.Mark()
	p, err := oursMap.start(s, of)
	if err != nil {
		return nil, err
	}
	r := &running{process: p, kind: oursMap}
	began, err := await(ctx, p, func(ctx context.Context) (replay.Event, error) { return st.Await(ctx, mark, replay.Began, 1) })
	if err == nil {
		_, err = await(ctx, p, func(ctx context.Context) (replay.Event, error) { return st.Await(ctx, mark, replay.Written, 1) })
	}
	var ready time.Duration
	if err == nil {
		// The renewals of the Lease have given the snapshot a later version than the last change that the leader has
		// published.
		st.Change(st.Resource("pods"), 0)
		ready, err = p.awaitOutput(ctx, logsReady)
	}
	if err == nil {
		r.idle, err = p.awaitIdle(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("standby: %w", err), p.stop())
	}
	r.values = map[string]float64{
		"cpu_total_s": r.idle.cpu.Seconds(), "wall_s": (ready - began.At).Seconds(), "peak_mb": float64(peakOf(p.PID())) / 1e6,
	}
	return r, nil
}

// takeover measures a standby whose leader has just been killed.
func (s *Session) takeover(ctx context.Context, st *stage, p *process, objects int) error {
	const meanwhile = 500
	killed, cpu := clock.Now(), p.cpu()
	if err := resetPeak(p.PID()); err != nil {
		return err
	}
	pods := st.Resource("pods")
	for i := range meanwhile {
		st.Change(pods, i)
	}
	leads, err := p.awaitOutput(ctx, logsLeads)
	if err != nil {
		return err
	}
	var emitted time.Duration
	n := 0
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for n < meanwhile {
		if n, err = p.records(ctx); err != nil {
			return err
		}
		emitted = clock.Now()
		if emitted-leads > stallTimeout {
			return fmt.Errorf("%d of %d changes were emitted after the takeover\n%s", n, meanwhile, p.Tail())
		}
		<-ticker.C
	}
	idle, err := p.awaitIdle(ctx)
	if err != nil {
		return err
	}
	if n, err = p.records(ctx); err != nil {
		return err
	}
	resident, err := residentOf(p.PID())
	if err != nil {
		return err
	}
	s.Results.add("takeover", contenderKind{name: "standby"}, objects, 0, map[string]float64{
		"leads_s": (leads - killed).Seconds(), "caught_up_s": (emitted - killed).Seconds(), "records": float64(n),
		"cpu_s": (idle.cpu - cpu).Seconds(), "peak_mb": float64(peakOf(p.PID())) / 1e6, "rss_mb": float64(resident) / 1e6,
	})
	if n != meanwhile {
		return fmt.Errorf("%d records were emitted after the takeover, but there were %d changes", n, meanwhile)
	}
	return nil
}

// shards measures two Collectors that divide the objects. The server ignores for which shard it is asked, like an API server
// without that feature.
func (s *Session) shards(ctx context.Context, st *stage, objects int) error {
	const total, setRecords = 2, 2 // the begin and end of a set
	say("%d shards of %d pods of 2 KB", total, objects)
	emitted := 0
	var all []*running
	var err error
	for index := range total {
		var r *running
		of := setup{resources: podsOnly, shard: fmt.Sprintf("{total: %d, index: %d}", total, index)}
		if r, err = s.begin(ctx, st, oursMap, of, objects/total*9/10); err != nil {
			break
		}
		all = append(all, r)
		if err = s.addReplica(ctx, r, fmt.Sprintf("shard %d of %d", index, total), objects); err != nil {
			break
		}
		emitted += int(r.values["records"]) - setRecords
	}
	for _, r := range all {
		err = errors.Join(err, r.stop())
	}
	if err == nil && emitted != objects {
		err = fmt.Errorf("the shards have emitted %d of %d objects", emitted, objects)
	}
	return err
}
