package record

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Spelled out, so that a mix-up of constants of the semantic conventions is noticed.
func TestKinds(t *testing.T) {
	for _, tt := range []struct{ group, plural, name, uid string }{
		{"", "namespaces", "k8s.namespace.name", ""},
		{"", "nodes", "k8s.node.name", "k8s.node.uid"},
		{"", "persistentvolumeclaims", "k8s.persistentvolumeclaim.name", "k8s.persistentvolumeclaim.uid"},
		{"", "persistentvolumes", "k8s.persistentvolume.name", "k8s.persistentvolume.uid"},
		{"", "pods", "k8s.pod.name", "k8s.pod.uid"},
		{"", "replicationcontrollers", "k8s.replicationcontroller.name", "k8s.replicationcontroller.uid"},
		{"", "resourcequotas", "k8s.resourcequota.name", "k8s.resourcequota.uid"},
		{"", "services", "k8s.service.name", "k8s.service.uid"},
		{"apps", "daemonsets", "k8s.daemonset.name", "k8s.daemonset.uid"},
		{"apps", "deployments", "k8s.deployment.name", "k8s.deployment.uid"},
		{"apps", "replicasets", "k8s.replicaset.name", "k8s.replicaset.uid"},
		{"apps", "statefulsets", "k8s.statefulset.name", "k8s.statefulset.uid"},
		{"autoscaling", "horizontalpodautoscalers", "k8s.hpa.name", "k8s.hpa.uid"},
		{"batch", "cronjobs", "k8s.cronjob.name", "k8s.cronjob.uid"},
		{"batch", "jobs", "k8s.job.name", "k8s.job.uid"},
		{"storage.k8s.io", "storageclasses", "k8s.storageclass.name", ""},
		// Kinds that the conventions do not define, and others with the same name as defined ones.
		{"", "configmaps", "", ""},
		{"", "events", "", ""},
		{"networking.k8s.io", "ingresses", "", ""},
		{"serving.knative.dev", "services", "", ""},
		{"batch.volcano.sh", "jobs", "", ""},
		{"metrics.k8s.io", "pods", "", ""},
		{"metrics.k8s.io", "nodes", "", ""},
		{"calendar.example.com", "events", "", ""},
	} {
		resource := &scope.Scope{GroupResource: schema.GroupResource{Group: tt.group, Resource: tt.plural}}
		record := build(t, Options{}, watchlist.Change{Scope: resource, Type: watchlist.Added, ReadAt: read,
			Object: redact.Object{Identity: redact.Identity{UID: "the-uid", Name: "the-name"}}})[0]
		wantEvent := "k8s.object.added"
		if tt.group == "" && tt.plural == "events" {
			wantEvent = "k8s.event"
		}
		if got := record.EventName(); got != wantEvent {
			t.Errorf("%s %s: event name is %s, want %s", tt.plural, tt.group, got, wantEvent)
		}
		attributes := record.Attributes().AsRaw()
		for _, key := range []string{"k8s.change.id", "k8s.change.type", "k8s.change.inferred",
			"k8s.resource.name", "k8s.resource.group", "k8s.object.api_version", "k8s.object.name", "k8s.object.uid",
			"k8s.event.name", "k8s.event.uid"} {
			delete(attributes, key)
		}
		want := map[string]any{}
		if tt.name != "" {
			want[tt.name] = "the-name"
		}
		if tt.uid != "" {
			want[tt.uid] = "the-uid"
		}
		if pretty(attributes) != pretty(want) {
			t.Errorf("%s %s: %s, want %s", tt.plural, tt.group, pretty(attributes), pretty(want))
		}
	}
	if len(kinds) != 16 {
		t.Errorf("%d kinds, but 16 are tested", len(kinds))
	}
}
