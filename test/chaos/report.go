package chaos

import (
	"fmt"
	"slices"
	"strings"
)

type column struct {
	name     string
	value    func(Result) int
	peak     bool // the maximum of several runs instead of the sum
	replicas bool // only of runs with several
}

// columns of the table of runs. In the last line numbers are summed, and nil is left out.
var columns = []column{
	{name: "operations", value: func(r Result) int { return r.Operations }},
	{name: "revisions", value: func(r Result) int { return r.Verdict.Revisions }},
	{name: "faults", value: func(r Result) int { return r.faults() }},
	{name: "kills: collector", value: func(r Result) int { return r.Done["kill -9 of the collector"] }},
	{name: "terms", replicas: true, value: func(r Result) int { return r.Terms }},
	{name: "pauses", replicas: true, value: func(r Result) int { return r.Done["pauses"] }},
	{name: "cut off", replicas: true, value: func(r Result) int { return r.Done["cuts of one replica"] }},
	{name: "orderly stops", replicas: true, value: func(r Result) int { return r.Done["orderly stops"] }},
	{name: "API server", value: func(r Result) int { return r.Done["kill -9 of the API server"] + r.Done["stops of the API server"] }},
	{name: "sink", value: func(r Result) int { return r.Done["kills of the sink"] }},
	{name: "cuts", value: func(r Result) int { return r.Done["cuts"] }},
	{name: "compactions", value: func(r Result) int { return r.Done["compactions"] }},
	{name: "relists", value: func(r Result) int { return r.Relists }},
	{name: "gaps", value: func(r Result) int {
		n := 0
		for _, times := range r.Verdict.Gaps {
			n += times
		}
		return n
	}},
	{name: "false gaps", value: func(r Result) int { return len(r.Verdict.FalseGaps) }},
	{name: "revisions in gaps", value: func(r Result) int { return r.Verdict.InGaps }},
	{name: "suppressed", value: func(r Result) int { return r.Verdict.Suppressed }},
	{name: "records", value: func(r Result) int { return r.Verdict.Records }},
	{name: "duplicates explained", value: func(r Result) int { return r.Verdict.DuplicatesAfterKill + r.Verdict.DuplicatesOfUnknown }},
	{name: "stored late", replicas: true, value: func(r Result) int { return r.Verdict.Late }},
	{name: "emitted again after a takeover", replicas: true, value: func(r Result) int { return r.Verdict.Restated }},
	{name: "after a restore", value: func(r Result) int { return r.Verdict.AfterRestore }},
	{name: "refused permanently", value: func(r Result) int { return r.Refused }},
	{name: "unexplained", value: func(r Result) int { return len(r.Verdict.Unexplained) }},
	{name: "lost", value: func(r Result) int { return len(r.Verdict.Lost) }},
	{name: "objects at the end", value: func(r Result) int { return r.Objects }, peak: true},
	{name: "until quiet, s", value: func(r Result) int { return int(r.Quiet.Seconds()) }, peak: true},
	{name: "wall, s", value: func(r Result) int { return int(r.Wall.Seconds()) }},
	{name: "peak RSS, MB", value: func(r Result) int { return int(r.PeakRSS / 1e6) }, peak: true},
}

// faults returns how many entries of the schedule were carried out.
func (r Result) faults() int {
	n := 0
	kinds := map[Kind]bool{}
	for _, w := range slices.Concat(weights, weightsOfReplicas) {
		if kinds[w.kind] {
			continue
		}
		kinds[w.kind] = true
		n += r.Done[string(w.kind)]
	}
	return n
}

// Table returns a table of runs as Markdown, with one line each.
func Table(results []Result) string {
	var b strings.Builder
	b.WriteString("| seed |")
	columns := slices.Clone(columns)
	if !slices.ContainsFunc(results, func(r Result) bool { return r.Terms > 0 }) {
		columns = slices.DeleteFunc(columns, func(c column) bool { return c.replicas })
	}
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|" + strings.Repeat("---:|", len(columns)+1) + "\n")
	total := make([]int, len(columns))
	for _, r := range results {
		failed := ""
		if r.Failed {
			failed = " failed"
		}
		fmt.Fprintf(&b, "| %d%s |", r.Seed, failed)
		for i, c := range columns {
			n := c.value(r)
			fmt.Fprintf(&b, " %d |", n)
			if c.peak {
				total[i] = max(total[i], n)
			} else {
				total[i] += n
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("| all |")
	for _, n := range total {
		fmt.Fprintf(&b, " %d |", n)
	}
	return b.String()
}
