package watchlist

import (
	"sort"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

const (
	// maxPendingBytes bounds the objects that are kept because the live stream has yet to deliver them. If there are
	// more none is kept: a recovery then emits each as it comes.
	maxPendingBytes = 8 << 20
	// pendingOverhead is about what an object costs beyond its body.
	pendingOverhead = 512
	// maxMissedObjects is up to how many objects that were missed a relist brings. With more the live stream is not
	// worth waiting for.
	maxMissedObjects = 1000
)

// pendingObjects are newer in the snapshot of a relist than in the inventory.
type pendingObjects struct {
	objects map[Key]pendingObject
	bytes   int
	missed  int // found missing without a body
}

type pendingObject struct {
	version version
	object  *redact.Object // nil: no more is known than that there is one
}

// content is the object, or one without content where it is not known.
func (p pendingObject) content() *redact.Object {
	if p.object == nil {
		return &redact.Object{}
	}
	return p.object
}

// add keeps the object, which may be nil, as long as there is room for it.
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
