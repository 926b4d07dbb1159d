package replay

import (
	"sync/atomic"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
)

// Resource is one that the server serves.
type Resource struct {
	Objects *corpus.Objects
	Count   int

	path    string
	history *history
}

func newResource(objects *corpus.Objects, count int) *Resource {
	kind := objects.Kind
	r := &Resource{Objects: objects, Count: count, history: newHistory()}
	if kind.Group == "" {
		r.path = "/api/" + kind.Version + "/" + kind.Plural
	} else {
		r.path = "/apis/" + kind.Group + "/" + kind.Version + "/" + kind.Plural
	}
	return r
}

// versions count for all resources together, as those of etcd do.
type versions struct{ last atomic.Uint64 }

// Versions of objects that never changed lie between these. The least has as many digits as one must have that is
// written as protobuf.
const (
	leastVersion = 1000
	firstVersion = 10_001_000
)

// initialVersion is the one of an object that never changed. They are unique, and in no order.
func (r *Resource) initialVersion(number int) uint64 {
	const prime = 9_999_991 // larger than any count
	return leastVersion + (uint64(number)+1)*7919%prime
}
