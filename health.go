package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// mostInStatus bounds how many resources, and how many errors, the component status names.
const mostInStatus = 20

// health holds the state of every resource and the errors of the other parts, such as the storage. It combines them into
// the component status, which is OK if nothing is wrong.
type health struct {
	host component.Host

	mu        sync.Mutex
	failing   map[string]error // parts
	resources map[string]resourceState
	counts    map[watchlist.Condition]int64
	settled   bool // no resource is about to be read for the first time
	over      bool // the receiver is shut down
}

// resourceState is the state of a resource.
type resourceState struct {
	condition watchlist.Condition
	err       error // set if that is a fault
}

func newHealth(host component.Host) *health {
	return &health{
		host:      host,
		failing:   make(map[string]error),
		resources: make(map[string]resourceState),
		counts:    make(map[watchlist.Condition]int64),
	}
}

// report sets the condition of a part; nil means healthy.
func (h *health) report(part string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, failed := h.failing[part]
	switch {
	case err != nil:
		h.failing[part] = fmt.Errorf("%s: %w", part, err)
	case failed:
		delete(h.failing, part)
	default:
		return
	}
	h.publishLocked()
}

// reading sets the state of a resource that has a reader. optional means that the right to read it may be missing.
func (h *health) reading(of scope.Scope, s watchlist.State, optional bool) {
	state := resourceState{condition: s.Condition}
	if s.Condition.IsFault() && (!optional || !s.Condition.IsExpectedOfPattern()) {
		state.err = fmt.Errorf("%s: %s: %w", of, s.Condition, s.Err)
		if remedy := s.Remedy(of); remedy != "" {
			state.err = fmt.Errorf("%w; %s", state.err, remedy)
		}
	}
	h.set(of.String(), state)
}

// missing sets the state of discovery, or of a configured resource that cannot have a reader yet. nil means that nothing
// is wrong, or that the resource has a reader.
func (h *health) missing(key string, err error) {
	if err == nil {
		h.forget(key)
		return
	}
	state := catalog.StateOf(err)
	h.set(key, resourceState{state, fmt.Errorf("%s: %s: %w", key, state, err)})
}

// forget ends the state of a resource.
func (h *health) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, ok := h.resources[name]
	if !ok {
		return
	}
	h.counts[before.condition]--
	delete(h.resources, name)
	h.changedLocked(before.condition, watchlist.Reading)
}

func (h *health) set(name string, state resourceState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, known := h.resources[name]
	if known {
		h.counts[before.condition]--
	}
	h.counts[state.condition]++
	h.resources[name] = state
	h.changedLocked(before.condition, state.condition)
}

// changedLocked publishes a change of state, unless it only shows that a resource has begun to be read while others have
// not: with hundreds of resources, that would be as many events.
func (h *health) changedLocked(from, to watchlist.Condition) {
	settled := h.counts[watchlist.Starting]+h.counts[watchlist.Initializing] == 0
	news := settled && !h.settled || isNews(from) || isNews(to)
	h.settled = settled
	if news {
		h.publishLocked()
	}
}

func isNews(c watchlist.Condition) bool {
	return c.IsFault() || c == watchlist.Paused || c == watchlist.Polling
}

// isRead reports whether a resource is being read.
func (h *health) isRead(of scope.Scope) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.resources[of.String()].condition {
	case watchlist.Initializing, watchlist.Reading, watchlist.Paused, watchlist.Polling, watchlist.Standby:
		return true
	}
	return false
}

// states returns how many resources are in each state.
func (h *health) states() map[watchlist.Condition]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.counts)
}

func (h *health) publishLocked() {
	if h.over {
		return
	}
	attributes := componentstatus.WithAttributes(h.attributesLocked())
	if errs := h.errorsLocked(); len(errs) > 0 {
		componentstatus.ReportStatus(h.host, componentstatus.NewEvent(componentstatus.StatusRecoverableError,
			componentstatus.WithError(errors.Join(errs...)), attributes))
		return
	}
	componentstatus.ReportStatus(h.host, componentstatus.NewEvent(componentstatus.StatusOK, attributes))
}

// errorsLocked returns what is wrong, in a fixed order.
func (h *health) errorsLocked() []error {
	all := maps.Clone(h.failing)
	for name, r := range h.resources {
		if r.err != nil {
			all[name] = r.err
		}
	}
	names := slices.Sorted(maps.Keys(all))
	var errs []error
	for _, name := range names[:min(len(names), mostInStatus)] {
		errs = append(errs, all[name])
	}
	if more := len(names) - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more", more))
	}
	return errs
}

// attributesLocked returns how many resources are in each state, and which are in a state other than being read.
func (h *health) attributesLocked() pcommon.Map {
	attributes := pcommon.NewMap()
	counts := attributes.PutEmptyMap("readers")
	for _, condition := range watchlist.Conditions() {
		if n := h.counts[condition]; n > 0 {
			counts.PutInt(condition.String(), n)
		}
	}
	named := attributes.PutEmptyMap("resources")
	var names []string
	for name, r := range h.resources {
		if isNews(r.condition) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(len(names), mostInStatus)] {
		named.PutStr(name, h.resources[name].condition.String())
	}
	return attributes
}

// end ends all reports. A component that shuts down has no condition.
func (h *health) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}
