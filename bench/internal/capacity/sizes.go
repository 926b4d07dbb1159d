package capacity

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Size is how large the objects of a kind are, in bytes each.
type Size struct {
	Wire     float64 // a watch event, as JSON
	Metadata float64 // in a relist, as protobuf
	Record   float64 // a log record in OTLP, uncompressed
}

// What surrounds an object in a stream: {"type":"ADDED","object": and } with a newline; in protobuf the length and the type.
const eventBytes, metadataEventBytes = 27, 20

// sizeOf measures the synthetic objects of the benchmarks, with the records that the receiver makes of them.
func sizeOf(kind *corpus.Kind, body record.BodyMode) (Size, error) {
	const objects = 256
	of := corpus.New(kind, 1)
	plan := redact.NewPlan(kind.Group, kind.Plural)
	read := scope.New(schema.GroupResource{Group: kind.Group, Resource: kind.Plural}, "", "", "")
	var size Size
	changes := make([]watchlist.Change, 0, objects)
	for i := range objects {
		data := of.Append(nil, i, 123_456_789, corpus.Full)
		size.Wire += float64(len(data) + eventBytes)
		size.Metadata += float64(len(of.Append(nil, i, 123_456_789, corpus.PartialEncoded)) + metadataEventBytes)
		object, _, err := plan.Decode(data)
		if err != nil {
			return Size{}, fmt.Errorf("cannot decode object %d of %s: %w", i, kind.Resource(), err)
		}
		changes = append(changes, watchlist.Change{Scope: &read, Type: watchlist.Modified, Origin: watchlist.Live, Object: object,
			ReadAt: time.Unix(1_800_000_000, 0)})
	}
	builder := record.NewBuilder(record.Options{ClusterName: "production", ClusterUID: "8f1f8f52-64a8-4f0c-9b0e-8f1c6a3f2d11", Body: body})
	size.Record = float64((&plog.ProtoMarshaler{}).LogsSize(builder.Build(changes)))
	size.Wire /= objects
	size.Metadata /= objects
	size.Record /= objects
	return size, nil
}
