package record

import (
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Format is the shape of the records of a scope.
type Format uint8

const (
	FormatWatchlist  Format = iota // the receiver's own
	FormatK8sObjects               // the one of the Collector's k8s_objects receiver
	FormatK8sEvents                // the one of the Collector's k8s_events receiver; for Events only
)

// IsRecord reports whether Build makes a record of the change. The formats of other receivers have no records about the
// stream, so these are made only on request.
func (b *Builder) IsRecord(c *watchlist.Change) bool {
	if !c.IsRecord() {
		return false
	}
	return c.Type.IsOfObject() || b.options.StreamRecords || b.formatOfScope(c) == FormatWatchlist
}

// formatOf returns the format of the change's record. Records about the stream have the receiver's own format.
func (b *Builder) formatOf(c *watchlist.Change) Format {
	if !c.Type.IsOfObject() {
		return FormatWatchlist
	}
	return b.formatOfScope(c)
}

func (b *Builder) formatOfScope(c *watchlist.Change) Format {
	if b.options.FormatOf == nil {
		return FormatWatchlist
	}
	return b.options.FormatOf(c.Scope)
}
