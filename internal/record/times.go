package record

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// setTimes sets when the change happened and when it was read.
func setTimes(record plog.LogRecord, c *watchlist.Change) {
	if at := Happened(c); !at.IsZero() {
		record.SetTimestamp(pcommon.NewTimestampFromTime(at))
	}
	setObserved(record, c)
}

// setObserved sets when the change was read.
func setObserved(record plog.LogRecord, c *watchlist.Change) {
	if !c.ReadAt.IsZero() {
		record.SetObservedTimestamp(pcommon.NewTimestampFromTime(c.ReadAt))
	}
}

// Happened returns when the change happened, according to the object, or else when it was read. It is never later than
// the time of reading: a deletionTimestamp may be in the future by the grace period, and the server's clock may differ
// from ours.
func Happened(c *watchlist.Change) time.Time {
	at := objectTime(c)
	if !isUsable(at) || !c.ReadAt.IsZero() && at.After(c.ReadAt) {
		return c.ReadAt
	}
	return at
}

func objectTime(c *watchlist.Change) time.Time {
	times := &c.Object.Times
	switch {
	case c.Type == watchlist.Gap && c.Gap != nil:
		return c.Gap.To
	case scope.IsEvents(c.Scope.GroupResource) && isUsable(times.Observed):
		// For every change of an Event, even its expiry: the Event is about this moment.
		return times.Observed
	}

	switch c.Type {
	case watchlist.Added:
		if c.Scope.Selective() || c.Origin == watchlist.Selection {
			// It may have entered the selection long after it was created.
			return latest(times.Created, times.Updated)
		}
		return times.Created
	case watchlist.Snapshot:
		return latest(times.Created, times.Updated, times.Deleted)
	case watchlist.Modified:
		if c.Undated {
			return time.Time{}
		}
		// Being marked for deletion is a change that managedFields do not record.
		return latest(times.Updated, times.Deleted)
	case watchlist.Deleted:
		if times.Deleted.IsZero() {
			return time.Time{}
		}
		// Finalizers may have kept it, and changed it, after its deletionTimestamp.
		return latest(times.Updated, times.Deleted)
	}
	return time.Time{}
}

// isUsable reports whether a record can carry the time: OTLP uses unsigned nanoseconds since 1970.
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
