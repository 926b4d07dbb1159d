package record

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// setTimes sets when it happened and when it was read.
func setTimes(record plog.LogRecord, c *watchlist.Change) {
	if at := happened(c); !at.IsZero() {
		record.SetTimestamp(pcommon.NewTimestampFromTime(at))
	}
	if !c.ReadAt.IsZero() {
		record.SetObservedTimestamp(pcommon.NewTimestampFromTime(c.ReadAt))
	}
}

// happened is when the change happened, as far as the object tells, and else when it was read. It is never
// later than that: a deletionTimestamp lies in the future by the grace period, and the clocks of a server
// and ours may differ.
func happened(c *watchlist.Change) time.Time {
	at := told(c)
	if !isUsable(at) || !c.ReadAt.IsZero() && at.After(c.ReadAt) {
		return c.ReadAt
	}
	return at
}

func told(c *watchlist.Change) time.Time {
	times := &c.Object.Times
	switch {
	case c.Type == watchlist.Gap && c.Gap != nil:
		return c.Gap.To
	case scope.IsEvents(c.Scope.GroupResource) && isUsable(times.Observed):
		// Of every change of an Event, also its expiry: it is about this moment.
		return times.Observed
	}

	switch c.Type {
	case watchlist.Added:
		if c.Scope.Selective() {
			// It may have come into the selection long after it was created.
			return latest(times.Created, times.Updated)
		}
		return times.Created
	case watchlist.Snapshot:
		return latest(times.Created, times.Updated, times.Deleted)
	case watchlist.Modified:
		// To be marked for deletion is a change that managedFields do not record.
		return latest(times.Updated, times.Deleted)
	case watchlist.Deleted:
		if times.Deleted.IsZero() {
			return time.Time{}
		}
		// Finalizers may have kept it, and changed it, beyond its deletionTimestamp.
		return latest(times.Updated, times.Deleted)
	}
	return time.Time{}
}

// isUsable reports whether a record can carry the time: OTLP counts nanoseconds since 1970, without a sign.
func isUsable(at time.Time) bool { return at.Unix() > 0 }

func latest(times ...time.Time) time.Time {
	var last time.Time
	for _, at := range times {
		if at.After(last) {
			last = at
		}
	}
	return last
}
