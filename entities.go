package k8swatchlistreceiver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/entity"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// EntitiesConfig configures the entity events beside the records of changes. In YAML, entities: true is the same as
// entities: {enabled: true}.
type EntitiesConfig struct {
	// Enabled emits entity events. Default: false.
	Enabled bool `mapstructure:"enabled"`

	// Format is the form of the events: that of the OpenTelemetry specification (spec), or the one before it (legacy), which
	// the Collector's k8s_cluster receiver has by default. Default: spec.
	Format string `mapstructure:"format"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Values of entities.format.
const (
	entitiesSpec   = "spec"
	entitiesLegacy = "legacy"
)

// expandEntities turns the short form of the configuration into the long one.
func expandEntities(conf *confmap.Conf) error {
	enabled, ok := conf.Get("entities").(bool)
	if !ok {
		return nil
	}
	return conf.Merge(confmap.NewFromStringMap(map[string]any{"entities": map[string]any{"enabled": enabled}}))
}

// relistSpread is the longest time between two relists, in units of relist.interval.
const relistSpread = 1.2

// newEntities returns what makes entity events, or nil if there are none.
func (c *Config) newEntities() *entity.Entities {
	if !c.Entities.Enabled {
		return nil
	}
	o := entity.Options{Legacy: c.Entities.Format == entitiesLegacy}
	if c.Relist.Emit == emitSnapshot {
		o.ReportInterval = time.Duration(float64(c.Relist.Interval) * relistSpread)
	}
	return entity.New(o)
}

// validateEntities finds options that leave out what entity events are made of.
func (c *Config) validateEntities() []error {
	var errs []error
	if c.Entities.Format != entitiesSpec && c.Entities.Format != entitiesLegacy {
		errs = append(errs, fmt.Errorf("entities.format: %q is not one of spec, legacy", c.Entities.Format))
	}
	if !c.Entities.Enabled {
		if c.Entities.Format == entitiesLegacy {
			errs = append(errs, errors.New("entities.format: has no effect without entities.enabled: true"))
		}
		return errs
	}
	if c.InitialState == initialSkip {
		errs = append(errs, errors.New("entities: need the objects that exist at first; write initial_state: emit"))
	}
	excludes := len(c.ExcludeTypes) > 0
	onlyEvents := len(c.Resources) > 0
	for i := range c.Resources {
		areEvents := c.Resources[i].readsEvents(i)
		onlyEvents = onlyEvents && areEvents
		excludes = excludes || !areEvents && len(c.Resources[i].ExcludeTypes) > 0
	}
	if excludes {
		errs = append(errs, errors.New("entities: need every change; leave exclude_types out, or read these resources with a receiver of their own"))
	}
	if onlyEvents {
		errs = append(errs, errors.New("entities: Kubernetes Events are not entities; name other resources too, or leave entities out"))
	}
	return errs
}

// build makes the records of a batch, and the entity events beside them.
func (r *watchlistReceiver) build(changes []watchlist.Change) plog.Logs {
	logs := r.records.Build(changes)
	if r.entities != nil {
		r.entities.Append(changes, func() plog.ScopeLogs { return r.records.AppendScope(logs) })
	}
	return logs
}

// prepareEntities notes for the entity events that a resource is read, and makes its reader pass on the objects of its
// checkpoint that they need to know.
func (r *watchlistReceiver) prepareEntities(o *watchlist.Options) {
	if r.entities == nil {
		return
	}
	resource := o.Scope.GroupResource
	r.entities.Reads(resource)
	if o.Restore == nil || !entity.Learns(resource) {
		return
	}
	restore := o.Restore
	o.Restore = func(ctx context.Context, s *scope.Scope, add func(watchlist.Stored)) (watchlist.Progress, error) {
		return restore(ctx, s, func(known watchlist.Stored) {
			r.entities.Learn(resource, known.Name, known.UID)
			add(known)
		})
	}
}
