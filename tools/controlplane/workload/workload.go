// Package workload fills a cluster without nodes and controllers with sample objects and keeps changing them at a pace
// that a person can follow. It does the work of the kubelet, the scheduler and the controllers: a pod is created,
// assigned, started, gracefully deleted and removed.
package workload

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// DefaultPace is the time between two changes.
const DefaultPace = 2 * time.Second

// Workload is a set of sample objects in one cluster.
type Workload struct {
	// Log receives a line for every change. Required.
	Log func(format string, args ...any)

	// Pace is the time between two changes. 0: DefaultPace.
	Pace time.Duration

	http    *http.Client
	clients kubernetes.Interface
	dynamic dynamic.Interface

	web   webDeployment
	round int // how many times every change was made
}

// New returns a workload for the cluster of config. Close it.
func New(config *rest.Config, log func(format string, args ...any)) (*Workload, error) {
	w := &Workload{Log: log}
	var err error
	if w.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("cannot create a client for the workload: %w", err)
	}
	if w.clients, err = kubernetes.NewForConfigAndClient(config, w.http); err != nil {
		return nil, fmt.Errorf("cannot create a client for the workload: %w", err)
	}
	if w.dynamic, err = dynamic.NewForConfigAndClient(config, w.http); err != nil {
		return nil, fmt.Errorf("cannot create a client for the workload: %w", err)
	}
	return w, nil
}

// Close closes the idle connections.
func (w *Workload) Close() { w.http.CloseIdleConnections() }

// Apply creates the sample objects. The cluster must not have them yet.
func (w *Workload) Apply(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		w.applyNodes,
		w.applyNamespaces,
		w.applyConfiguration,
		w.applyCarts,
		w.applyWeb,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("cannot apply the sample workload: %w", err)
		}
	}
	return nil
}

// Run makes one change after another until ctx ends. A failed change is logged and skipped, since the API server may be
// restarting.
func (w *Workload) Run(ctx context.Context) {
	for ctx.Err() == nil {
		w.Round(ctx)
	}
}

// Round makes every change once, or until ctx ends.
func (w *Workload) Round(ctx context.Context) {
	pace := w.Pace
	if pace == 0 {
		pace = DefaultPace
	}
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for _, change := range []func(context.Context) error{
		w.scaleUp,
		w.labelPod,
		w.changeConfiguration,
		w.failPod,
		w.changeCart,
		w.scaleDown,
		w.runMigration,
		w.changeNode,
		w.changeService,
		w.finishMigration,
		w.rotateSecret,
	} {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := change(ctx); err != nil && ctx.Err() == nil {
			w.Log("%v", err)
		}
	}
	w.round++
}
