package k8swatchlistreceiver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/delivery"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// snapshotSlots bounds the snapshots that all receivers of the process take at once: each may hold up to
// ten of the API server's seats for as long as it lasts.
// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#seats-occupied-by-a-request
var snapshotSlots = make(chan struct{}, 3)

// watchlistReceiver wires the rooms together: catalog → readers → delivery → next consumer.
type watchlistReceiver struct {
	cfg       *Config
	set       receiver.Settings
	next      consumer.Logs
	telemetry *telemetry

	client   *kubeclient.Client
	records  *record.Builder
	keeper   *checkpoint.Keeper // nil without storage
	delivery *delivery.Delivery[watchlist.Change]
	health   *health
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

func newReceiver(cfg *Config, set receiver.Settings, next consumer.Logs) (receiver.Logs, error) {
	report, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID: set.ID, Transport: "http", ReceiverCreateSettings: set,
	})
	if err != nil {
		return nil, err
	}
	builder, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	t, err := newTelemetry(builder, set.ID)
	if err != nil {
		return nil, err
	}
	return &watchlistReceiver{
		cfg:       cfg,
		set:       set,
		next:      delivery.WithObsReport(next, report, metadata.Type.String()),
		telemetry: t,
	}, nil
}

// Start fails only for what can never work, such as a kubeconfig that is not there. An API server that does
// not answer, a resource that is not served and rights that are missing are waited for.
func (r *watchlistReceiver) Start(_ context.Context, host component.Host) error {
	restConfig, err := kubeclient.RESTConfig(r.cfg.clientOptions(r.set.BuildInfo.Version))
	if err != nil {
		return err
	}
	r.client, err = kubeclient.New(restConfig)
	if err != nil {
		return err
	}
	r.health = newHealth(host)
	if r.keeper, err = r.newKeeper(host); err != nil {
		return err
	}
	r.records = record.NewBuilder(record.Options{
		ClusterName:  r.cfg.ClusterName,
		Body:         recordBody(r.cfg.Body),
		ScopeName:    metadata.ScopeName,
		ScopeVersion: r.set.BuildInfo.Version,
	})
	r.delivery = delivery.New(r.deliveryOptions())
	r.delivery.Start()

	readers := catalog.New(catalog.Options{
		Specs:     r.cfg.specs(),
		Server:    r.client,
		NewReader: r.newReader,
		Report:    r.health.report,
		Logger:    r.set.Logger,
	})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.running.Go(func() {
		r.learnClusterUID(ctx)
		readers.Run(ctx)
	})
	return nil
}

// Shutdown stops reading, then delivers what waits for as long as ctx and queue.drain_timeout allow.
func (r *watchlistReceiver) Shutdown(ctx context.Context) error {
	if r.cancel == nil {
		r.telemetry.builder.Shutdown()
		return nil // never started
	}
	r.cancel()
	r.running.Wait()
	err := r.delivery.Shutdown(ctx)
	if r.keeper != nil {
		err = errors.Join(err, r.keeper.Shutdown(ctx))
	}
	r.client.Close()
	r.telemetry.builder.Shutdown()
	return err
}

func (r *watchlistReceiver) newReader(resource watchlist.Resource, listOnly bool, served func(context.Context) (bool, error)) *watchlist.Reader {
	reader := watchlist.NewReader(watchlist.Options{
		Resource:       resource,
		Plan:           redact.NewPlan(resource.Group, resource.Plural),
		Opener:         r.client,
		Emitter:        r.delivery,
		Served:         served,
		SnapshotSlots:  snapshotSlots,
		Now:            time.Now,
		RelistInterval: r.cfg.Relist.Interval,
		RotateInterval: r.cfg.Relist.RotateInterval,
		EmitSnapshots:  r.cfg.Relist.Emit == emitSnapshot,
		SkipInitial:    r.cfg.InitialState == initialSkip,
		ListOnly:       listOnly,
		Observer: readerObserver{
			resourceTelemetry: r.telemetry.of(resource),
			name:              readerName(resource),
			health:            r.health,
		},
		Logger: r.set.Logger,
	})
	if r.keeper != nil {
		reader.Restore = func(ctx context.Context, add func(redact.Identity)) (watchlist.Progress, error) {
			return r.keeper.Restore(ctx, r.records.ClusterUID(), &reader.Resource, add)
		}
	}
	return reader
}

// newKeeper returns what keeps checkpoints in the storage extension that is configured, if one is.
func (r *watchlistReceiver) newKeeper(host component.Host) (*checkpoint.Keeper, error) {
	if r.cfg.Storage == nil {
		return nil, nil
	}
	extension, ok := host.GetExtensions()[*r.cfg.Storage]
	if !ok {
		return nil, fmt.Errorf("storage: there is no extension %s; define it under extensions and name it in service.extensions", r.cfg.Storage)
	}
	storageExtension, ok := extension.(storage.Extension)
	if !ok {
		return nil, fmt.Errorf("storage: the extension %s is not a storage extension; use one such as file_storage", r.cfg.Storage)
	}
	keeper := checkpoint.NewKeeper(checkpoint.Options{
		Extension:  storageExtension,
		Receiver:   r.set.ID,
		Interval:   r.cfg.Checkpoint.Interval,
		MaxChanges: r.cfg.Checkpoint.MaxChanges,
		Report:     r.health.report,
		Logger:     r.set.Logger,
	})
	keeper.Start()
	return keeper, nil
}

func (r *watchlistReceiver) deliveryOptions() delivery.Options[watchlist.Change] {
	o := delivery.Options[watchlist.Change]{
		MaxBytes:        r.cfg.Queue.MaxBytes,
		BatchMaxRecords: r.cfg.Batch.MaxRecords,
		BatchMaxBytes:   r.cfg.Batch.MaxBytes,
		BatchTimeout:    r.cfg.Batch.Timeout,
		DrainTimeout:    r.cfg.Queue.DrainTimeout,
		Size:            changeBytes,
		IsRecord:        func(c watchlist.Change) bool { return c.IsRecord() },
		Describe:        record.Describe,
		Build:           r.records.Build,
		Next:            r.next,
		Dropped:         r.telemetry.dropped,
		Retried:         r.telemetry.retried,
		QueueBytes:      r.telemetry.queueChanged,
		Report:          func(err error) { r.health.report("pipeline", err) },
		Logger:          r.set.Logger,
	}
	if r.keeper != nil {
		o.BeforeDeliver, o.Accepted = r.keeper.Offering, r.keeper.Accepted
	}
	return o
}

// readerName names a reader in the component status.
func readerName(r watchlist.Resource) string {
	name := r.Plural
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Namespace != "" {
		name += " in namespace " + r.Namespace
	}
	if r.LabelSelector != "" || r.FieldSelector != "" {
		name += fmt.Sprintf(" (%s%s)", r.LabelSelector, r.FieldSelector)
	}
	return name
}

// changeOverheadBytes is about what a queued change weighs besides its object.
const changeOverheadBytes = 512

// otherOverheadBytes is the same of a change that is no record.
const otherOverheadBytes = 256

func changeBytes(c watchlist.Change) int {
	if !c.IsRecord() {
		return otherOverheadBytes
	}
	return changeOverheadBytes + len(c.Object.JSON)
}

func recordBody(body string) record.BodyMode {
	if body == bodyJSON {
		return record.BodyJSON
	}
	return record.BodyMap
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
