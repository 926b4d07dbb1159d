package k8swatchlistreceiver

import (
	"fmt"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// EventsConfig configures how Kubernetes Events become records. It has an effect only if the resources include events or
// events.events.k8s.io.
type EventsConfig struct {
	// Body is the record's body: message (the Event's message) or object (the Event, in the form that the key body of the
	// receiver configures). Default: message.
	Body string `mapstructure:"body"`

	// DedupInterval is the time within which only the first and the last state of one Event are emitted, as a duration
	// (1m). The last one is emitted when the time is over. Default: 0; every state is emitted.
	DedupInterval time.Duration `mapstructure:"dedup_interval"`

	// Deleted emits the deletion of Events like that of other objects. API servers delete an Event when it expires, by
	// default an hour after its last change. Default: false; an Event is an observation, which stays true.
	Deleted bool `mapstructure:"deleted"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Values of events.body.
const (
	eventsMessage = "message"
	eventsObject  = "object"
)

// holdingShare is the fraction (1/holdingShare) of queue.max_bytes that events.dedup_interval may hold back in addition to
// the queue.
const holdingShare = 4

// validate returns errors that begin with the key below events.
func (c *EventsConfig) validate() []error {
	var errs []error
	if c.Body != eventsMessage && c.Body != eventsObject {
		errs = append(errs, fmt.Errorf("body: %q is not one of message, object", c.Body))
	}
	if c.DedupInterval < 0 {
		errs = append(errs, fmt.Errorf("dedup_interval: %s is negative; write 0 to emit every state of an Event", c.DedupInterval))
	}
	return append(errs, checkUnit("dedup_interval", c.DedupInterval, "s")...)
}

// recordBody returns the body as the record builder names it.
func (c *EventsConfig) recordBody() record.EventBody {
	if c.Body == eventsObject {
		return record.EventObject
	}
	return record.EventMessage
}

// apply configures a reader, if it reads Events.
func (c *EventsConfig) apply(o *watchlist.Options, holding *watchlist.Holding) {
	if !scope.IsEvents(o.Scope.GroupResource) {
		return
	}
	o.OmitDeletions = !c.Deleted
	o.DedupInterval, o.Holding = c.DedupInterval, holding
}
