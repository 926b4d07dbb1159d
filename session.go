package k8swatchlistreceiver

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// session is a time of reading: a catalog and its readers under one context. Delivery and keeper outlive it, so that
// reading can pause and go on.
type session struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (r *watchlistReceiver) startSession() *session {
	readers := catalog.New(catalog.Options{
		Specs:     r.cfg.specs(),
		Server:    r.client,
		NewReader: r.newReader,
		Report:    r.health.report,
		Logger:    r.set.Logger,
	})
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{cancel: cancel}
	s.running.Go(func() { r.crowd.Run(ctx) })
	known := make(chan struct{})
	s.running.Go(func() { r.learnClusterUID(ctx, known) })
	s.running.Go(func() {
		select {
		case <-known:
		case <-time.After(clusterUIDWait):
		case <-ctx.Done():
		}
		readers.Run(ctx)
	})
	return s
}

// stop ends all reading and waits for it.
func (s *session) stop() {
	s.cancel()
	s.running.Wait()
}

func (r *watchlistReceiver) newReader(t catalog.Target) catalog.Reader {
	telemetry := r.telemetry.of(t.Scope.GroupResource)
	o := watchlist.Options{
		Scope:          t.Scope,
		API:            t.API,
		Knowledge:      t.Knowledge,
		Plan:           r.redaction.Plan(t.Scope.Group, t.Scope.Resource, redactionObserver{telemetry}),
		Opener:         r.client,
		Emitter:        r.delivery,
		Served:         t.Served,
		SnapshotSlots:  r.slots,
		Now:            time.Now,
		RelistInterval: r.cfg.Relist.Interval,
		RotateInterval: r.cfg.Relist.RotateInterval,
		EmitSnapshots:  r.cfg.Relist.Emit == emitSnapshot,
		SkipInitial:    r.cfg.InitialState == initialSkip,
		Observer: readerObserver{
			resourceTelemetry: telemetry,
			name:              t.Scope.String(),
			health:            r.health,
		},
		Logger: r.set.Logger,
		Crowd:  r.crowd,
	}
	if r.keeper != nil {
		o.Restore = r.keeper.Restore
	}
	return watchlist.NewReader(o)
}

const (
	// clusterUIDWait is how long reading waits for the UID of the cluster, which is part of k8s.change.id. Nothing
	// else depends on it, so reading begins without it when the server takes longer.
	clusterUIDWait = 3 * time.Second
	// clusterUIDInterval is how often a server that does not give the UID is asked again: rights may be granted, and a
	// proxy that answers 404 for a while may be replaced.
	clusterUIDInterval = 5 * time.Minute
)

// learnClusterUID asks for the UID of the cluster until the server gives it, and then closes known.
func (r *watchlistReceiver) learnClusterUID(ctx context.Context, known chan<- struct{}) {
	retry := watchlist.NewBackoff(800*time.Millisecond, 30*time.Second)
	reported := ""
	for {
		uid, err := r.client.ClusterUID(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			r.records.SetClusterUID(uid)
			close(known)
			return
		}
		pause := retry.NextBackOff()
		message := "cannot ask for the UID of the cluster, records carry no k8s.cluster.uid until it is known"
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
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
