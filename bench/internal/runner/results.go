package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// Results holds all measurements.
type Results struct {
	Machine Machine
	At      time.Time
	Took    time.Duration
	Target  string // of make, which has measured them
	Flags   string
	Load    string // average of the machine at the end
	Rows    []Row
	Series  []Series
}

// Row is one contender in one run of one scenario.
type Row struct {
	Scenario, Contender string
	Objects             int // in the resource, if varied
	Run                 int
	Values              map[string]float64
}

// Series is the resident memory over time.
type Series struct {
	Scenario, Contender string
	Samples             []sample
	Marks               map[string]span
}

func (r *Results) add(scenario string, k contenderKind, objects, run int, values map[string]float64) {
	r.Rows = append(r.Rows, Row{scenario, k.name, objects, run, values})
	line := fmt.Sprintf("  %-32s", k.name)
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		line += fmt.Sprintf("  %s %.4g", key, values[key])
	}
	say("%s", line)
}

func (r *Results) addSeries(scenario string, k contenderKind, p *process, marks map[string]span) {
	for _, s := range r.Series {
		if s.Scenario == scenario && s.Contender == k.name {
			return // from an earlier run
		}
	}
	r.Series = append(r.Series, Series{scenario, k.name, p.series(), marks})
}

// WriteJSON writes everything, including the individual runs.
func (r *Results) WriteJSON(path string) error {
	content, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644) //nolint:gosec // anyone may read it
}

// group is the runs of one contender.
type group struct {
	contender string
	objects   int
	values    map[string][]float64
}

// groups returns the contenders of a scenario in order of their first run.
func (r *Results) groups(scenario string) []*group {
	var all []*group
	for _, row := range r.Rows {
		if row.Scenario != scenario {
			continue
		}
		at := slices.IndexFunc(all, func(g *group) bool { return g.contender == row.Contender && g.objects == row.Objects })
		if at < 0 {
			at = len(all)
			all = append(all, &group{row.Contender, row.Objects, map[string][]float64{}})
		}
		for key, value := range row.Values {
			all[at].values[key] = append(all[at].values[key], value)
		}
	}
	return all
}

func (g *group) median(key string) (float64, bool) { return median(g.values[key]) }

func median(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, true
}

// percentile of sorted values.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*p))]
}
