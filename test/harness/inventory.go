package harness

import (
	"context"
	"fmt"
	"sort"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Inventory is the stored state of a resource's reader.
type Inventory struct {
	State    fold.State
	Progress watchlist.Progress
}

// StoredInventories reads the stored state of the readers of some resources from a folder of the file_storage
// extension, with that extension and the keeper that a reader uses. The Collector must have ended.
func (c *Cluster) StoredInventories(t testing.TB, folder string, resources ...schema.GroupVersionResource) map[schema.GroupVersionResource]Inventory {
	t.Helper()
	var scopes []scope.Scope
	for _, resource := range resources {
		scopes = append(scopes, scope.New(resource.GroupResource(), "", "", ""))
	}
	system, err := c.Client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("cannot get the UID of the cluster: %v", err)
	}
	stored := c.StoredScopes(t, folder, string(system.UID), scopes...)
	inventories := map[schema.GroupVersionResource]Inventory{}
	for i, resource := range resources {
		inventories[resource] = stored[scopes[i]]
	}
	return inventories
}

// StoredScopes does the same for readers of any scopes, in a process that knew the UID of the cluster, or did not if it
// is "".
func (c *Cluster) StoredScopes(t testing.TB, folder, clusterUID string, scopes ...scope.Scope) map[scope.Scope]Inventory {
	t.Helper()
	extension, closeIt := OpenFileStorage(t, folder)
	defer closeIt()
	keeper := checkpoint.NewKeeper(checkpoint.Options{
		Extension: extension,
		Receiver:  component.MustNewID("k8s_watchlist"),
		Cluster:   func() checkpoint.Cluster { return checkpoint.Cluster{UID: clusterUID} },
		Report:    func(string, error) {}, // Restore returns the important errors
		Logger:    zap.NewNop(),
	})
	keeper.Start()
	defer func() {
		if err := keeper.Shutdown(context.Background()); err != nil {
			t.Errorf("cannot close the storage: %v", err)
		}
	}()

	inventories := map[scope.Scope]Inventory{}
	for _, of := range scopes {
		inventory := Inventory{State: fold.State{}}
		var err error
		inventory.Progress, err = keeper.Restore(t.Context(), &of, func(o watchlist.Stored) {
			inventory.State[o.UID] = o.ResourceVersion
		})
		if err != nil {
			t.Fatalf("cannot read what the reader of %s has stored: %v", of, err)
		}
		if inventory.Progress.ResourceVersion == "" {
			t.Errorf("the reader of %s has stored no position", of)
		}
		inventories[of] = inventory
	}
	return inventories
}

// InventoryDifferences returns how the stored state of the readers differs from what the API server holds. Objects that
// change by themselves during the check, such as expiring Events, may be as in the listing before.
func (c *Cluster) InventoryDifferences(t testing.TB, folder string, before map[schema.GroupVersionResource]Listing, resources ...schema.GroupVersionResource) []string {
	t.Helper()
	var found []string
	for resource, inventory := range c.StoredInventories(t, folder, resources...) {
		for _, difference := range DifferencesFromEither(inventory.State, before[resource].State, c.List(t, resource).State, nil) {
			found = append(found, fmt.Sprintf("inventory of %s: %s", Name(resource), difference))
		}
	}
	sort.Strings(found)
	return found
}

// DifferencesFromEither returns where a state differs from both listings. With same, the state may have an earlier version
// that has the same content.
func DifferencesFromEither(state, one, other fold.State, same fold.Same) []string {
	if one == nil {
		one = other
	}
	uids := map[string]bool{}
	for _, known := range []fold.State{state, one, other} {
		for uid := range known {
			uids[uid] = true
		}
	}
	var found []string
	for uid := range uids {
		believed := fold.State{}
		if rv, ok := state[uid]; ok {
			believed[uid] = rv
		}
		agrees := func(listed fold.State) bool {
			only := fold.State{}
			if rv, ok := listed[uid]; ok {
				only[uid] = rv
			}
			return len(believed.DifferencesBut(only, same)) == 0
		}
		if !agrees(one) && !agrees(other) {
			found = append(found, fmt.Sprintf("%s is at %q and listed at %q, then %q", uid, state[uid], one[uid], other[uid]))
		}
	}
	sort.Strings(found)
	return found
}
