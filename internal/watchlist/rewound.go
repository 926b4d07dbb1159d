package watchlist

import (
	"context"
	"errors"
	"sort"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

var errRewound = errors.New("a complete snapshot holds an object at a lower resourceVersion than the one last emitted")

// olderObjects are those that a snapshot holds at a lower version than the one last emitted. Once the snapshot is
// complete, and no older than the position, they prove that the history was set back even though versions only grow:
// etcd was restored with --bump-revision (https://etcd.io/docs/latest/op-guide/recovery/), or a history that was set
// back has overtaken the position. Before that they prove nothing, since a server that lags behind shows old versions
// too.
type olderObjects struct {
	objects map[Key]olderObject
	bytes   int
	tooMany bool // the objects themselves were not kept: a second snapshot has to fetch them
}

type olderObject struct {
	known  version
	object *redact.Object // nil if only the proof is needed, or the bound was exceeded
}

// maxOlderKeys bounds the number of keys if the objects are not kept. Any of them is sufficient proof.
const maxOlderKeys = 10_000

// note records an object that is not newer than its last emitted version. If it is older, it is kept until the end of
// the snapshot, with the content that decode returns unless decode is nil.
func (o *olderObjects) note(key Key, rv, known version, decode func() (redact.Object, error)) {
	o.drop(key)
	if !rv.before(known) || len(o.objects) >= maxOlderKeys {
		o.tooMany = o.tooMany || rv.before(known)
		return
	}
	if o.objects == nil {
		o.objects = make(map[Key]olderObject)
	}
	kept := olderObject{known: known}
	if !o.tooMany && decode != nil {
		object, err := decode()
		o.bytes += len(object.JSON) + pendingOverhead
		if o.tooMany = err != nil || o.bytes > maxPendingBytes; !o.tooMany {
			kept.object = &object
		}
	}
	o.objects[key] = kept
}

// drop notes that the snapshot holds the object in a later version, or no longer holds it.
func (o *olderObjects) drop(key Key) {
	if before, ok := o.objects[key]; ok {
		if before.object != nil {
			o.bytes -= len(before.object.JSON) + pendingOverhead
		}
		delete(o.objects, key)
	}
}

// prove reports whether a complete snapshot at that version proves that the history was set back. If it does not, older
// objects prove that the snapshot is stale.
func (o *olderObjects) prove(at version) (rewound, stale bool) {
	for _, older := range o.objects {
		if at.atLeast(older.known) {
			return true, false
		}
		stale = true
	}
	return false, stale
}

// emitOlder emits the objects of a snapshot that are older than their last known version, if they prove that the history
// was set back.
func (r *Reader) emitOlder(ctx context.Context, pass *snapshotPass, at version) error {
	rewound, stale := pass.older.prove(at)
	switch {
	case stale:
		return errStale
	case !rewound:
		return nil
	}
	r.resetHistory(errRewound)
	if pass.older.tooMany {
		return errRewound
	}
	if err := r.lost.note(ctx, r); err != nil {
		return err
	}
	objects := make([]*redact.Object, 0, len(pass.older.objects))
	for _, older := range pass.older.objects {
		objects = append(objects, older.object)
	}
	sort.Slice(objects, func(i, j int) bool {
		return parseVersion(objects[i].ResourceVersion).before(parseVersion(objects[j].ResourceVersion))
	})
	for _, obj := range objects {
		key := keyOf(obj.Identity)
		if r.isNoopOfSnapshot(key, obj) { // later versions were only passed over, and are undone
			if err := r.passOverInSnapshot(ctx, key, *obj); err != nil {
				return err
			}
			pass.older.drop(key)
			continue
		}
		if err := r.emitFromSnapshot(ctx, key, *obj, true); err != nil {
			return err
		}
		r.rememberObject(key, obj, parseVersion(obj.ResourceVersion))
		pass.older.drop(key)
	}
	return nil
}
