package k8swatchlistreceiver

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

const defaultDiffMaxBytes = 64 << 20

// validateDiffs checks the options of diffs.
func (c *Config) validateDiffs() []error {
	var errs []error
	if c.DiffMaxBytes < 1 {
		errs = append(errs, fmt.Errorf("diff_max_bytes: %d is not positive; leave diff out of the resources to have no diffs (the default is %d)", c.DiffMaxBytes, defaultDiffMaxBytes))
	}
	for i := range c.Resources {
		r := &c.Resources[i]
		switch {
		case !r.Diff:
		case slices.ContainsFunc(r.specs(i), func(s catalog.Spec) bool { return scope.IsEvents(s.GroupResource) }):
			errs = append(errs, fmt.Errorf("resources[%d].diff: Events have no diffs, since their records hold what was observed; leave it out", i))
		case c.formatFor(r) != formatWatchlist:
			errs = append(errs, fmt.Errorf("resources[%d].diff: has no effect with format: %s, whose records have no place for diffs; leave it out", i, c.formatFor(r)))
		}
	}
	return errs
}

// newDiffs returns the memory that diffs may use.
func (r *watchlistReceiver) newDiffs() *diff.Budget {
	return diff.NewBudget(int64(r.cfg.DiffMaxBytes), func() {
		r.set.Logger.Warn("diff_max_bytes is used up: further objects have no diffs until others are deleted; raise it, or leave diff out of a resource",
			zap.Int("diff_max_bytes", r.cfg.DiffMaxBytes))
	})
}

// diffsOf returns the memory for the diffs of a scope, or nil if it has none.
func (r *watchlistReceiver) diffsOf(of scope.Scope) *diff.Budget {
	if entry := r.cfg.entryOf(of); entry == nil || !entry.Diff {
		return nil
	}
	return r.diffs
}
