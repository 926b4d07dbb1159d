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
	s.running.Go(func() {
		r.learnClusterUID(ctx)
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
		SnapshotSlots:  snapshotSlots,
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
	}
	if r.keeper != nil {
		o.Restore = r.keeper.Restore
	}
	return watchlist.NewReader(o)
}

// learnClusterUID asks for the UID of the cluster, before any record is made, until the server says what it
// is or that we may not know.
func (r *watchlistReceiver) learnClusterUID(ctx context.Context) {
	const part = "cluster UID"
	failing := false
	retry := watchlist.NewBackoff(800*time.Millisecond, 30*time.Second)
	for {
		uid, err := r.client.ClusterUID(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.records.SetClusterUID(uid)
			r.health.report(part, nil)
			return
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			r.set.Logger.Info("records carry no k8s.cluster.uid: grant get on the namespace kube-system to have it", zap.Error(err))
			r.health.report(part, nil)
			return
		case !failing:
			failing = true
			r.set.Logger.Warn("cannot reach the API server, will try again", zap.Error(err))
			r.health.report(part, err)
		}
		select {
		case <-time.After(retry.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}
