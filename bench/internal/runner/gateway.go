package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// The ways of records to the sink. Each adds something to the one before it, so that differences are what that costs.
var (
	notSent       = way{name: oursMap.name}
	notCompressed = way{name: oursOTLP.name, sent: true}
	compressed    = way{name: notCompressed.name + ", gzip", sent: true, encoding: "gzip"}
	behindGateway = way{name: compressed.name + ", through a gateway", sent: true, encoding: "gzip", gateway: true}
	fullGateway   = way{name: behindGateway.name + " with all in its queue", sent: true, encoding: "gzip", gateway: true, held: true}
)

type way struct {
	name          string
	sent          bool // to the sink
	encoding      string
	gateway, held bool // held: the sink answers only when the gateway has everything
}

// traffic is what is sent.
type traffic struct {
	scenario string
	objects  int
	rate     int // of changes per second; 0: the initial state is what counts
	seconds  int
	batch    string
}

// gateway measures what it costs to send records, to compress them, and to pass them on in another Collector, to which
// others could send too.
func (s *Session) gateway(ctx context.Context) error {
	objects, seconds, runs := 20000, 5, s.Runs
	if s.Quick {
		objects, seconds, runs = 2000, 2, 1
	}
	for _, t := range []traffic{
		{scenario: "gateway-initial", objects: objects},
		{scenario: "gateway-live", objects: livePods, rate: 1000, seconds: seconds},
		// So few that hardly any waits for another one, as in most clusters.
		{scenario: "gateway-single", objects: livePods, rate: 100, seconds: seconds, batch: smallestBatch},
	} {
		ways := []way{notSent, notCompressed, compressed, behindGateway}
		if t.rate == 0 {
			ways = append(ways, fullGateway)
		}
		err := s.onStage(func(st *stage) error {
			for run := range runs {
				say("%s of %d pods of 8 KB, run %d of %d", t.scenario, t.objects, run+1, runs)
				for _, w := range ways {
					if err := s.send(ctx, st, w, t, run); err != nil {
						return fmt.Errorf("%s: %w", w.name, err)
					}
				}
			}
			return nil
		}, replay.Serves{Kind: corpus.Pods8K, Count: t.objects})
		if err != nil {
			return err
		}
	}
	return nil
}

// send measures one way.
func (s *Session) send(ctx context.Context, st *stage, w way, t traffic, run int) (err error) {
	to, err := startSink()
	if err != nil {
		return err
	}
	defer to.stop()
	to.KeepUIDs()
	of := setup{resources: podsOnly, batch: t.batch, encoding: w.encoding}
	if w.sent {
		of.otlp = to.address
	}
	if w.held {
		to.held = make(chan struct{})
	}
	h := hops{to: to}
	if w.gateway {
		if h.gateway, of.otlp, err = s.startGateway(ctx, to.address); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.gateway.stop()) }()
	}
	before, err := h.used(ctx)
	if err != nil {
		return err
	}
	k := oursMap
	k.name = w.name
	if h.ours, err = s.begin(ctx, st, k, of, t.objects); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.ours.stop()) }()
	if w.held {
		close(to.held)
	}
	if w.sent {
		if err := to.await(ctx, &to.progress.Objects, t.objects); err != nil {
			return err
		}
	}
	after, err := h.used(ctx)
	if err != nil {
		return err
	}
	ended := time.Duration(to.last.Load())
	after.ours = time.Duration(h.ours.values["cpu_s"] * float64(time.Second)) // since the request
	records, changes := t.objects, 0
	if t.rate > 0 {
		before = after
		before.ours = h.ours.cpu()
		changes = changeFor(ctx, st, st.Resource("pods"), t.rate, t.seconds)
		if w.sent {
			if err := to.await(ctx, &to.progress.Changes, changes); err != nil {
				return err
			}
		}
		if after, err = h.used(ctx); err != nil {
			return err
		}
		records = changes
	}
	values := map[string]float64{
		"cpu_us_record": float64((after.ours - before.ours).Microseconds()) / float64(records),
		"peak_mb":       float64(peakOf(h.ours.PID())) / 1e6,
	}
	if w.sent {
		waits := delays(to.Stamps(), st.Times(st.Resource("pods")))
		if err := to.hasExactly(t.objects, changes); err != nil {
			return err
		}
		values["bytes_record"] = float64(after.bytes-before.bytes) / float64(records)
		values["records_request"] = float64(records) / float64(after.requests-before.requests)
		switch {
		case t.rate > 0:
			values["p50_ms"], values["p99_ms"] = milliseconds(percentile(waits, 0.5)), milliseconds(percentile(waits, 0.99))
		case !w.held:
			values["sink_s"] = (ended - h.ours.began).Seconds()
		}
	}
	if w.gateway {
		values["gateway_us_record"] = float64((after.gateway - before.gateway).Microseconds()) / float64(records)
		values["gateway_peak_mb"] = float64(peakOf(h.gateway.PID())) / 1e6
	}
	s.Results.add(t.scenario, k, t.objects, run, values)
	return nil
}

// hops are where records come by. ours and gateway may be nil.
type hops struct {
	ours    *running
	gateway *process
	to      *sink
}

// used is what the records so far have cost.
type used struct {
	ours, gateway   time.Duration // CPU
	bytes, requests int64
}

// used waits until none does anything any more.
func (h *hops) used(ctx context.Context) (used, error) {
	var u used
	if h.ours != nil {
		i, err := h.ours.awaitIdle(ctx)
		if err != nil {
			return u, err
		}
		u.ours = i.cpu
	}
	if h.gateway != nil {
		i, err := h.gateway.awaitIdle(ctx)
		if err != nil {
			return u, fmt.Errorf("the gateway: %w", err)
		}
		u.gateway = i.cpu
	}
	u.bytes, u.requests = h.to.bytes.Load(), h.to.requests.Load()
	return u, nil
}

// startGateway starts a Collector that receives OTLP and sends it on compressed, both with the defaults of a Collector. It
// returns where it listens.
func (s *Session) startGateway(ctx context.Context, to string) (*process, string, error) {
	address, err := otelcol.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	receiver := fmt.Sprintf("\n  otlp: {protocols: {grpc: {endpoint: %q}}}\n", address)
	p, err := s.startCollector(s.Peer, "otlp", receiver, "", setup{otlp: to, encoding: "gzip", queue: true})
	if err != nil {
		return nil, "", err
	}
	_, err = await(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, awaitListener(ctx, address) })
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("the gateway: %w", err), p.stop())
	}
	return p, address, nil
}

func awaitListener(ctx context.Context, address string) error {
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for {
		var dialer net.Dialer
		if c, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			return c.Close()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("it does not listen: %w", ctx.Err())
		}
	}
}

// hasExactly checks that the sink has each object and each change once, and nothing else.
func (s *sink) hasExactly(objects, changes int) error {
	stamps := s.Stamps()
	slices.SortFunc(stamps, func(a, b contender.Stamp) int { return int(a.Version) - int(b.Version) })
	distinct := len(slices.CompactFunc(stamps, func(a, b contender.Stamp) bool { return a.Version == b.Version }))
	gotObjects, gotChanges := s.progress.Objects.Load(), s.progress.Changes.Load()
	if gotObjects != int64(objects) || s.UIDs() != objects || gotChanges != int64(changes) || distinct != changes {
		return fmt.Errorf("the sink has %d records of %d objects, which should be %d, and %d of %d changes, which should be %d",
			gotObjects, s.UIDs(), objects, gotChanges, distinct, changes)
	}
	return nil
}
