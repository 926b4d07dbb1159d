package record

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestDescribeNamesOnlyTheIdentity(t *testing.T) {
	f := func(c watchlist.Change, want string) {
		t.Helper()
		if got := Describe(c); got != want {
			t.Errorf("described as %q, want %q", got, want)
		}
	}
	of := func(group, resource string) *scope.Scope {
		s := scope.New(schema.GroupResource{Group: group, Resource: resource}, "", "", "")
		return &s
	}
	deployments := of("apps", "deployments")
	web := redact.Object{
		Identity: redact.Identity{UID: "u", ResourceVersion: "12", Namespace: "shop", Name: "web"},
		JSON:     `{"spec":{"paused":true}}`,
	}
	f(watchlist.Change{Scope: deployments, Type: watchlist.Modified, Object: web}, "k8s.object.modified deployments.apps shop/web at resourceVersion 12")
	node := redact.Object{Identity: redact.Identity{Name: "n1", ResourceVersion: "3"}}
	f(watchlist.Change{Scope: of("", "nodes"), Type: watchlist.Deleted, Object: node}, "k8s.object.deleted nodes n1 at resourceVersion 3")
	f(watchlist.Change{Scope: of("", "events"), Type: watchlist.Added, Object: web}, "k8s.event events shop/web at resourceVersion 12")
	f(watchlist.Change{Scope: deployments, Type: watchlist.Gap}, "k8s.watch.gap deployments.apps")
}
