package runner

import (
	"fmt"
	"slices"
	"strings"
)

// column is a column of a table.
type column struct {
	key, title, format string
	spread             bool   // also show the minimum and maximum
	over               string // a contender: the ratio to its figure; overBefore: the same contender before
}

// table is the table of one scenario.
type table struct {
	scenario, title, note string
	count                 string // title of the column with the number of objects or the like; "" if it is constant
	columns               []column
}

const floorRatio, peerRatio, overBefore = "floor: read frames, count", "k8sobjects, pull", ", before"

var (
	gatewayColumns = slices.Clip([]column{
		{key: "cpu_us_record", title: "CPU µs per record", format: "%.0f", spread: true},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f"},
		{key: "gateway_us_record", title: "gateway: CPU µs per record", format: "%.0f", spread: true},
		{key: "gateway_peak_mb", title: "gateway: peak RSS MB", format: "%.0f", spread: true},
		{key: "bytes_record", title: "bytes per record at the sink", format: "%.0f"},
		{key: "bytes_record", title: "× not compressed", format: "%.3f", over: notCompressed.name},
		{key: "records_request", title: "records per request", format: "%.1f"},
	})
	gatewayLatency = []column{
		{key: "p50_ms", title: "p50 ms until the sink has a change", format: "%.0f"}, {key: "p99_ms", title: "p99 ms", format: "%.0f"},
	}
)

var tables = []table{
	{scenario: "initial", title: "Initial state", count: "pods of 8 KB", columns: []column{
		{key: "cpu_s", title: "CPU s", format: "%.2f", spread: true},
		{key: "cpu_s", title: "× floor", format: "%.1f", over: floorRatio},
		{key: "cpu_s", title: "× k8sobjects pull", format: "%.2f", over: peerRatio},
		{key: "cpu_total_s", title: "CPU s with start-up", format: "%.2f"},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f", spread: true},
		{key: "wall_s", title: "wall s", format: "%.2f"},
		{key: "written_s", title: "until the last byte is written", format: "%.2f"},
		{key: "allocated_mb", title: "allocated MB", format: "%.0f"},
		{key: "stream_mb", title: "stream MB", format: "%.0f"},
	}},
	{scenario: "initial-large", title: "Initial state, large", count: "pods of 8 KB", columns: []column{
		{key: "cpu_s", title: "CPU s", format: "%.2f"},
		{key: "cpu_s", title: "× floor", format: "%.1f", over: floorRatio},
		{key: "cpu_s", title: "× k8sobjects pull", format: "%.2f", over: peerRatio},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f"},
		{key: "peak_mb", title: "× k8sobjects pull", format: "%.3f", over: peerRatio},
		{key: "wall_s", title: "wall s", format: "%.2f"},
		{key: "wall_s", title: "× floor", format: "%.2f", over: floorRatio},
		{key: "allocated_mb", title: "allocated MB", format: "%.0f"},
	}},
	{scenario: "live", title: "Live changes, 1,000 per second", columns: []column{
		{key: "cpu_us_event", title: "CPU µs per change", format: "%.0f", spread: true},
		{key: "cpu_us_event", title: "× floor", format: "%.1f", over: floorRatio},
		{key: "cpu_us_event", title: "× k8sobjects watch", format: "%.2f", over: "k8sobjects, watch"},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f"},
	}},
	{scenario: "before-initial", title: "Initial state, beside another build of the receiver", count: "pods of 8 KB", columns: []column{
		{key: "cpu_s", title: "CPU s", format: "%.2f", spread: true},
		{key: "cpu_s", title: "× before", format: "%.2f", over: overBefore},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f", spread: true},
		{key: "allocated_mb", title: "allocated MB", format: "%.0f"},
	}},
	{scenario: "before-live", title: "Live changes, 1,000 per second, beside another build of the receiver", columns: []column{
		{key: "cpu_us_event", title: "CPU µs per change", format: "%.0f", spread: true},
		{key: "cpu_us_event", title: "× before", format: "%.2f", over: overBefore},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f"},
	}},
	{scenario: "telemetry", title: "Live changes, 1,000 per second, with and without the Collector's own metrics", columns: []column{
		{key: "cpu_us_event", title: "CPU µs per change", format: "%.0f", spread: true},
		{key: "over_none", title: "× no metrics, in the same run", format: "%.3f", spread: true},
	}},
	{scenario: "gateway-initial", title: "Initial state through a gateway", count: "pods of 8 KB", columns: append(gatewayColumns, column{key: "sink_s", title: "s until the sink has everything", format: "%.1f", spread: true})},
	{scenario: "gateway-live", title: "Live changes through a gateway, 1,000 per second", columns: append(gatewayColumns, gatewayLatency...)},
	{scenario: "gateway-single", title: "Live changes through a gateway, 100 per second, batch timeout 0", columns: append(gatewayColumns, gatewayLatency...)},
	{scenario: "latency", title: "Latency of a change, batch timeout 0", count: "changes per second", columns: []column{
		{key: "p50_ms", title: "p50 ms", format: "%.2f"}, {key: "p99_ms", title: "p99 ms", format: "%.2f"}, {key: "max_ms", title: "max ms", format: "%.1f"},
	}},
	{scenario: "idle", title: "Idle, 30 resources", count: "objects", columns: []column{
		{key: "core_percent", title: "% of a core", format: "%.3f"}, {key: "rss_mb", title: "RSS MB", format: "%.0f"},
	}},
	{scenario: "swap", title: "Relist while 200 objects change per second, to OTLP", count: "pods of 8 KB", columns: []column{
		{key: "cpu_s", title: "CPU s", format: "%.2f"},
		{key: "rss_rise_mb", title: "peak RSS + MB", format: "%.0f"},
		{key: "before_mb", title: "peak RSS before MB", format: "%.0f"},
		{key: "wall_s", title: "wall s", format: "%.2f"},
		{key: "records", title: "records of unchanged objects", format: "%.0f"},
		{key: "quiet_p99_ms", title: "p99 ms of live changes before", format: "%.1f"},
		{key: "swap_p99_ms", title: "during", format: "%.1f"},
	}},
	{scenario: "restart", title: "Restart with a checkpoint, 500 changes during the downtime", count: "pods of 8 KB", columns: []column{
		{key: "cpu_s", title: "CPU s with start-up", format: "%.2f", spread: true},
		{key: "resumed_s", title: "s until the watch resumes", format: "%.2f"},
		{key: "caught_up_s", title: "s until the last change is emitted", format: "%.2f"},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f"},
		{key: "records", title: "records", format: "%.0f"},
	}},
	{scenario: "inventory", title: "Memory per object", count: "objects", columns: []column{
		{key: "heap_b_object", title: "heap B per object", format: "%.0f"},
		{key: "rss_b_object", title: "RSS B per object", format: "%.0f"},
		{key: "heap_mb", title: "heap MB", format: "%.0f"},
		{key: "rss_mb", title: "RSS MB", format: "%.0f"},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f"},
		{key: "longest_pause_ms", title: "longest GC pause ms", format: "%.2f"},
	}},
	{scenario: "counts", title: "Cost against the number of objects", count: "pods of 2 KB", columns: []column{
		{key: "cpu_s", title: "CPU s", format: "%.2f"},
		{key: "cpu_s", title: "× floor", format: "%.1f", over: floorRatio},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f"},
		{key: "wall_s", title: "wall s", format: "%.2f"},
	}},
	{scenario: "replicas", title: "Replicas and shards", count: "pods of 2 KB", columns: []column{
		{key: "cpu_total_s", title: "CPU s with start-up", format: "%.1f"},
		{key: "wall_s", title: "wall s", format: "%.1f"},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f"},
		{key: "rss_mb", title: "RSS MB at the end", format: "%.0f"},
		{key: "records", title: "records", format: "%.0f"},
	}},
	{scenario: "takeover", title: "Takeover after a kill, 500 changes meanwhile", count: "pods of 2 KB", columns: []column{
		{key: "leads_s", title: "s from the kill until the standby leads", format: "%.1f"},
		{key: "caught_up_s", title: "s until it has emitted the changes", format: "%.1f"},
		{key: "records", title: "records", format: "%.0f"},
		{key: "cpu_s", title: "CPU s", format: "%.1f"},
		{key: "peak_mb", title: "peak RSS MB", format: "%.0f"},
		{key: "rss_mb", title: "RSS MB at the end", format: "%.0f"},
	}},
	{scenario: "real", title: "What the initial state costs a real kube-apiserver", count: "pods of 8 KB", columns: []column{
		{key: "server_cpu_s", title: "CPU s of kube-apiserver", format: "%.2f", spread: true},
		{key: "server_cpu_s", title: "× floor", format: "%.2f", over: floorRatio},
		{key: "server_peak_mb", title: "its peak RSS MB", format: "%.0f"},
		{key: "server_rise_mb", title: "increase", format: "%.0f"},
		{key: "cpu_total_s", title: "CPU s of the client, with start-up", format: "%.2f"},
		{key: "peak_mb", title: "peak RSS MB of one client", format: "%.0f"},
		{key: "wall_s", title: "wall s, with start-up", format: "%.2f"},
	}},
}

// Markdown returns the tables of the measurements.
func (r *Results) Markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "<!-- Written by `make %s`; do not edit. -->\n# Figures\n\nMeasured on %s by `make %s%s` in %s, on %d cores of %s with %d GiB, Linux %s, %s, %s. "+
		"The load average of the last five minutes was %s. "+
		"[performance.md](performance.md) explains each figure. Medians; in brackets the minimum and maximum of several runs.\n",
		r.Target, r.At.Format("2006-01-02"), r.Target, r.Flags, r.Took, m.Cores, m.Processor, m.MemoryGiB, m.Kernel, m.Go, strings.Join(m.Versions, ", "), r.Load)
	for _, t := range tables {
		b.WriteString(t.markdown(r))
	}
	return b.String()
}

func (t *table) markdown(r *Results) string {
	groups := r.groups(t.scenario)
	if len(groups) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n", t.title)
	if t.note != "" {
		fmt.Fprintf(&b, "%s\n\n", t.note)
	}
	head, rule := "|  |", "|---|"
	if t.count != "" {
		head, rule = "| "+t.count+" |  |", "|---:|---|"
	}
	for _, c := range t.columns {
		head += " " + c.title + " |"
		rule += "---:|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, rule)
	for _, g := range groups {
		line := "| " + g.contender + " |"
		if t.count != "" {
			line = "| " + thousands(g.objects) + " " + line
		}
		for _, c := range t.columns {
			line += " " + c.cell(g, groups) + " |"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (c *column) cell(g *group, all []*group) string {
	value, ok := g.median(c.key)
	if !ok {
		return ""
	}
	if c.over != "" {
		over := c.over
		if over == overBefore {
			over = g.contender + overBefore
		}
		at := slices.IndexFunc(all, func(o *group) bool { return o.contender == over && o.objects == g.objects })
		if at < 0 {
			return ""
		}
		base, ok := all[at].median(c.key)
		if !ok || base == 0 {
			return ""
		}
		return fmt.Sprintf(c.format, value/base)
	}
	cell := fmt.Sprintf(c.format, value)
	if values := g.values[c.key]; c.spread && len(values) > 1 {
		cell += fmt.Sprintf(" ("+c.format+"–"+c.format+")", slices.Min(values), slices.Max(values))
	}
	return cell
}

func thousands(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
