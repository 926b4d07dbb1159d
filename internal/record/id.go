package record

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// changeID returns k8s.change.id. It is the same whenever the same change is emitted again, in this process or after a
// restart, also by another reader whose scope overlaps. It is a hash of cluster, UID, resourceVersion and type, each
// but the last followed by a newline.
//
// The epoch of a set of snapshots is not part of it: a backend that drops duplicates by id must be able to drop the
// snapshot of an unchanged object. A backend that needs each set complete has k8s.snapshot.epoch.
func changeID(c *watchlist.Change, clusterUID string) string {
	// Large enough for usual ids, so that it stays on the stack.
	text := make([]byte, 0, 256)
	part := func(s string) { text = append(append(text, s...), '\n') }

	part(clusterUID)
	switch {
	case c.Type.IsOfObject() && c.Object.UID != "":
		part(c.Object.UID)
		part(versionOf(c))
	case c.Type.IsOfObject():
		// Some aggregated APIs serve objects without a UID.
		part(c.Scope.Group)
		part(c.Scope.Resource)
		part(c.Object.Namespace)
		part(c.Object.Name)
		part(versionOf(c))
	default:
		// A record about a stream: what is read, and which stretch of its history.
		part(c.Scope.Group)
		part(c.Scope.Resource)
		part(c.Scope.Namespace)
		if c.Scope.Among != "" {
			part(c.Scope.Among)
		}
		part(c.Scope.LabelSelector)
		part(c.Scope.FieldSelector)
		if c.Scope.Shard.Divided() {
			part(c.Scope.Shard.String())
		}
		if c.Gap != nil {
			part(c.Gap.FromRV)
			part(c.Gap.ToRV)
			part(c.Gap.Reason)
			if c.Gap.ToRV == "" {
				part(timeOf(c))
			}
		}
		if c.Snapshot != nil {
			part(c.Snapshot.Epoch)
		}
	}
	if c.Stay != "" { // an object enters and leaves the selection with its namespace, without a version of its own
		part(c.Stay)
	}
	text = append(text, typeName(c.Type)...)

	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// versionOf returns the version of the object, or the time at which it was read if the server sends no version.
func versionOf(c *watchlist.Change) string {
	if c.Object.ResourceVersion != "" {
		return c.Object.ResourceVersion
	}
	return timeOf(c)
}

func timeOf(c *watchlist.Change) string { return c.ReadAt.UTC().Format(time.RFC3339Nano) }
