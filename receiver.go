package k8swatchlistreceiver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/clientlog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/delivery"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/entity"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/rights"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// snapshotsAtOnce bounds a receiver's concurrent snapshots.
const snapshotsAtOnce = 3

// openings paces the opening of streams for all receivers of the process.
var openings = kubeclient.NewOpeningPacer()

// watchlistReceiver wires the packages together: catalog → readers → delivery → next consumer.
type watchlistReceiver struct {
	cfg       *Config
	set       receiver.Settings
	next      consumer.Logs
	telemetry *telemetry

	client    *kubeclient.Client
	rights    *rights.Check
	reported  []rights.Need    // whose rights were asked about; used by one session after the other
	slots     *watchlist.Slots // of the client's server
	holding   *watchlist.Holding
	diffs     *diff.Budget
	redaction *redact.Policy
	records   *record.Builder
	entities  *entity.Entities   // nil without entity events
	keeper    *checkpoint.Keeper // nil without storage
	delivery  *delivery.Delivery[watchlist.Change]
	queued    atomic.Pointer[delivery.Delivery[watchlist.Change]] // the same, for metrics
	emitter   watchlist.Emitter                                   // the delivery, as the readers see it
	health    *health
	crowd     *watchlist.Crowd
	readers   readers
	session   *session

	detachClientLog func()
	replica         *replica // nil: there is only this one
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
	t, err := newTelemetry(builder, set.ID, cfg.Telemetry)
	if err != nil {
		return nil, err
	}
	return &watchlistReceiver{
		cfg:       cfg,
		set:       set,
		next:      delivery.WithObsReport(next, report, metadata.Type.String()),
		telemetry: t,
		crowd:     watchlist.NewCrowd(set.Logger),
	}, nil
}

// Start fails only if the receiver can never work, for example because the kubeconfig does not exist. It waits for an
// API server that does not answer, a resource that is not served, and missing rights.
func (r *watchlistReceiver) Start(ctx context.Context, host component.Host) error {
	detach := clientlog.Attach(r.set.Logger)
	if err := r.start(ctx, host); err != nil {
		detach()
		return err
	}
	r.detachClientLog = detach
	return nil
}

func (r *watchlistReceiver) start(ctx context.Context, host component.Host) error {
	var err error
	r.client, err = kubeclient.Connect(r.cfg.ClientOptions(r.set.BuildInfo.Version),
		kubeclient.WithOpenings(openings), kubeclient.WithLogger(r.set.Logger), kubeclient.WithObserver(r.telemetry))
	if err != nil {
		return err
	}
	r.diffs = r.newDiffs()
	r.rights = rights.New(r.client, float64(r.cfg.KubeAPIQPS))
	r.slots = watchlist.NewSlots(snapshotsAtOnce)
	r.holding = watchlist.NewHolding(r.cfg.Queue.MaxBytes / holdingShare)
	r.health = newHealth(host)
	if err := errors.Join(
		r.telemetry.observeOpen(r.client), r.telemetry.observeDiffs(r.diffs.Used), r.telemetry.observeStates(r.health.states),
	); err != nil {
		return err
	}
	var isPerProcess bool
	r.redaction, isPerProcess = r.newRedaction(ctx, host)
	records := r.cfg.recordOptions()
	records.ProcessKey = isPerProcess
	records.ScopeName, records.ScopeVersion = metadata.ScopeName, r.set.BuildInfo.Version
	r.records = record.NewBuilder(records)
	r.entities = r.cfg.newEntities()
	if r.replica, err = r.newReplica(host); err != nil {
		return err
	}
	if r.keeper, err = r.newKeeper(host); err != nil {
		return err
	}
	if err := r.telemetry.observeQueue(r.cfg.Queue.MaxBytes, r.queuedRecords); err != nil {
		return err
	}
	if x := r.replica; x != nil {
		if err := r.telemetry.observeReplica(x.leading, x.readyReaders, x.age); err != nil {
			return err
		}
		x.start()
		return nil
	}
	r.startDelivery(r.deliveryOptions())
	r.session = r.startSession(r.newReader)
	return nil
}

// startDelivery begins to deliver what readers emit from now on.
func (r *watchlistReceiver) startDelivery(o delivery.Options[watchlist.Change]) {
	r.delivery = delivery.New(o)
	r.emitter = r.delivery
	r.queued.Store(r.delivery)
	r.delivery.Start()
}

func (r *watchlistReceiver) queuedRecords() int {
	if d := r.queued.Load(); d != nil {
		return d.Records()
	}
	return 0
}

// Shutdown stops reading, then delivers the queue for as long as ctx and queue.drain_timeout allow.
func (r *watchlistReceiver) Shutdown(ctx context.Context) error {
	var err error
	switch {
	case r.replica != nil && r.replica.cancel != nil:
		r.health.end()
		err = r.replica.shutdown(ctx)
	case r.session != nil:
		r.health.end()
		r.session.stop()
		err = r.delivery.Shutdown(ctx)
	default:
		r.telemetry.builder.Shutdown()
		return nil // never started
	}
	if r.keeper != nil {
		err = errors.Join(err, r.keeper.Shutdown(ctx))
	}
	r.client.Close()
	r.detachClientLog()
	r.telemetry.builder.Shutdown()
	return err
}

// newKeeper returns the keeper of checkpoints, or nil if nothing has to be kept.
func (r *watchlistReceiver) newKeeper(host component.Host) (*checkpoint.Keeper, error) {
	extension, err := r.storage(host)
	if extension == nil || err != nil {
		return nil, err
	}
	o := checkpoint.Options{
		Extension:  extension,
		Receiver:   r.set.ID,
		Interval:   r.cfg.Checkpoint.Interval,
		MaxChanges: r.cfg.Checkpoint.MaxChanges,
		Cluster: func() checkpoint.Cluster {
			return checkpoint.Cluster{UID: r.records.ClusterUID(), Fingerprint: r.client.Fingerprint()}
		},
		Shard:  r.cfg.Shard.shard(),
		Wanted: r.cfg.reads,
		Report: r.health.report,
		Logger: r.set.Logger,
	}
	if r.replica != nil {
		o.Handover = r.replica.handover
	}
	if r.cfg.Storage == nil {
		keeper := checkpoint.NewKeeper(o)
		keeper.Start()
		return keeper, nil
	}
	o.Wrote = r.telemetry.wrote
	keeper := checkpoint.NewKeeper(o)
	if err := r.telemetry.observeCheckpoints(keeper.Ages); err != nil {
		return nil, err
	}
	keeper.Start()
	return keeper, nil
}

// storage returns the configured storage extension. A replica without one follows the leader in memory.
func (r *watchlistReceiver) storage(host component.Host) (storage.Extension, error) {
	if r.cfg.Storage == nil {
		if r.replica != nil {
			return checkpoint.NewMemory(), nil
		}
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
	return storageExtension, nil
}

func (r *watchlistReceiver) deliveryOptions() delivery.Options[watchlist.Change] {
	o := delivery.Options[watchlist.Change]{
		MaxBytes:        r.cfg.Queue.MaxBytes,
		BatchMaxRecords: r.cfg.Batch.MaxRecords,
		BatchMaxBytes:   r.cfg.Batch.MaxBytes,
		BatchTimeout:    r.cfg.Batch.Timeout,
		DrainTimeout:    r.cfg.Queue.DrainTimeout,
		Size:            changeBytes,
		IsRecord:        func(c watchlist.Change) bool { return r.records.IsRecord(&c) },
		Describe:        record.Describe,
		Build:           r.build,
		Next:            r.next,
		Accepted:        r.accepted,
		Dropped:         r.dropped,
		AcceptedAgain:   r.acceptedAgain,
		Retried:         r.telemetry.retried,
		QueueBytes:      r.telemetry.queueChanged,
		Report:          func(err error) { r.health.report("pipeline", err) },
		Logger:          r.set.Logger,
	}
	if r.keeper != nil {
		o.BeforeDeliver = r.keeper.BeforeDeliver
	}
	return o
}

// dropped is called with records that the next consumer refused permanently.
func (r *watchlistReceiver) dropped(changes []watchlist.Change, err error) {
	if r.entities != nil {
		r.entities.Dropped()
	}
	r.telemetry.dropped(changes, err)
	if r.keeper != nil {
		r.keeper.Dropped(changes)
	}
	r.readers.dropped(changes)
}

// acceptedAgain is called when the next consumer has accepted a record after one was dropped.
func (r *watchlistReceiver) acceptedAgain() { r.readers.acceptedAgain() }

// changeOverheadBytes is the approximate size of a queued change without its object.
const changeOverheadBytes = 768

// otherOverheadBytes is the same for a change that is not a record.
const otherOverheadBytes = 256

func changeBytes(c watchlist.Change) int {
	if !c.IsRecord() {
		return otherOverheadBytes
	}
	return changeOverheadBytes + c.Bytes()
}
