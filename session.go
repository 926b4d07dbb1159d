package k8swatchlistreceiver

import (
	"context"
	"sync"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/retry"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// quietInterval is how often a quiet stream without bookmarks is compared. It is well below the five minutes after
// which a kube-apiserver compacts its history by default.
const quietInterval = 2 * time.Minute

// session is a period of reading: a catalog and its readers under one context. The keeper outlives it, and so does the
// delivery unless this is one of several replicas.
type session struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// startSession begins to read with readers that newReader returns. What is to run beside them returns when its context ends.
func (r *watchlistReceiver) startSession(newReader func(catalog.Target) catalog.Reader, beside ...func(context.Context)) *session {
	readers := catalog.New(catalog.Options{
		Specs:     r.cfg.Specs(),
		Server:    r.client,
		NewReader: newReader,
		Report:    r.health.missing,
		Logger:    r.set.Logger,
	})
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{cancel: cancel}
	s.running.Go(func() { r.crowd.Run(ctx) })
	for _, run := range beside {
		s.running.Go(func() { run(ctx) })
	}
	answered := make(chan struct{})
	s.running.Go(func() { r.learnClusterUID(ctx, answered) })
	s.running.Go(func() {
		select {
		case <-answered:
		case <-time.After(clusterUIDWait):
		case <-ctx.Done():
		}
		readers.Run(ctx)
	})
	s.running.Go(func() {
		select {
		case <-answered:
			r.reportRights(ctx)
		case <-ctx.Done():
		}
	})
	if r.replica == nil {
		s.running.Go(func() { r.warnOfReplicas(ctx) })
	}
	return s
}

// stop ends all reading and waits for it.
func (s *session) stop() {
	s.cancel()
	s.running.Wait()
}

// readsOf returns what the reader of a standby has in common with one that emits records.
func (r *watchlistReceiver) readsOf(t catalog.Target) watchlist.Options {
	return watchlist.Options{
		Scope:          t.Scope,
		API:            t.API,
		Knowledge:      t.Knowledge,
		Served:         t.Served,
		Missing:        func(ctx context.Context) []string { return r.rights.Missing(ctx, t.Scope) },
		SnapshotSlots:  r.slots,
		Rank:           t.Rank,
		Selected:       t.Selected,
		Now:            time.Now,
		RelistInterval: r.cfg.Relist.Interval,
		RotateInterval: r.cfg.Relist.RotateInterval,
		QuietInterval:  quietInterval,
		Optional:       t.ByPattern,
		UntilGone:      true,
		Logger:         r.set.Logger,
		Crowd:          r.crowd,
	}
}

func (r *watchlistReceiver) newReader(t catalog.Target) catalog.Reader {
	telemetry := r.telemetry.begin(t.Scope)
	o := r.readsOf(t)
	o.Plan = r.redaction.Plan(t.Scope.Group, t.Scope.Resource, redactionObserver{telemetry.resourceTelemetry}).WithFields(r.cfg.fields(t.Scope))
	o.Opener, o.Emitter = r.client, r.emitter
	o.EmitSnapshots, o.SkipInitial = r.cfg.Relist.Emit == emitSnapshot, r.cfg.InitialState == initialSkip
	o.Exclude, o.SuppressNoop = r.cfg.excludedTypes(t.Scope), r.cfg.Suppress.Noop
	o.Diffs, o.Fit = r.diffsOf(t.Scope), r.records.Fit
	o.Observer = readerObserver{
		readerTelemetry: telemetry,
		scope:           t.Scope,
		optional:        t.ByPattern,
		health:          r.health,
	}
	o.StartSpan, o.EmitLast = r.startSpan(t.Scope), r.readerEnded
	if r.keeper != nil {
		o.Restore = r.keeper.Restore
	}
	r.cfg.Events.apply(&o, r.holding)
	r.prepareEntities(&o)
	r.health.reading(t.Scope, watchlist.State{}, t.ByPattern)
	reader := watchlist.NewReader(o)
	r.readers.add(reader)
	return reader
}

// readerEnded queues a reader's last change, behind which the checkpoint of the scope can be used by another reader.
func (r *watchlistReceiver) readerEnded(last watchlist.Change) {
	r.readers.remove(last.Scope)
	r.health.forget(last.Scope.String())
	r.telemetry.end(*last.Scope)
	if r.keeper != nil {
		r.delivery.Append(last)
	}
}

// readers holds the running readers by the Scope of their changes, to pass on what the delivery reports about these. What
// it reports about a reader that has ended is only kept in the checkpoint.
type readers struct {
	mu  sync.Mutex
	all map[*scope.Scope]*watchlist.Reader
}

func (r *readers) add(reader *watchlist.Reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[*scope.Scope]*watchlist.Reader)
	}
	r.all[&reader.Scope] = reader
}

func (r *readers) remove(of *scope.Scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, of)
}

// dropped passes dropped records to the readers that emitted them.
func (r *readers) dropped(changes []watchlist.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(changes) > 0 {
		of := changes[0].Scope
		n := 1
		for n < len(changes) && changes[n].Scope == of {
			n++
		}
		if reader := r.all[of]; reader != nil {
			reader.Dropped(changes[:n])
		}
		changes = changes[n:]
	}
}

func (r *readers) acceptedAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, reader := range r.all {
		reader.AcceptedAgain()
	}
}

const (
	// clusterUIDWait is how long reading waits for the UID of the cluster, which is part of k8s.change.id. Nothing else
	// depends on it, so reading begins without it if the server takes longer.
	clusterUIDWait = 3 * time.Second
	// clusterUIDInterval is how often the UID is requested again from a server that refuses it: rights may be granted,
	// and a proxy that answers 404 for a while may be replaced.
	clusterUIDInterval = 5 * time.Minute
)

// learnClusterUID requests the UID of the cluster until the server returns it. It closes answered after the UID or a
// refusal, when there is nothing left to wait for.
func (r *watchlistReceiver) learnClusterUID(ctx context.Context, answered chan<- struct{}) {
	answer := sync.OnceFunc(func() { close(answered) })
	retry := retry.NewBackoff(800*time.Millisecond, 30*time.Second)
	reported := ""
	if r.records.ClusterUID() != "" { // from an earlier session
		answer()
		return
	}
	for {
		uid, err := r.client.ClusterUID(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			r.records.SetClusterUID(uid)
			answer()
			return
		}
		pause := retry.NextBackOff()
		message := "cannot get the UID of the cluster, records carry no k8s.cluster.uid until it is known"
		if !kubeclient.Answered(err) {
			message = "cannot reach the API server, will try again"
		}
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			answer()
			pause = clusterUIDInterval
			message = "records carry no k8s.cluster.uid: grant get on the namespace kube-system to have it"
		}
		if message != reported {
			reported = message
			r.set.Logger.Info(message, zap.Error(err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
