package record

import (
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// bodyMode is a form of the body.
type bodyMode struct {
	name    string
	options Options
}

// bodiesOf returns the forms that bodies of the resource may have.
func bodiesOf(resource scope.Scope) []bodyMode {
	modes := []bodyMode{{"map", Options{Body: BodyMap, EventBody: EventObject}}, {"json", Options{Body: BodyJSON, EventBody: EventObject}}}
	if scope.IsEvents(resource.GroupResource) {
		modes = append(modes, bodyMode{"message", Options{}})
	}
	return modes
}

// frameBatch is how many frames one operation of the benchmarks turns into records: a batch of the delivery's size, so
// that the cost of a batch is shared as in a Collector.
const frameBatch = 100

// frames holds the objects of one kind, as the API server writes them, and what turns them into records.
type frames struct {
	object   []byte
	plan     *redact.Plan
	resource *scope.Scope
	builder  *Builder
	changes  []watchlist.Change
}

func newFrames(tb testing.TB, file string, resource scope.Scope, o Options) *frames {
	tb.Helper()
	o.ClusterName, o.ClusterUID = "bench", "8a1c"
	object, err := os.ReadFile("../redact/testdata/objects/" + file)
	if err != nil {
		tb.Fatal(err)
	}
	return &frames{
		object:   object,
		plan:     redact.NewPlan(resource.Group, resource.Resource),
		resource: &resource,
		builder:  NewBuilder(o),
	}
}

// round turns frameBatch frames into the records for the consumer.
func (f *frames) round(tb testing.TB) {
	f.changes = f.changes[:0]
	for range frameBatch {
		object, _, err := f.plan.Decode(f.object)
		if err != nil {
			tb.Fatal(err)
		}
		f.changes = append(f.changes, watchlist.Change{
			Scope: f.resource, Type: watchlist.Modified, Origin: watchlist.Live, Object: object, ReadAt: time.Unix(0, 0),
		})
	}
	if got := f.builder.Build(f.changes).LogRecordCount(); got != frameBatch {
		tb.Fatalf("%d frames made %d records", frameBatch, got)
	}
}

var benchmarkKinds = []struct {
	file     string
	resource scope.Scope
}{
	{"pod.json", scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}}},
	{"deployment.json", scope.Scope{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}}},
	{"node.json", scope.Scope{GroupResource: schema.GroupResource{Resource: "nodes"}}},
	{"event-core.json", scope.Scope{GroupResource: schema.GroupResource{Resource: "events"}}},
	{"rollout.json", scope.Scope{GroupResource: schema.GroupResource{Group: "argoproj.io", Resource: "rollouts"}}},
}

// BenchmarkFrameToRecord measures a batch of frames from bytes to records, including redaction.
func BenchmarkFrameToRecord(b *testing.B) {
	for _, kind := range benchmarkKinds {
		for _, body := range bodiesOf(kind.resource) {
			b.Run(kind.file+"/"+body.name, func(b *testing.B) {
				f := newFrames(b, kind.file, kind.resource, body.options)
				b.SetBytes(int64(len(f.object)) * frameBatch)
				b.ReportAllocs()
				for b.Loop() {
					f.round(b)
				}
			})
		}
	}
}
