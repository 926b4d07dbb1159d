package k8swatchlistreceiver

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Values of format.
const (
	formatWatchlist  = "watchlist"
	formatK8sObjects = "k8sobjects"
)

var formats = map[string]record.Format{
	formatWatchlist:  record.FormatWatchlist,
	formatK8sObjects: record.FormatK8sObjects,
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

// validateFormat finds unknown formats, and options that have no effect with the formats of the resources.
func (c *Config) validateFormat() []error {
	var errs []error
	check := func(key, format string) {
		if _, ok := formats[format]; !ok {
			errs = append(errs, fmt.Errorf("%s: %q is not one of watchlist, k8sobjects", key, format))
		}
	}
	check("format", c.Format)
	own := len(c.Resources) == 0
	other := ""
	for i := range c.Resources {
		r := &c.Resources[i]
		if r.Format != "" {
			check(fmt.Sprintf("resources[%d].format", i), r.Format)
		}
		if format := c.formatFor(r); format == formatWatchlist {
			own = true
		} else {
			other = format
		}
	}
	switch {
	case len(errs) > 0:
	case !own && c.Body == bodyJSON:
		errs = append(errs, fmt.Errorf("body: json has no effect with format %s, whose bodies are always maps; leave body out", other))
	case other == "" && c.StreamRecords:
		errs = append(errs, errors.New("stream_records: has no effect with format watchlist, which always has them; leave it out"))
	}
	return errs
}

// accepted is called with the changes that were delivered.
func (r *watchlistReceiver) accepted(changes []watchlist.Change) {
	r.logGaps(changes)
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
