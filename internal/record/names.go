package record

import (
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// The event names are a closed set, so that backends can index it. Attributes distinguish records of the same name.
const (
	eventObjectSnapshot = "k8s.object.snapshot"
	eventObjectAdded    = "k8s.object.added"
	eventObjectModified = "k8s.object.modified"
	eventObjectDeleted  = "k8s.object.deleted"
	eventEvent          = "k8s.event"
	eventGap            = "k8s.watch.gap"
	eventSnapshotBegin  = "k8s.snapshot.begin"
	eventSnapshotEnd    = "k8s.snapshot.end"
)

func eventName(c *watchlist.Change) string {
	switch {
	case c.Type == watchlist.Gap:
		return eventGap
	case c.Type == watchlist.SnapshotBegin:
		return eventSnapshotBegin
	case c.Type == watchlist.SnapshotEnd:
		return eventSnapshotEnd
	case scope.IsEvents(c.Scope.GroupResource):
		return eventEvent
	case c.Type == watchlist.Snapshot:
		return eventObjectSnapshot
	case c.Type == watchlist.Added:
		return eventObjectAdded
	case c.Type == watchlist.Modified:
		return eventObjectModified
	case c.Type == watchlist.Deleted:
		return eventObjectDeleted
	}
	return ""
}

// Describe names the record of a change for the log: its event name and the identity of its object, without any
// content.
func Describe(c watchlist.Change) string {
	parts := []string{eventName(&c), c.Scope.GroupResource.String()}
	switch id := c.Object.Identity; {
	case id.Name == "":
	case id.Namespace == "":
		parts = append(parts, id.Name)
	default:
		parts = append(parts, id.Namespace+"/"+id.Name)
	}
	if version := c.Object.ResourceVersion; version != "" {
		parts = append(parts, "at resourceVersion", version)
	}
	return strings.Join(parts, " ")
}

// typeName returns k8s.change.type: the types of a Kubernetes watch, and SNAPSHOT for an object that did not change.
// The names for records about the stream are not emitted; they only make their ids unique.
func typeName(t watchlist.Type) string {
	switch t {
	case watchlist.Snapshot:
		return "SNAPSHOT"
	case watchlist.Added:
		return "ADDED"
	case watchlist.Modified:
		return "MODIFIED"
	case watchlist.Deleted:
		return "DELETED"
	case watchlist.Gap:
		return "GAP"
	case watchlist.SnapshotBegin:
		return "SNAPSHOT_BEGIN"
	case watchlist.SnapshotEnd:
		return "SNAPSHOT_END"
	}
	return ""
}

func originName(o watchlist.Origin) string {
	switch o {
	case watchlist.Initial:
		return "initial"
	case watchlist.Live:
		return "live"
	case watchlist.Relist:
		return "relist"
	case watchlist.Recovered:
		return "recovered"
	case watchlist.Selection:
		return "selected"
	}
	return ""
}
