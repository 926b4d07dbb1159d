package replay

import (
	"sync/atomic"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
)

// Resource is a served resource.
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

// versions are shared by all resources, like etcd's revisions.
type versions struct{ last atomic.Uint64 }

// The range of versions of unchanged objects. The lowest has the minimum number of digits for protobuf metadata.
const (
	leastVersion = 1000
	firstVersion = 10_001_000
)

// initialVersion returns the version of an unchanged object. Initial versions are unique but unordered.
func (r *Resource) initialVersion(number int) uint64 {
	const prime = 9_999_991 // larger than any count
	return leastVersion + (uint64(number)+1)*7919%prime
}
