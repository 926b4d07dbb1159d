package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// server is one kind of server that a receiver has to support.
type server struct {
	options controlplane.Options
	// fault is the fault of a server in front; the zero value means none.
	fault harness.Fault
}

var (
	modern           = server{}
	withoutWatchList = server{options: controlplane.Options{FeatureGates: map[string]bool{"WatchList": false}}}
	withoutMarker    = server{fault: harness.Fault{WithholdMarker: true}}
	lagging          = server{fault: harness.Fault{Lag: 300 * time.Millisecond}}
	concealing       = server{fault: harness.Fault{Unseen: "unseen"}}
)

// site is a cluster with a connection that can be cut.
type site struct {
	*harness.Cluster
	proxy *harness.Proxy
	// access is the configuration for access, in the form below receivers.k8s_watchlist.
	access string
	// middleman is the server in front; nil: there is none.
	middleman *harness.Middleman
}

func (s server) start(t *testing.T) *site {
	t.Helper()
	c := harness.StartCluster(t, s.options)
	if s.fault != (harness.Fault{}) {
		m := harness.StartMiddleman(t, c, s.fault)
		proxy := harness.StartProxy(t, m.Address())
		return &site{
			Cluster:   c,
			proxy:     proxy,
			access:    fmt.Sprintf("auth_type: none\napi_server: http://%s\n", proxy.Address()),
			middleman: m,
		}
	}
	proxy := harness.StartProxy(t, c.Address())
	return &site{
		Cluster: c,
		proxy:   proxy,
		access:  kubeconfig(c.KubeconfigVia(t, c.RESTConfig(), proxy.Address())),
	}
}

// kubeconfig returns the configuration for a kubeconfig file.
func kubeconfig(path string) string {
	return fmt.Sprintf("auth_type: kubeConfig\nkubeconfig: %q\n", path)
}

// requireWayOf requires that the receiver read the initial state in the way that this kind of server supports, so that
// the test matches its name.
func requireWayOf(t *testing.T, kind server, s *site, r *harness.Receiver) {
	t.Helper()
	if kind.fault.WithholdMarker && s.middleman.Withheld() == 0 {
		t.Error("the server had no end marker to withhold")
	}
	understandsWatchList := !kind.fault.WithholdMarker && kind.options.FeatureGates == nil
	if listed := r.Opened(t, "list") > 0; listed == understandsWatchList {
		t.Errorf("the receiver has listed: %t", listed)
	}
}
