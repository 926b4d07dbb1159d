package chaos

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/etcdrestore"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// stopGrace is how long the API server may take to end by itself. With open watches that would be a minute.
const stopGrace = 5 * time.Second

// inflict lets one fault happen and returns when it is over, or, of those that go on beside others, when it has begun.
func (r *run) inflict(f Fault) {
	if f.Kind.beside() {
		r.beginBeside(f)
		if f.Kind == IdleCutter { // others would end the streams sooner
			r.waitUntil(time.Now().Add(idleCut / 2))
			r.at(Compacted)
			r.waitUntil(time.Now().Add(idleCut * 3 / 2))
		}
		return
	}
	over := r.causes(f.Kind)
	defer over()
	if f.Kind.edits() {
		r.restartEdited(f)
		return
	}
	t := r.t
	switch f.Kind {
	case CollectorKilled:
		r.killCollector()
		r.hold(f)
		r.startCollector()
	case CollectorRestarted:
		r.endInOrder()
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
		r.reconnect()
	case HistoryLostDown:
		r.killCollector()
		r.hold(f)
		r.compact()
		r.restartAPIServer()
		r.startCollector()
	case EtcdRestored:
		r.restoreEtcd(f)
	case VersionMoved:
		r.moveVersion(f)
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
	case SinkDenies:
		r.sinkMeanwhile(denying, f)
	case ConnectionsCut:
		r.proxy.Cut()
		r.hold(f)
		r.reconnect()
		r.result.Done["cuts"]++
	case ConnectionsReset:
		r.afflicted(f, harness.Resetting)
	case ConnectionsSlow:
		r.reconnect() // toxics that slow down cannot be taken out of open connections
		r.afflicted(f, harness.Slow(f.Milliseconds, f.Rate))
	case ConnectionsHalfOpen:
		r.afflicted(f, harness.HalfOpen)
	case NotFoundPages:
		r.throughFront(true)
		r.front.Serve(&harness.NotFoundPage)
		r.hold(f)
		r.front.Serve(nil)
		r.throughFront(false)
	case DiskFull:
		r.fillDisk(f)
	default:
		r.at(f.Kind)
	}
}

// at lets something happen that is over at once.
func (r *run) at(k Kind) {
	if k == Nothing {
		return
	}
	over := r.causes(k)
	defer over()
	switch k {
	case Compacted:
		r.compact()
	case DefinitionEdit:
		r.editDefinition()
	case KilledMeantime:
		r.killCollector()
		r.startCollector()
	default:
		r.t.Fatalf("nobody knows how to let happen: %s", k)
	}
}

// beginBeside lets a fault begin that goes on beside those that follow.
func (r *run) beginBeside(f Fault) {
	over := r.causes(f.Kind)
	end := func() {}
	switch f.Kind {
	case PoisonRecord:
		poison := r.choosePoison()
		r.say("no record about %s %s is accepted", poison.Resource, poison.Name)
		r.sink.Poisoned(poison)
		end = func() { r.sink.Poisoned(nil) }
	case SlowFirstAnswers:
		delays := map[string]time.Duration{}
		for _, o := range all {
			for _, path := range r.pathsOf(o) {
				if r.random.IntN(2) == 0 {
					delays[path] = f.Hold - time.Duration(r.random.Int64N(int64(f.Hold/4)))
				}
			}
		}
		r.throughFront(true)
		r.front.DelayFirst(delays)
		end = func() {
			r.front.DelayFirst(nil)
			r.throughFront(false)
		}
	case IdleCutter:
		r.throughFront(true)
		r.front.CutIdle(idleCut)
		r.front.CutStreams() // those that are open know nothing of it
		end = func() {
			r.front.CutIdle(0)
			r.throughFront(false)
		}
	case LaggingReplica, InitialCuts:
		r.throughFront(true)
		r.spoil(f.Kind, true)
		end = func() {
			r.spoil(f.Kind, false)
			r.throughFront(false)
		}
	}
	r.beside = append(r.beside, beside{kind: f.Kind, until: time.Now().Add(f.Hold), end: func() {
		end()
		over()
	}})
}

// idleCut is how long nothing has to come on a stream for the idle cutter to end it: less than it takes until a stream is
// rotated with an odd seed, as with a load balancer and the rotation interval that is the default.
const idleCut = 12 * time.Second

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
	r.reconnect()
	r.result.Done["cuts"]++
}

// reconnect lets connections through again, on one of the ways to the API server.
func (r *run) reconnect() {
	upstream := r.cluster.Address()
	// Also without need, so that faults meet both ways.
	r.viaFront = r.needFront > 0 || r.random.IntN(2) == 0
	if r.viaFront {
		upstream = r.front.Address()
	}
	r.proxy.Lead(r.t, upstream)
}

// throughFront makes connections come through the front from now on, or lets them come as they like again.
func (r *run) throughFront(need bool) {
	if !need {
		r.needFront--
		return
	}
	if r.needFront++; !r.viaFront {
		r.reconnect()
	}
}

// spoil begins or ends what the front does to streams.
func (r *run) spoil(k Kind, begin bool) {
	if begin {
		r.spoiling[k]++
	} else {
		r.spoiling[k]--
	}
	lagging, cutting := r.spoiling[LaggingReplica] > 0, r.spoiling[InitialCuts] > 0
	random := r.spoilers
	r.front.Spoil(func(stream *harness.Stream) harness.Spoiling {
		var how harness.Spoiling
		if lagging && random.chance(2) {
			how.Lag = time.Second + random.below(14*time.Second)
		}
		if cutting && stream.Initial && !random.chance(4) {
			how.CutAfter, how.Abort = 1+random.size(200<<10), random.chance(2)
		}
		return how
	})
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

// endInOrder ends the collector in good order, which it could not with a sink that is not reached at the moment.
func (r *run) endInOrder() {
	r.sink.AwaitStored(r.t.Context(), startPatience)
	r.stopCollector()
}

// restartEdited edits the configuration between two lives of the collector.
func (r *run) restartEdited(f Fault) {
	if f.Killed {
		r.killCollector()
	} else {
		r.endInOrder()
	}
	r.edit(f.Kind)
	if f.Kind == NamespacesEdited {
		r.rescoped = append(r.rescoped, time.Now())
	}
	r.startCollector()
}

// restoreEtcd sets etcd back to what it was at the begin of the fault, as an operator does who follows its documentation.
func (r *run) restoreEtcd(f Fault) {
	t := r.t
	saved := filepath.Join(t.TempDir(), "etcd.db")
	etcdrestore.Save(t, r.cluster, saved)
	r.hold(f)
	r.killAPIServer()
	last := r.etcd.Revision(t)
	for _, truth := range r.allTruths() {
		truth.Await(t, last)
		truth.Suspend()
	}
	etcdrestore.Restore(t, r.cluster, saved)
	for _, truth := range r.allTruths() {
		truth.Resume(t)
	}
	restore := Restore{At: time.Now(), To: r.etcd.Revision(t) - etcdrestore.Bump, Undone: last}
	r.restores = append(r.restores, restore)
	r.cluster.BringUpAPIServer(t)
	r.result.Done["restores"]++
	r.say("etcd is as it was at %d; up to %d nothing has happened", restore.To, restore.Undone)
	if err := os.Remove(saved); err != nil {
		t.Error(err)
	}
}

// fillDisk makes every write of the collector's checkpoints fail.
func (r *run) fillDisk(f Fault) {
	if err := harness.LimitFileSize(r.collector.PID(), 0); err != nil {
		r.say("SKIPPED, the disk cannot be filled here: %v", err)
		r.result.Done["disk faults skipped"]++
		return
	}
	r.diskFull = true
	r.life().Unwritten, r.life().Written = time.Now(), time.Time{}
	r.hold(f)
	r.diskFull = false
	if err := harness.LimitFileSize(r.collector.PID(), -1); err != nil {
		r.t.Fatal(err)
	}
	since := time.Now()
	for !r.writtenSince(since) {
		r.waitUntil(time.Now().Add(time.Second / 4))
		if time.Since(since) > diskPatience {
			r.t.Errorf("no checkpoint is written %s after the disk had space again", diskPatience)
			return
		}
	}
	r.life().Written = time.Now()
	r.say("checkpoints are written again %s after there was space", time.Since(since).Round(10*time.Millisecond))
}

// diskPatience is how long after the disk has space again a checkpoint has to be written.
const diskPatience = 45 * time.Second

// writtenSince reports whether a file of the collector's storage was written after a time.
func (r *run) writtenSince(at time.Time) bool {
	entries, err := os.ReadDir(r.storage)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.ModTime().After(at) {
			return true
		}
	}
	return false
}

// choosePoison names an object that exists.
func (r *run) choosePoison() *Poison {
	for {
		o := all[r.random.IntN(len(all))]
		if o.quiet == "" {
			return &Poison{Resource: harness.Name(o.resource), Name: o.name(r.random.IntN(o.slots))}
		}
	}
}
