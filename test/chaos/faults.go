package chaos

import (
	"context"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// stopGrace is how long the API server may take to end by itself. With open watches that would be a minute.
const stopGrace = 5 * time.Second

// inflict lets one fault happen and returns when it is over.
func (r *run) inflict(f Fault) {
	t := r.t
	switch f.Kind {
	case CollectorKilled:
		r.killCollector()
		r.hold(f)
		r.startCollector()
	case CollectorRestarted:
		// With a sink that is not reached at the moment it could not end in good order.
		r.sink.AwaitStored(t.Context(), startPatience)
		r.stopCollector()
		r.hold(f)
		r.startCollector()
	case CollectorKilledOften:
		for range f.Times {
			r.killCollector()
			r.startCollector()
			r.sink.AwaitStored(t.Context(), 3*time.Second) // whether or not something came
		}
	case APIServerKilled:
		r.killAPIServer()
		r.hold(f)
		r.cluster.BringUpAPIServer(t)
	case APIServerStopped:
		ctx, cancel := context.WithTimeout(t.Context(), stopGrace)
		err := r.cluster.StopAPIServer(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		r.result.Done["stops of the API server"]++
		r.hold(f)
		r.cluster.BringUpAPIServer(t)
	case HistoryLost:
		r.proxy.Cut()
		r.hold(f)
		r.compact()
		r.restartAPIServer()
		r.proxy.Restore(t)
	case HistoryLostDown:
		r.killCollector()
		r.hold(f)
		r.compact()
		r.restartAPIServer()
		r.startCollector()
	case SinkKilled:
		r.sink.Kill()
		r.result.Done["kills of the sink"]++
		r.hold(f)
		r.sink.Start(t)
	case SinkKilledUnanswered:
		r.sink.behave(unanswering)
		r.sink.AwaitStored(t.Context(), 5*time.Second)
		r.sink.Kill()
		r.result.Done["kills of the sink"]++
		r.sink.behave(accepting)
		r.hold(f)
		r.sink.Start(t)
	case SinkRefuses:
		r.sinkMeanwhile(unavailable, f)
	case SinkExhausted:
		r.sinkMeanwhile(exhausted, f)
	case SinkBlocks:
		r.sinkMeanwhile(blocking, f)
	case SinkLosesAnswers:
		r.sinkMeanwhile(losingAnswer, f)
	case ConnectionsCut:
		r.proxy.Cut()
		r.hold(f)
		r.proxy.Restore(t)
		r.result.Done["cuts"]++
	case ConnectionsReset:
		r.afflicted(f, harness.Resetting)
	case ConnectionsSlow:
		r.proxy.Cut() // for the reason that Heal has
		r.proxy.Afflict(t, harness.Slow(f.Milliseconds, f.Rate)...)
		r.proxy.Restore(t)
		r.afflicted(f, nil)
	case ConnectionsHalfOpen:
		r.afflicted(f, harness.HalfOpen)
	default:
		r.at(f.Kind)
	}
}

// at lets something happen that is over at once.
func (r *run) at(k Kind) {
	switch k {
	case Compacted:
		r.compact()
	case DefinitionEdit:
		r.editDefinition()
	case KilledMeantime:
		r.killCollector()
		r.startCollector()
	case Nothing:
	default:
		r.t.Fatalf("nobody knows how to let happen: %s", k)
	}
}

// hold lets a fault last, with something else in the middle of it.
func (r *run) hold(f Fault) {
	r.waitUntil(time.Now().Add(f.Hold / 2))
	r.at(f.Also)
	r.waitUntil(time.Now().Add(f.Hold / 2))
}

func (r *run) sinkMeanwhile(b behaviour, f Fault) {
	r.sink.behave(b)
	r.hold(f)
	r.sink.behave(accepting)
}

func (r *run) afflicted(f Fault, toxics []harness.Toxic) {
	r.proxy.Afflict(r.t, toxics...)
	r.hold(f)
	r.proxy.Heal(r.t)
	r.result.Done["cuts"]++
}

func (r *run) killAPIServer() {
	if err := r.cluster.KillAPIServer(); err != nil {
		r.t.Fatal(err)
	}
	r.result.Done["kill -9 of the API server"]++
}

func (r *run) restartAPIServer() {
	r.killAPIServer()
	r.cluster.BringUpAPIServer(r.t)
}
