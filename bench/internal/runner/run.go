package runner

import (
	"context"
	"fmt"
	"time"
)

// Scenarios lists the scenarios in the order of their runs.
var Scenarios = []string{"initial", "live", "latency", "idle", "swap", "restart", "inventory", "counts", "replicas", "real", "before", "telemetry", "gateway"}

// Run runs the scenarios.
func (s *Session) Run(ctx context.Context) error {
	began := time.Now()
	s.Results.At = began.UTC().Truncate(time.Second)
	defer func() { s.Results.Took, s.Results.Load = time.Since(began).Round(time.Second), loadAverage() }()
	run := map[string]func(context.Context) error{
		"initial": s.initial, "live": s.live, "latency": s.latency, "idle": s.idle, "swap": s.swap, "restart": s.restart,
		"inventory": s.inventory, "counts": s.counts, "replicas": s.replicas, "real": s.real, "before": s.before, "telemetry": s.telemetry,
		"gateway": s.gateway,
	}
	for _, scenario := range Scenarios {
		if !s.wants(scenario) || scenario == "real" && len(s.Real) == 0 || scenario == "before" && s.Before == "" ||
			len(s.Scenarios) == 0 && (scenario == "telemetry" || scenario == "gateway") { // make measure-telemetry and measure-gateway run these
			continue
		}
		limited, cancel := context.WithTimeout(ctx, 2*timeout)
		err := run[scenario](limited)
		cancel()
		if err != nil {
			return fmt.Errorf("cannot measure %s: %w", scenario, err)
		}
		say("%s after the start", time.Since(began).Round(time.Second))
	}
	return nil
}
