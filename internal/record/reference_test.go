package record

import (
	gobuild "go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/reference"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func readReference(t *testing.T) *reference.Table {
	t.Helper()
	table, err := reference.ReadFile("../../docs/records.md")
	require.NoError(t, err)
	return table
}

// The reference has exactly the attributes that are emitted, with their types, for exactly those kinds of records. (Entity
// events are made elsewhere.) A test does the same with the records of a real Collector, but takes longer.
func TestReference(t *testing.T) {
	coverage := readReference(t).NewCoverage()
	emit := func(o Options, changes ...watchlist.Change) {
		for i := range changes {
			changes[i].ReadAt = read
		}
		for _, difference := range coverage.AddLogs(NewBuilder(o).Build(changes)) {
			t.Error(difference)
		}
	}
	of := func(resource schema.GroupResource, object redact.Object) watchlist.Change {
		return watchlist.Change{Scope: &scope.Scope{GroupResource: resource}, Type: watchlist.Added, Origin: watchlist.Live, Object: object}
	}
	withFault := func(c watchlist.Change) watchlist.Change { // with what is only said of objects that are not as they should be
		c.Object.RedactionFailed, c.Object.Cluster, c.Object.JSON = true, "root:org", `{"metadata":`
		c.Cut, c.Suppressed, c.Snapshot = []string{"spec"}, 3, &watchlist.SnapshotInfo{Epoch: "e"}
		c.Origin = watchlist.Recovered
		if c.Type.IsOfObject() {
			c.Manager = redact.Manager{Name: "kubelet", Operation: "Update"} // of Events too, which have no subresources
		}
		return c
	}

	options := []Options{
		{ClusterUID: "u", ClusterName: "c", ProcessKey: true, PodIP: true, Grouping: ByObject, Resource: map[string]any{"service.name": "x"}},
		{Body: BodySummary, Object: ObjectJSON},
		{Body: BodyNone, Object: ObjectMap},
		{ClusterName: "c", FormatOf: always(FormatK8sObjects)},
	}
	event := redact.Object{
		Identity: redact.Identity{UID: "ev", Name: "e", Namespace: "shop", ResourceVersion: "7"}, APIVersion: "v1", Kind: "Event", JSON: "{}",
		Event: &redact.Event{Reason: "BackOff", Action: "a", Type: "Warning", Count: 2, ReportingController: "c", ReportingInstance: "i"},
		Times: redact.Times{Created: created},
	}
	var changes []watchlist.Change
	for _, tt := range recordCases() {
		changes = append(changes, tt.change, withFault(tt.change))
	}
	for resource := range kinds {
		changes = append(changes, of(resource, redact.Object{Identity: redact.Identity{Name: "a", UID: "u"}, JSON: "{}"}))
	}
	for kind := range conventions {
		about := *event.Event
		about.Regarding = redact.Reference{APIVersion: kind.Group + "/v1", Kind: kind.Kind, Namespace: "shop", Name: "a", UID: "u", FieldPath: "spec"}
		if kind.Group == "" {
			about.Regarding.APIVersion = "v1"
		}
		o := event
		o.Event = &about
		changes = append(changes, of(events.GroupResource, o))
	}
	unnamed := watchlist.Change{Scope: events, Type: watchlist.Gap, Gap: &watchlist.GapInfo{Reason: "undecodable", Object: redact.Identity{Name: "e"}}}
	changes = append(changes, unnamed)
	some := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "").In(scope.Namespaces{Include: []string{"team-*"}}).Of(shard.Shard{Index: 1, Total: 2})
	changes = append(changes, watchlist.Change{Scope: &some, Type: watchlist.SnapshotBegin, Snapshot: &watchlist.SnapshotInfo{Epoch: "e"}},
		watchlist.Change{Scope: &some, Type: watchlist.Gap, Gap: &watchlist.GapInfo{Reason: "expired", FromRV: "1", ToRV: "2"}})
	for _, o := range options {
		emit(o, changes...)
	}
	for _, c := range []watchlist.Change{of(events.GroupResource, event), withFault(of(events.GroupResource, event))} {
		emit(Options{FormatOf: always(FormatK8sEvents)}, c)
	}

	assert.Empty(t, coverage.Missing(reference.Resource, reference.Object, reference.Event, reference.Gap, reference.Set,
		reference.K8sObjects, reference.K8sEvents), "in the reference, but not emitted")
}

// The reference calls exactly those attributes conventional that the semantic conventions define, or the specification of
// entity events.
func TestReferenceNamesTheConventions(t *testing.T) {
	conventions, err := gobuild.Import("go.opentelemetry.io/otel/semconv/v1.43.0", ".", gobuild.FindOnly)
	require.NoError(t, err)
	source, err := os.ReadFile(filepath.Join(conventions.Dir, "attribute_group.go"))
	require.NoError(t, err)
	for _, a := range readReference(t).Attributes {
		isConventional := strings.Contains(string(source), `attribute.Key("`+a.Name+`")`) || strings.HasPrefix(a.Name, "entity.")
		assert.Equal(t, isConventional, a.Stability == reference.Convention, a.Name)
	}
}
