package record

import (
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestDescribeNamesTheObjectAndNothingOfIt(t *testing.T) {
	f := func(c watchlist.Change, want string) {
		t.Helper()
		if got := Describe(c); got != want {
			t.Errorf("described as %q, want %q", got, want)
		}
	}
	deployments := &watchlist.Resource{Group: "apps", Version: "v1", Plural: "deployments"}
	web := redact.Object{
		Identity: redact.Identity{UID: "u", ResourceVersion: "12", Namespace: "shop", Name: "web"},
		JSON:     `{"spec":{"paused":true}}`,
	}
	f(watchlist.Change{Resource: deployments, Type: watchlist.Modified, Object: web}, "k8s.object.modified deployments.apps shop/web at resourceVersion 12")
	node := redact.Object{Identity: redact.Identity{Name: "n1", ResourceVersion: "3"}}
	f(watchlist.Change{Resource: &watchlist.Resource{Plural: "nodes"}, Type: watchlist.Deleted, Object: node}, "k8s.object.deleted nodes n1 at resourceVersion 3")
	f(watchlist.Change{Resource: &watchlist.Resource{Plural: "events"}, Type: watchlist.Added, Object: web}, "k8s.event events shop/web at resourceVersion 12")
	f(watchlist.Change{Resource: deployments, Type: watchlist.Gap}, "k8s.watch.gap deployments.apps")
}
