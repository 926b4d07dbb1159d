package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// health combines the conditions of the parts into one component status, which is OK when all parts are healthy.
type health struct {
	host component.Host

	mu      sync.Mutex
	failing map[string]error
	over    bool // the receiver is shut down
}

func newHealth(host component.Host) *health {
	return &health{host: host, failing: make(map[string]error)}
}

// report sets the condition of a part; nil means healthy.
func (h *health) report(part string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	_, failed := h.failing[part]
	switch {
	case err != nil:
		h.failing[part] = fmt.Errorf("%s: %w", part, err)
	case failed:
		delete(h.failing, part)
	default:
		return
	}
	if len(h.failing) == 0 {
		componentstatus.ReportStatus(h.host, componentstatus.NewEvent(componentstatus.StatusOK))
		return
	}
	var all []error
	for _, part := range slices.Sorted(maps.Keys(h.failing)) {
		all = append(all, h.failing[part])
	}
	componentstatus.ReportStatus(h.host, componentstatus.NewRecoverableErrorEvent(errors.Join(all...)))
}

// end ends all reports. A component that shuts down has no condition.
func (h *health) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}
