package k8swatchlistreceiver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Values of format.
const (
	formatWatchlist  = "watchlist"
	formatK8sObjects = "k8sobjects"
	formatK8sEvents  = "k8sevents"
)

var formats = map[string]record.Format{
	formatWatchlist:  record.FormatWatchlist,
	formatK8sObjects: record.FormatK8sObjects,
	formatK8sEvents:  record.FormatK8sEvents,
}

// formatFor returns the format of an entry: its own, or else the receiver's.
func (c *Config) formatFor(r *ResourceConfig) string { return cmp.Or(r.Format, c.Format) }

// recordFormats returns the format of the records of each scope, or nil if all have the receiver's own.
func (c *Config) recordFormats() func(*scope.Scope) record.Format {
	own := true
	for i := range c.Resources {
		own = own && formats[c.formatFor(&c.Resources[i])] == record.FormatWatchlist
	}
	if own {
		return nil
	}
	var mu sync.Mutex
	known := make(map[scope.Scope]record.Format)
	return func(of *scope.Scope) record.Format {
		mu.Lock()
		defer mu.Unlock()
		format, ok := known[*of]
		if !ok {
			format = formats[c.Format]
			if entry := c.entryOf(*of); entry != nil {
				format = formats[c.formatFor(entry)]
			}
			known[*of] = format
		}
		return format
	}
}

// validateFormat finds unknown formats, formats that do not fit their resource, and options that have no effect with the
// formats of the resources.
func (c *Config) validateFormat() []error {
	var errs []error
	check := func(key, format string) bool {
		_, ok := formats[format]
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %q is not one of watchlist, k8sobjects, k8sevents", key, format))
		}
		return ok
	}
	known := check("format", c.Format)
	used := map[string]bool{}         // formats
	usedByEvents := map[string]bool{} // formats of Events
	for i := range c.Resources {
		r := &c.Resources[i]
		format := c.formatFor(r)
		if r.Format != "" {
			known = check(fmt.Sprintf("resources[%d].format", i), r.Format) && known
		}
		used[format] = true
		if r.readsEvents(i) {
			usedByEvents[format] = true
		} else if format == formatK8sEvents && checkName(r.Name) == nil {
			errs = append(errs, fmt.Errorf("resources[%d].format: k8sevents is only for events and events.events.k8s.io; write format: watchlist or k8sobjects for %s", i, r.Name))
		}
	}
	if known && len(used) > 0 {
		errs = append(errs, c.validateFormats(used, usedByEvents)...)
	}
	return errs
}

// readsEvents reports whether the entry at index selects Kubernetes Events.
func (r *ResourceConfig) readsEvents(index int) bool {
	return slices.ContainsFunc(r.specs(index), func(s catalog.Spec) bool { return scope.IsEvents(s.GroupResource) })
}

// validateFormats finds options that have no effect with the formats that resources use, and those that Events use.
func (c *Config) validateFormats(used, usedByEvents map[string]bool) []error {
	var errs []error
	if c.Body != bodyMap && !used[formatWatchlist] {
		errs = append(errs, fmt.Errorf("body: %s has an effect only with format watchlist, which no resource has; leave body out", c.Body))
	}
	if c.ResourceGrouping != groupCluster && !used[formatWatchlist] {
		errs = append(errs, fmt.Errorf("resource_grouping: %s has an effect only with format watchlist, which no resource has; leave it out", c.ResourceGrouping))
	}
	if c.StreamRecords && len(used) == 1 && used[formatWatchlist] {
		errs = append(errs, errors.New("stream_records: has no effect with format watchlist, which always has them; leave it out"))
	}
	if !usedByEvents[formatK8sEvents] {
		return errs
	}
	if c.Events.Body == eventsObject && len(usedByEvents) == 1 {
		errs = append(errs, errors.New("events.body: object has no effect with format k8sevents, whose body is the message; leave it out"))
	}
	const twice = "would look like a new observation of the Event, since records of format k8sevents do not name the change"
	if c.Events.Deleted {
		errs = append(errs, errors.New("events.deleted: a deletion "+twice+"; leave it out, or write format: k8sobjects"))
	}
	if c.Relist.Emit == emitSnapshot {
		errs = append(errs, errors.New("relist.emit: each snapshot "+twice+"; write changes, or read Events with a receiver of their own"))
	}
	return errs
}

// accepted is called with the changes that were delivered.
func (r *watchlistReceiver) accepted(changes []watchlist.Change) {
	r.logGaps(changes)
	r.telemetry.accepted(changes, r.records.IsRecord)
	if r.entities != nil {
		r.entities.Accepted()
	}
	if r.keeper != nil {
		r.keeper.Accepted(changes)
	}
}

// logGaps logs the gaps that have no record in the format of their resource, which must not go unnoticed.
func (r *watchlistReceiver) logGaps(changes []watchlist.Change) {
	for i := range changes {
		c := &changes[i]
		if c.Type != watchlist.Gap || r.records.IsRecord(c) {
			continue
		}
		fields := append(c.Scope.LogFields(), zap.String("reason", c.Gap.Reason), zap.Time("until", c.Gap.To))
		if !c.Gap.From.IsZero() {
			fields = append(fields, zap.Time("since", c.Gap.From))
		}
		if c.Gap.Object.Name != "" {
			fields = append(fields, zap.Stringer("object", types.NamespacedName{Namespace: c.Gap.Object.Namespace, Name: c.Gap.Object.Name}))
		}
		r.set.Logger.Warn(record.GapSentence(c), fields...)
	}
}
