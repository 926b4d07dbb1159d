package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
)

const (
	// shareDiscovery is how long a discovery is shared by readers that get a 404 at the same time. They may be
	// hundreds, and each discovery uses requests that resuming streams need.
	shareDiscovery = 5 * time.Second
	// absenceProof is the minimum time between two discoveries that both have to lack a resource before its objects are
	// reported deleted. An API server that has just started may list fewer groups than it serves.
	absenceProof = 30 * time.Second
)

// directory runs discovery, once for all that ask at the same time.
type directory struct {
	server Server
	// isRemoved reports whether the definition of a resource was deleted.
	isRemoved func(schema.GroupResource) bool
	turn      chan struct{} // holds a token while the fields below are not in use

	at      time.Time // time of the last answer
	served  *kubeclient.Served
	err     error
	missing map[schema.GroupResource]time.Time // since when valid answers have lacked a resource
}

func newDirectory(server Server, isRemoved func(schema.GroupResource) bool) *directory {
	d := &directory{server: server, isRemoved: isRemoved, turn: make(chan struct{}, 1), missing: make(map[schema.GroupResource]time.Time)}
	d.turn <- struct{}{}
	return d
}

// ask returns what the server serves, from an answer no older than maxAge.
func (d *directory) ask(ctx context.Context, maxAge time.Duration) (*kubeclient.Served, error) {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { d.turn <- struct{}{} }()
	if !d.at.IsZero() && time.Since(d.at) < maxAge {
		return d.served, d.err
	}
	served, err := d.server.Discover(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err() // says nothing about the server
	}
	d.at, d.served, d.err = time.Now(), served, err
	if err == nil {
		for resource := range d.missing {
			if _, err := served.Lookup(resource.Group, true, resource.Resource, ""); !errors.Is(err, kubeclient.ErrNotServed) {
				delete(d.missing, resource)
			}
		}
	}
	return served, err
}

// proveAbsence is called when the last answer lacked a resource. It returns nil if its definition was deleted, or if an
// answer long enough before lacked it too, and none in between had it.
func (d *directory) proveAbsence(resource schema.GroupResource) error {
	if d.isRemoved(resource) {
		return nil
	}
	<-d.turn
	defer func() { d.turn <- struct{}{} }()
	since, ok := d.missing[resource]
	if !ok {
		d.missing[resource] = d.at
		since = d.at
	}
	if d.at.Sub(since) >= absenceProof {
		return nil
	}
	return fmt.Errorf("discovery lacks %s: its objects are reported deleted if that is still so %s later", resource, absenceProof)
}
