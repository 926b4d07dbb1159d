package capacity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Links to what the assumptions are based on.
const (
	heartbeats = "[Kubernetes](https://kubernetes.io/docs/reference/node/node-status/#heartbeats)"
	story      = "[story.md](story.md)"
	figures    = "[performance-figures.md](performance-figures.md)"
	gateways   = "[gateway-figures.md](gateway-figures.md)"
)

// Markdown returns the assumptions, the fits, and the costs with a column for each scenario. The assumptions are those of the
// first scenario; the others have to differ in their size only.
func (m *Model) Markdown(scenarios ...Scenario) string {
	var b strings.Builder
	s := scenarios[0]
	fmt.Fprintf(&b, "Measured on %s; compression and a gateway on %s. Sizes are those of the benchmarks' synthetic objects, with body `%s`.\n\n",
		m.Figures.Measured, m.gateways.Measured, m.body)
	m.assumptions(&b, s)
	m.fits(&b)
	m.results(&b, scenarios)
	return b.String()
}

func table(b *strings.Builder, columns ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(columns, " | "))
	b.WriteString("|---|")
	for range columns[1:] {
		b.WriteString("---|")
	}
	b.WriteString("\n")
}

func row(b *strings.Builder, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

func (m *Model) assumptions(b *strings.Builder, s Scenario) {
	table(b, "Assumption", "Value", "Flag", "Why")
	size := func(z Size) string {
		return fmt.Sprintf("%s in a stream, %s in a relist, %s as an OTLP record", plain(z.Wire), plain(z.Metadata), plain(z.Record))
	}
	often := func(seconds float64, none string) string {
		if seconds == 0 {
			return none
		}
		return "every " + plain(seconds) + " s"
	}
	row(b, "Changes that are records, per second and 1,000 pods", plain(s.Changes), "`-changes`", fmt.Sprintf(
		"not measured. It is %s per pod and day; each pod that is replaced makes six by itself (%s), and its controllers make more", plain(s.Changes*secondsPerDay/1000), story))
	row(b, "A pod, bytes", size(m.sizes.pod), "`-pod-kb` 2, 8 or 20", "computed. Each change counts as one of a pod")
	row(b, "A node, bytes", size(m.sizes.node), "", "computed")
	row(b, "Other objects for each pod", plain(s.Others), "`-others`", "not measured")
	row(b, "Another object, bytes", size(m.sizes.other), "", "computed, for a Deployment")
	row(b, "Status of a node without a change", often(s.StatusSeconds, "never"), "`-status`", "`nodeStatusReportFrequency`, by default 5 minutes ("+heartbeats+"); read, but not emitted")
	row(b, "Leases of nodes", often(s.LeaseSeconds, "not read"), "`-leases`", fmt.Sprintf(
		"renewed every 10 s by default (%s), which are %d bytes here; read only if `leases` is among the resources, and not emitted", heartbeats, leaseBytes))
	relist := "never"
	if s.RelistHours > 0 {
		relist = "every " + plain(s.RelistHours) + " h"
	}
	row(b, "Relist", relist, "`-relist`", "the default of `relist.interval`, of metadata only")
	compression := "as measured"
	if s.Compression > 0 {
		compression = plain(s.Compression) + " times smaller"
	}
	row(b, "Compression of what is sent", compression, "`-compression`", "gzip, the default of the exporter `otlp_grpc`. Objects of a cluster may be more or less alike than synthetic ones; 1: none")
	if s.Since {
		initial, live := since[m.body].initial, since[m.body].live
		row(b, "Since the figures were measured", fmt.Sprintf("initial state + %.0f %% CPU time, live + %.0f %%, memory + %d B per object", (initial-1)*100, (live-1)*100, heapSince*heapGrowth),
			"`-since=false`", "[redaction](performance.md#the-cost-of-redaction) and [what changed](performance.md#the-cost-of-knowing-what-changed), the largest of each; heap twice, because it may double between two garbage collections")
	}
	b.WriteString("\n")
}

func (m *Model) fits(b *strings.Builder) {
	table(b, "Fit", "Result", "Measurements", "Largest deviation", "Largest measured", "Source in "+figures)
	one := func(name, unit string, f *fit, source string, terms ...string) {
		var parts, most []string
		for i, factor := range f.factors {
			if factor == 0 {
				continue
			}
			if terms[i] == "" {
				parts = append(parts, plain(factor)+" "+unit)
				continue
			}
			parts = append(parts, per(factor, unit, terms[i]))
			most = append(most, plain(f.most[i])+" "+map[string]string{"object": "objects", "GB": "MB"}[terms[i]])
		}
		row(b, name, strings.Join(parts, " + "), strconv.Itoa(f.points), fmt.Sprintf("%.0f %%", f.deviation*100), strings.Join(most, ", "), source)
	}
	quote := func(titles ...string) string { return "“" + strings.Join(titles, "”, “") + "”" }
	one("Initial state on the replay server, CPU", "s", m.initial, quote(initialTable, largeTable, countsTable), "", "object", "GB")
	one("Initial state on kube-apiserver, CPU with start-up", "s", m.fromReal, quote(realTable), "GB")
	one("Until everything is read from kube-apiserver", "s", m.wall, quote(realTable), "GB")
	one("Initial state, CPU of kube-apiserver", "s", m.server, quote(realTable)+", one client, not compressed", "GB")
	one("Peak RSS", "MB", m.peak, quote(initialTable, largeTable, countsTable, realTable), "", "object")
	one("Relist, CPU", "s", m.relist, quote(relistTable), "object")
	one("Relist, CPU of kube-apiserver", "s", m.relistAPI, quote(realTable)+", metadata only", "object")
	single := fmt.Sprintf("%s objects", plain(m.exportObjects))
	row(b, "A live change, CPU", plain(m.perChange*1e6)+" µs", "1", "", plain(highestRate)+" changes per second", quote(liveTable))
	for _, of := range []struct {
		name, most, title string
		path
	}{{"initial state", plain(m.gatewayObjects) + " objects", gatewayTable, m.export}, {"live", "100 changes per second", singleTable, m.exportLive}} {
		from := gateways + ", " + quote(of.title) + ", "
		row(b, "Export of a record, "+of.name+", CPU", plain(of.gzip*1e6)+" µs with gzip, "+plain(of.plain*1e6)+" µs without", "1", "", of.most, from+"“body map, to OTLP, gzip” and “body map, to OTLP”, each minus “body map”")
		row(b, "Compression, "+of.name, plain(of.ratio)+" times smaller", "1", "", of.most, from+"bytes at the sink with and without gzip")
		row(b, "A gateway, "+of.name+", CPU", plain(of.gateway*1e6)+" µs per record", "1", "", of.most, from+"received and sent with gzip")
	}
	row(b, "Peak RSS of a gateway", plain(m.gatewayPeak)+" MB + "+per(m.perWaiting, "MB", "record that waits in its queue"), "1", "", plain(m.gatewayObjects)+" objects", gateways+", "+quote(gatewayTable))
	row(b, "Export of the initial state", plain(m.exportRate)+" records per second", "1", "", single, quote(initialTable)+", “body map, to OTLP” without compression, wall s")
	row(b, "Latency until a change is received, p99", plain(m.latency.value)+" ms", "1", "", plain(m.latency.objects)+" changes per second", quote(latencyTable)+", “to OTLP”")
	row(b, "Memory of the exporter", plain(m.exportMemory)+" MB", "1", "", single, quote(initialTable)+", “body map, to OTLP” without a queue, minus “body map”")
	b.WriteString("\n")
}

// per prints a factor of a term with a unit that makes it readable.
func per(factor float64, unit, term string) string {
	switch {
	case term == "GB": // factors are for each MB
		return fmt.Sprintf("%s %s per GB", plain(factor*1000), unit)
	case unit == "MB":
		return fmt.Sprintf("%s B per %s", plain(factor*1e6), term)
	}
	return fmt.Sprintf("%s µs per %s", plain(factor*1e6), term)
}

func (m *Model) results(b *strings.Builder, scenarios []Scenario) {
	columns := []string{"For each cluster"}
	var all []costs
	gateway := false
	for _, s := range scenarios {
		all = append(all, m.costs(s))
		title := fmt.Sprintf("%s nodes, %s pods", plain(float64(s.Nodes)), plain(float64(s.Pods)))
		if s.Clusters > 1 {
			title = fmt.Sprintf("%s × %s", plain(float64(s.Clusters)), title)
			gateway = true
		}
		columns = append(columns, title)
	}
	table(b, append(columns, "From")...)
	rowOf := func(name, from string, cell func(i int) string) {
		cells := []string{name}
		for i := range all {
			cells = append(cells, cell(i))
		}
		row(b, append(cells, from)...)
	}
	line := func(name, from string, of func(c *costs) cost) {
		rowOf(name, from, func(i int) string { return of(&all[i]).String() })
	}
	heading := func(text string) { row(b, append([]string{"**" + text + "**"}, make([]string, len(all)+1)...)...) }
	line("Objects", "", func(c *costs) cost { return c.objects })
	heading("Initial state")
	line("Read, MB", "sizes", func(c *costs) cost { return c.initialMB })
	line("CPU of the Collector, s", "fit, kube-apiserver", func(c *costs) cost { return c.cpu })
	line("CPU of the Collector, s", "fit, replay server", func(c *costs) cost { return c.cpuReplay })
	line("CPU of kube-apiserver, s", "fit", func(c *costs) cost { return c.server })
	line("Until everything is read, s", "fit", func(c *costs) cost { return c.wall })
	line("Peak RSS of the Collector, MB", "fit", func(c *costs) cost { return c.peak })
	line("Records, OTLP MB", "sizes", func(c *costs) cost { return c.otlpMB })
	line("Export: CPU in addition, s", "one measurement", func(c *costs) cost { return c.exportCPU })
	line("Export: RSS in addition, MB", "one measurement", func(c *costs) cost { return c.exportMB })
	line("Export: until everything is sent, s", "one measurement", func(c *costs) cost { return c.exportSeconds })
	heading("Live")
	line("Records per second", "assumption", func(c *costs) cost { return c.emitted })
	line("Signs of life per second, not emitted", "assumption", func(c *costs) cost { return c.suppressed })
	line("CPU of the Collector with the export, % of a core", "one measurement; signs of life count as changes", func(c *costs) cost { return c.cores })
	line("CPU of kube-apiserver, % of a core", "not measured: per GB as in the initial state", func(c *costs) cost { return c.serverCores })
	line("Read, KB/s", "sizes", func(c *costs) cost { return c.liveKB })
	line("Read with relists, GB a day", "sizes", func(c *costs) cost { return c.readGBDay })
	line("Sent, compressed, GB a day", "sizes and compression", func(c *costs) cost { return c.sentGBDay })
	heading("A relist")
	line("CPU of the Collector, s", "fit", func(c *costs) cost { return c.relistCPU })
	line("CPU of kube-apiserver, s", "fit", func(c *costs) cost { return c.relistServer })
	line("Read, MB", "sizes", func(c *costs) cost { return c.relistMB })
	if gateway {
		heading("A gateway for all clusters")
		behind := func(name, from string, of func(c *costs) cost) {
			rowOf(name, from, func(i int) string {
				if scenarios[i].Clusters == 1 {
					return ""
				}
				return of(&all[i]).String()
			})
		}
		behind("Records per second", "assumption", func(c *costs) cost { return c.gatewayRecords })
		behind("Received, compressed, Mbit/s", "sizes and compression", func(c *costs) cost { return c.gatewayMbit })
		behind("CPU, % of a core", "one measurement, batch timeout 0", func(c *costs) cost { return c.gatewayCores })
		behind("All initial states at once: CPU, s", "one measurement", func(c *costs) cost { return c.gatewayCPU })
		behind("All initial states at once: through one exporter, s", "one measurement", func(c *costs) cost { return c.gatewaySeconds })
		behind("Peak RSS with a full queue, MB", fmt.Sprintf("one measurement; the default queue, %s requests", plain(queueRequests)), func(c *costs) cost { return c.gatewayMB })
	}
	heading("Backend, all clusters")
	line("Records a day", "assumption", func(c *costs) cost { return c.recordsDay })
	line("OTLP, not compressed, GB a day", "sizes", func(c *costs) cost { return c.bytesDay })
	line("All initial states: records", "", func(c *costs) cost { return c.allRecords })
	line("All initial states: OTLP, not compressed, GB", "sizes", func(c *costs) cost { return c.allGB })
}

// String returns the value, and in brackets how many times larger than everything measured its terms are, if they are.
func (c cost) String() string {
	if c.beyond > 1.05 {
		return fmt.Sprintf("%s (%s ×)", plain(c.value), plain(c.beyond))
	}
	return plain(c.value)
}

// plain returns a number with two digits, or all before the point, as more would promise an accuracy that nothing here has.
func plain(value float64) string {
	switch size := math.Abs(value); {
	case size == 0:
		return "0"
	case size < 1:
		return strconv.FormatFloat(value, 'g', 2, 64)
	case size < 10:
		return strings.TrimSuffix(strconv.FormatFloat(value, 'f', 1, 64), ".0")
	}
	text := strconv.FormatFloat(math.Round(value), 'f', 0, 64)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
