package watchlist

import (
	"sort"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

const (
	// maxPendingBytes bounds the objects kept until the live stream has delivered them. If they exceed it none is kept,
	// and a recovery emits each object as it arrives.
	maxPendingBytes = 8 << 20
	// pendingOverhead is the approximate cost of an object beyond its body.
	pendingOverhead = 512
	// maxMissedObjects is how many missed objects a relist itself emits at most. With more, waiting for the live stream
	// is not worthwhile.
	maxMissedObjects = 1000
)

// pendingObjects are newer in the snapshot of a relist than in the inventory.
type pendingObjects struct {
	objects map[Key]pendingObject
	bytes   int
	missed  int // missed objects whose metadata is all that is known
}

type pendingObject struct {
	version version
	object  *redact.Object // nil: only its existence is known
}

// content returns the object, or an empty one if its content is not known.
func (p pendingObject) content() *redact.Object {
	if p.object == nil {
		return &redact.Object{}
	}
	return p.object
}

// add keeps the object, which may be nil, if the bound allows.
func (p *pendingObjects) add(key Key, rv version, obj *redact.Object) {
	if obj != nil && p.bytes <= maxPendingBytes {
		p.bytes += len(obj.JSON) + pendingOverhead
		if p.bytes > maxPendingBytes {
			for other, pending := range p.objects {
				p.objects[other] = pendingObject{version: pending.version}
			}
		}
	}
	if p.bytes > maxPendingBytes {
		obj = nil
	}
	p.objects[key] = pendingObject{version: rv, object: obj}
}

// inOrder returns the objects in the order of their versions.
func (p *pendingObjects) inOrder() []Key {
	keys := make([]Key, 0, len(p.objects))
	for key := range p.objects {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool { return p.objects[keys[i]].version.before(p.objects[keys[j]].version) })
	return keys
}
