package record

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// changeID is k8s.change.id: the same whenever the same thing is told again, in this process or after a
// restart, and by whichever of two readers whose scopes overlap. It names "this version of this object, in
// this kind of change" by cluster, UID, resourceVersion and type, each but the last followed by a newline.
//
// The epoch of a set of snapshots is not part of it: whoever drops what comes again by its id must be able
// to drop the snapshot of an object that has not changed. Who wants each set whole has k8s.snapshot.epoch.
func changeID(c *watchlist.Change, clusterUID string) string {
	// Large enough for what is usual, so that it stays on the stack.
	text := make([]byte, 0, 256)
	part := func(s string) { text = append(append(text, s...), '\n') }

	part(clusterUID)
	switch {
	case isOfObject(c.Type) && c.Object.UID != "":
		part(c.Object.UID)
		part(versionOf(c))
	case isOfObject(c.Type):
		// Some aggregated APIs serve objects without a UID.
		part(c.Scope.Group)
		part(c.Scope.Resource)
		part(c.Object.Namespace)
		part(c.Object.Name)
		part(versionOf(c))
	default:
		// Of the stream: what is read, and which stretch of it.
		part(c.Scope.Group)
		part(c.Scope.Resource)
		part(c.Scope.Namespace)
		part(c.Scope.LabelSelector)
		part(c.Scope.FieldSelector)
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
	text = append(text, typeName(c.Type)...)

	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// versionOf is the version of the object. Where the server gives none, the time at which it was read takes its place.
func versionOf(c *watchlist.Change) string {
	if c.Object.ResourceVersion != "" {
		return c.Object.ResourceVersion
	}
	return timeOf(c)
}

func timeOf(c *watchlist.Change) string { return c.ReadAt.UTC().Format(time.RFC3339Nano) }
