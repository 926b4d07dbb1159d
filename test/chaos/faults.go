package chaos

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/etcdrestore"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// stopGrace is how long the API server may take to end. With open watches that would be a minute.
const stopGrace = 5 * time.Second

// inflict causes one fault and returns when it is over, or when it has begun if it continues during others.
func (r *run) inflict(f Fault) {
	if f.Kind.beside() {
		r.beginBeside(f)
		if f.Kind == IdleCutter { // others would end the streams earlier
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
	case LeaderKilled, LeaderPaused, LeaderCutOff, StandbyKilled, StandbyPaused, StandbyCutOff, AllKilled, RolledOut:
		r.inflictOnReplicas(f)
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
			r.sink.AwaitStored(t.Context(), 3*time.Second) // even if nothing arrived
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
		r.reconnect() // slowing toxics cannot be removed from open connections
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

// at causes an instantaneous fault.
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
		r.t.Fatalf("unknown instantaneous fault: %s", k)
	}
}

// beginBeside begins a fault that continues during the following ones.
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
		r.front.CutStreams() // open ones are not affected otherwise
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

// idleCut is how long a stream has to be idle for the idle cutter to end it. With an odd seed it is shorter than the
// rotation interval, as with a load balancer and the default rotation interval.
const idleCut = 12 * time.Second

// hold waits for the duration of a fault, with another one in the middle.
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

// reconnect allows connections again, on one of the routes to the API server.
func (r *run) reconnect() {
	upstream := r.cluster.Address()
	// Even if not needed, so that faults occur on both routes.
	r.viaFront = r.needFront > 0 || r.random.IntN(2) == 0
	if r.viaFront {
		upstream = r.front.Address()
	}
	r.proxy.Lead(r.t, upstream)
}

// throughFront makes connections use the front from now on, or allows both routes again.
func (r *run) throughFront(need bool) {
	if !need {
		r.needFront--
		return
	}
	if r.needFront++; !r.viaFront {
		r.reconnect()
	}
}

// spoil begins or ends the front's faults of streams.
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

// endInOrder ends the Collector normally, which would not be possible while the sink is unreachable.
func (r *run) endInOrder() {
	r.sink.AwaitStored(r.t.Context(), startTimeout)
	r.stopCollector()
}

// restartEdited edits the configuration between two lives of the Collector.
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

// restoreEtcd sets etcd back to its state at the beginning of the fault, following its documentation.
func (r *run) restoreEtcd(f Fault) {
	t := r.t
	// Changes to be undone have to be delivered first, which is not possible while the Collector cannot read.
	const within = 10 * time.Second
	saved := filepath.Join(t.TempDir(), "etcd.db")
	r.sink.AwaitStored(t.Context(), within)
	etcdrestore.Save(t, r.cluster, saved)
	r.hold(f)
	r.sink.AwaitStored(t.Context(), within)
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
	r.say("etcd is back at its state at %d; revisions up to %d are undone", restore.To, restore.Undone)
	if err := os.Remove(saved); err != nil {
		t.Error(err)
	}
}

// fillDisk makes every write of the Collector's checkpoints fail.
func (r *run) fillDisk(f Fault) {
	if r.toLeader(); r.storage == "" {
		r.say("SKIPPED, the leader has no storage")
		return
	}
	r.fillDiskOf(r.member, f)
}

func (r *run) fillDiskOf(m *member, f Fault) {
	if err := harness.LimitFileSize(m.collector.PID(), 0); err != nil {
		r.say("SKIPPED, the disk cannot be filled here: %v", err)
		r.result.Done["disk faults skipped"]++
		return
	}
	m.diskFull = true
	life := &r.lives[m.life-1]
	life.Unwritten, life.Written = time.Now(), time.Time{}
	r.hold(f)
	m.diskFull = false
	if err := harness.LimitFileSize(m.collector.PID(), -1); err != nil {
		r.t.Fatal(err)
	}
	since := time.Now()
	for !r.writtenSince(m, since) {
		r.waitUntil(time.Now().Add(time.Second / 4))
		if time.Since(since) > diskTimeout {
			r.t.Errorf("no checkpoint is written %s after the disk had space again", diskTimeout)
			return
		}
	}
	r.lives[m.life-1].Written = time.Now()
	r.say("checkpoints are written again %s after there was space", time.Since(since).Round(10*time.Millisecond))
}

// diskTimeout is how soon after the disk has space again a checkpoint has to be written.
const diskTimeout = 45 * time.Second

// writtenSince reports whether a file of a Collector's storage was written after a time.
func (r *run) writtenSince(m *member, at time.Time) bool {
	entries, err := os.ReadDir(m.storage)
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

// choosePoison returns an existing object.
func (r *run) choosePoison() *Poison {
	for {
		o := all[r.random.IntN(len(all))]
		if o.quiet == "" {
			return &Poison{Resource: harness.Name(o.resource), Name: o.name(r.random.IntN(o.slots))}
		}
	}
}
