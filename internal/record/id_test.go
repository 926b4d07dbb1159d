package record

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func idOf(t *testing.T, cluster string, c watchlist.Change) string {
	t.Helper()
	id, _ := build(t, Options{ClusterUID: cluster}, c)[0].Attributes().Get("k8s.change.id")
	return id.AsString()
}

func TestIDIsStable(t *testing.T) {
	first := watchlist.Change{Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Initial, Object: pod(), ReadAt: read}
	again := first
	again.Scope = &scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}, LabelSelector: "team=web"}
	again.Origin = watchlist.Relist
	again.ReadAt = read.Add(1)
	again.Snapshot = &watchlist.SnapshotInfo{Epoch: "e7"}
	again.Object.JSON = "{}"
	if a, b := idOf(t, "c", first), idOf(t, "c", again); a != b {
		t.Errorf("the same object at the same version has ids %s and %s", a, b)
	}
	// As computed in docs/records.md: printf 'c\npod-uid\n1042\nSNAPSHOT' | sha256sum | cut -c 1-32
	if got, want := idOf(t, "c", first), "44f7e86b822ce81eb3e4ced1c72afa5f"; got != want {
		t.Errorf("id is %s, want %s: ids must not change between releases", got, want)
	}
}

func TestIDsDiffer(t *testing.T) {
	set := func(epoch string) *watchlist.SnapshotInfo { return &watchlist.SnapshotInfo{Epoch: epoch} }
	withoutUID := func(name string) redact.Object {
		return redact.Object{Identity: redact.Identity{ResourceVersion: "1", Namespace: "shop", Name: name}}
	}
	object := func(t watchlist.Type, o redact.Object) watchlist.Change {
		return watchlist.Change{Scope: pods, Type: t, Object: o}
	}
	changes := map[string]watchlist.Change{
		"snapshot":           object(watchlist.Snapshot, pod()),
		"added":              object(watchlist.Added, pod()),
		"modified":           object(watchlist.Modified, pod()),
		"deleted":            object(watchlist.Deleted, pod()),
		"another version":    object(watchlist.Modified, podWith(func(o *redact.Object) { o.ResourceVersion = "1043" })),
		"another object":     object(watchlist.Modified, podWith(func(o *redact.Object) { o.UID = "pod-uid-2" })),
		"parts moved":        object(watchlist.Modified, podWith(func(o *redact.Object) { o.UID, o.ResourceVersion = "pod-uid1", "042" })),
		"without UID":        object(watchlist.Modified, withoutUID("a")),
		"without UID either": object(watchlist.Modified, withoutUID("b")),
		"gap":                {Scope: pods, Type: watchlist.Gap, Gap: &watchlist.GapInfo{FromRV: "1", ToRV: "2"}},
		"another gap":        {Scope: pods, Type: watchlist.Gap, Gap: &watchlist.GapInfo{FromRV: "2", ToRV: "3"}},
		"gap of nodes":       {Scope: nodes, Type: watchlist.Gap, Gap: &watchlist.GapInfo{FromRV: "1", ToRV: "2"}},
		"begin":              {Scope: pods, Type: watchlist.SnapshotBegin, Snapshot: set("e7")},
		"end":                {Scope: pods, Type: watchlist.SnapshotEnd, Snapshot: set("e7")},
		"another set":        {Scope: pods, Type: watchlist.SnapshotBegin, Snapshot: set("e8")},
		"set of a selection": {Scope: teamWeb, Type: watchlist.SnapshotBegin, Snapshot: set("e7")},
	}
	// The ids of two readers differ if any part of their scopes does.
	for _, s := range []scope.Scope{
		{Namespace: "shop"}, {Namespace: "pay"}, {LabelSelector: "team=web"}, {FieldSelector: "metadata.name!=x"},
	} {
		s.Resource = "pods"
		changes["gap of "+s.String()] = watchlist.Change{Scope: &s, Type: watchlist.Gap, Gap: &watchlist.GapInfo{FromRV: "1", ToRV: "2"}}
		changes["begin of "+s.String()] = watchlist.Change{Scope: &s, Type: watchlist.SnapshotBegin, Snapshot: set("e7")}
		changes["end of "+s.String()] = watchlist.Change{Scope: &s, Type: watchlist.SnapshotEnd, Snapshot: set("e7")}
	}
	// Without versions, a change read at another time is another change.
	for i, at := range []time.Time{read, read.Add(1)} {
		changes[fmt.Sprintf("no version %d", i)] = watchlist.Change{Scope: pods, Type: watchlist.Modified, ReadAt: at,
			Object: podWith(func(o *redact.Object) { o.ResourceVersion = "" })}
		changes[fmt.Sprintf("no version and no UID %d", i)] = watchlist.Change{Scope: pods, Type: watchlist.Modified, ReadAt: at,
			Object: redact.Object{Identity: redact.Identity{Name: "a"}}}
		changes[fmt.Sprintf("gap without versions %d", i)] = watchlist.Change{Scope: pods, Type: watchlist.Gap, ReadAt: at,
			Gap: &watchlist.GapInfo{Reason: "relist"}}
	}
	seen := map[string]string{}
	for _, cluster := range []string{"", "c", "d"} {
		for name, c := range changes {
			id := idOf(t, cluster, c)
			if other, ok := seen[id]; ok {
				t.Errorf("%q in cluster %q has the id of %s", name, cluster, other)
			}
			seen[id] = name + " in " + cluster
		}
	}
}
