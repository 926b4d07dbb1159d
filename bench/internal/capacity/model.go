package capacity

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
)

// Titles of tables of the figures.
const (
	initialTable = "Initial state"
	largeTable   = "Initial state, large"
	countsTable  = "Cost against the number of objects"
	realTable    = "What the initial state costs a real kube-apiserver"
	liveTable    = "Live changes, 1,000 per second"
	latencyTable = "Latency of a change, batch timeout 0"
	relistTable  = "Relist while 200 objects change per second, to OTLP"

	// Of docs/gateway-figures.md.
	gatewayTable = "Initial state through a gateway"
	singleTable  = "Live changes through a gateway, 100 per second, batch timeout 0"
)

// since is how many times the CPU time of the measured build the receiver costs now, according to docs/performance.md:
// the products of the largest values in "The cost of redaction" and "The cost of knowing what changed", by body. They are 1
// and 0 once make bench has measured a newer build: see Scenario.Since.
var since = map[string]struct{ initial, live float64 }{
	"map":  {initial: 1.16 * 1.22, live: 1.14 * 1.02},
	"json": {initial: 1.24 * 1.21, live: 1.11},
}

// heapSince is the heap, in bytes, that the hashes of sections take for each object. They did not exist when the figures were
// measured. The garbage collector lets the heap double.
const heapSince, heapGrowth = 35, 2

// highestRate is of the changes per second at which the CPU time of a change was measured, in the title of liveTable.
const highestRate = 1000

// Model holds what was measured, as functions of objects and bytes.
type Model struct {
	Figures *Figures
	body    string
	pods    *corpus.Kind
	sizes   struct{ pod, node, other Size }

	initial   *fit // CPU s on the replay server: 1, objects, MB
	fromReal  *fit // CPU s of the Collector on kube-apiserver: MB
	wall      *fit // s until everything was read from kube-apiserver: MB
	server    *fit // CPU s of kube-apiserver: MB
	peak      *fit // MB: 1, objects
	relist    *fit // CPU s of the Collector: objects
	relistAPI *fit // CPU s of kube-apiserver: objects

	perChange     float64 // CPU s
	export        path    // of the initial state
	exportLive    path    // of changes, one or two in a request
	exportRate    float64 // records per second at which the initial state was exported
	exportMemory  float64 // MB
	exportObjects float64
	latency       reading // p99 in ms until the sink has a change, at the highest measured rate of changes

	gateways       *Figures
	gatewayObjects float64
	gatewayPeak    float64 // MB, of the initial state
	perWaiting     float64 // MB that a record needs in the gateway's queue
	mostWaiting    float64 // records for which the queue has room
}

// queueRequests is the default of sending_queue.queue_size, of the exporter.
const queueRequests = 1000

// path is what a record costs on its way.
type path struct {
	plain, gzip float64 // CPU s of encoding and sending it, without and with compression
	gateway     float64 // CPU s of a gateway that receives and sends it compressed
	ratio       float64 // how many times smaller compression makes it
}

// sent returns the CPU time of sending a record, and how many times smaller it is.
func (p *path) sent(s Scenario) (cpu, ratio float64) {
	switch s.Compression {
	case 0:
		return p.gzip, p.ratio
	case 1:
		return p.plain, 1
	}
	return p.gzip, s.Compression
}

// NewModel fits the figures of the receiver and those of a gateway. The body is map or json, and the pods are those of podKB:
// 2, 8 or 20.
func NewModel(f, gateways *Figures, body string, podKB int) (*Model, error) {
	m := &Model{Figures: f, body: body, gateways: gateways}
	mode, ok := map[string]record.BodyMode{"map": record.BodyMap, "json": record.BodyJSON}[body]
	if !ok {
		return nil, fmt.Errorf("the body %q is not one of map, json: others were not measured", body)
	}
	if m.pods, ok = map[int]*corpus.Kind{2: corpus.Pods2K, 8: corpus.Pods8K, 20: corpus.Pods20K}[podKB]; !ok {
		return nil, fmt.Errorf("pods of %d KB are not one of 2, 8, 20", podKB)
	}
	var small, medium Size // of the pods in the figures
	for _, of := range []struct {
		size *Size
		kind *corpus.Kind
	}{
		{&m.sizes.pod, m.pods}, {&m.sizes.node, corpus.Nodes}, {&m.sizes.other, corpus.Deployments}, {&small, corpus.Pods2K}, {&medium, corpus.Pods8K},
	} {
		var err error
		if *of.size, err = sizeOf(of.kind, mode); err != nil {
			return nil, err
		}
	}
	ours := "k8s_watchlist, body " + body
	mb2, mb8 := small.Wire/1e6, medium.Wire/1e6

	g := gatherer{f: f}
	g.add(initialTable, ours, "CPU s", mb8)
	g.add(largeTable, ours, "CPU s", mb8)
	g.add(countsTable, ours, "CPU s", mb2)
	m.initial = g.fit(func(objects, mb float64) []float64 { return []float64{1, objects, mb} })

	onlyMB := func(_, mb float64) []float64 { return []float64{mb} }
	onlyObjects := func(objects, _ float64) []float64 { return []float64{objects} }
	g.add(realTable, ours, "CPU s of the client, with start-up", mb8)
	m.fromReal = g.fit(onlyMB)
	g.add(realTable, ours, "wall s, with start-up", mb8)
	m.wall = g.fit(onlyMB)
	for _, client := range []string{"floor: read frames, count", "k8s_watchlist, body map", "k8s_watchlist, body json"} {
		g.add(realTable, client, "CPU s of kube-apiserver", mb8)
	}
	m.server = g.fit(onlyMB)

	g.add(initialTable, ours, "peak RSS MB", mb8)
	g.add(largeTable, ours, "peak RSS MB", mb8)
	g.add(countsTable, ours, "peak RSS MB", mb2)
	g.add(realTable, ours, "peak RSS MB of one client", mb8)
	m.peak = g.fit(func(objects, _ float64) []float64 { return []float64{1, objects} })

	g.add(relistTable, "k8s_watchlist, body map", "CPU s", mb8)
	m.relist = g.fit(onlyObjects)
	g.add(realTable, "floor: read frames, count, metadata only", "CPU s of kube-apiserver", mb8)
	m.relistAPI = g.fit(onlyObjects)

	m.perChange = g.one(liveTable, ours, "CPU µs per change").value / 1e6
	wall := g.one(initialTable, exporting, "wall s")
	m.exportObjects, m.exportRate = wall.objects, wall.objects/wall.value
	m.exportMemory = g.one(initialTable, exporting, "peak RSS MB").value - g.one(initialTable, notSent, "peak RSS MB").value
	if g.err == nil {
		var rates []reading
		if rates, g.err = f.of(latencyTable, exporting, "p99 ms"); g.err == nil {
			m.latency = slices.MaxFunc(rates, byObjects)
		}
	}
	if g.err != nil {
		return nil, fmt.Errorf("cannot fit the figures: %w", g.err)
	}
	g = gatherer{f: gateways}
	m.export, m.exportLive = g.path(gatewayTable), g.path(singleTable)
	peak, full := g.one(gatewayTable, behindGateway, "gateway: peak RSS MB"), g.one(gatewayTable, fullGateway, "gateway: peak RSS MB")
	m.gatewayObjects, m.gatewayPeak = peak.objects, peak.value
	m.perWaiting = (full.value - peak.value) / peak.objects
	m.mostWaiting = queueRequests * g.one(gatewayTable, behindGateway, "records per request").value
	if g.err != nil {
		return nil, fmt.Errorf("cannot use the figures of a gateway: %w", g.err)
	}
	return m, nil
}

// Rows of the figures with an exporter.
const (
	notSent       = "k8s_watchlist, body map"
	exporting     = notSent + ", to OTLP"
	compressing   = exporting + ", gzip"
	behindGateway = compressing + ", through a gateway"
	fullGateway   = behindGateway + " with all in its queue"
)

// path reads what a table of the figures of a gateway says.
func (g *gatherer) path(title string) path {
	const cpu, size = "CPU µs per record", "bytes per record at the sink"
	none := g.one(title, notSent, cpu).value
	return path{
		plain:   (g.one(title, exporting, cpu).value - none) / 1e6,
		gzip:    (g.one(title, compressing, cpu).value - none) / 1e6,
		gateway: g.one(title, behindGateway, "gateway: "+cpu).value / 1e6,
		ratio:   g.one(title, exporting, size).value / g.one(title, compressing, size).value,
	}
}

// gatherer collects measurements for a fit. It keeps the first error.
type gatherer struct {
	f      *Figures
	points []measurement
	err    error
}

type measurement struct{ objects, mb, cost float64 }

func (g *gatherer) add(title, contender, column string, mbPerObject float64) {
	if g.err != nil {
		return
	}
	var all []reading
	all, g.err = g.f.of(title, contender, column)
	for _, r := range all {
		g.points = append(g.points, measurement{r.objects, r.objects * mbPerObject, r.value})
	}
}

// fit fits what was added to the terms, and begins anew.
func (g *gatherer) fit(terms func(objects, mb float64) []float64) *fit {
	if g.err != nil {
		return &fit{}
	}
	var points []point
	for _, p := range g.points {
		points = append(points, point{terms(p.objects, p.mb), p.cost})
	}
	g.points = nil
	var f *fit
	f, g.err = leastSquares(points)
	return f
}

// one returns the measurement of the smallest number of objects.
func (g *gatherer) one(title, contender, column string) reading {
	if g.err != nil {
		return reading{}
	}
	var all []reading
	if all, g.err = g.f.of(title, contender, column); g.err != nil {
		return reading{}
	}
	return slices.MinFunc(all, byObjects)
}

func byObjects(a, b reading) int { return cmp.Compare(a.objects, b.objects) }

// Scenario is what is to be read. The numbers of nodes and pods are those of each cluster.
type Scenario struct {
	Clusters, Nodes, Pods int
	// Changes per second that are records, for each 1,000 pods.
	Changes float64
	// Others is the number of other objects for each pod.
	Others float64
	// StatusSeconds is how often a kubelet sends the status of its node without a change; 0: never.
	StatusSeconds float64
	// LeaseSeconds is how often it renews its Lease; 0: Leases are not read.
	LeaseSeconds float64
	// RelistHours is relist.interval; 0: never.
	RelistHours float64
	// Compression is how many times smaller the records are when they are sent; 0: as measured; 1: not compressed.
	Compression float64
	// Since adds what the receiver costs more than when the figures were measured.
	Since bool
}

// Default has the values of all but the size.
func Default(clusters, nodes, pods int) Scenario {
	return Scenario{Clusters: clusters, Nodes: nodes, Pods: pods, Changes: 0.1, Others: 0.5, StatusSeconds: 300, RelistHours: 6, Since: true}
}

// Check reports a scenario that makes no sense.
func (s Scenario) Check() error {
	for _, value := range []struct {
		name  string
		value float64
		least float64
	}{
		{"clusters", float64(s.Clusters), 1}, {"nodes", float64(s.Nodes), 0}, {"pods", float64(s.Pods), 1}, {"changes", s.Changes, 0}, {"others", s.Others, 0},
		{"status", s.StatusSeconds, 0}, {"leases", s.LeaseSeconds, 0}, {"relist", s.RelistHours, 0}, {"compression", cmp.Or(s.Compression, 1), 1},
	} {
		if !(value.value >= value.least) {
			return fmt.Errorf("%s is %g, and has to be at least %g", value.name, value.value, value.least)
		}
	}
	return nil
}

// leaseBytes is the size of a watch event of a Lease. The corpus has none.
const leaseBytes = 700

// cost is a result with how far it is beyond the measurements; 0 if that means nothing.
type cost struct{ value, beyond float64 }

// costs are the results for one scenario. Those of each cluster come first.
type costs struct {
	objects, initialMB                      cost
	cpu, cpuReplay, wall, server, peak      cost
	otlpMB, exportCPU, exportSeconds        cost
	emitted, suppressed, cores, serverCores cost
	liveKB, readGBDay, sentGBDay            cost
	relistCPU, relistServer, relistMB       cost

	exportMB                                      cost
	gatewayRecords, gatewayMbit, gatewayCores     cost
	allRecords, allGB, gatewayCPU, gatewaySeconds cost
	gatewayMB                                     cost
	recordsDay, bytesDay                          cost
}

const (
	secondsPerDay = 86400
	bitsPerMB     = 8
)

func (m *Model) costs(s Scenario) costs {
	var c costs
	initialFactor, liveFactor, moreMB := 1.0, 1.0, 0.0
	pods, nodes, clusters := float64(s.Pods), float64(s.Nodes), float64(s.Clusters)
	others := pods * s.Others
	objects := pods + nodes + others
	if s.Since {
		initialFactor, liveFactor = since[m.body].initial, since[m.body].live
		moreMB = objects * heapSince * heapGrowth / 1e6
	}
	sum := func(of func(Size) float64) float64 {
		return (pods*of(m.sizes.pod) + nodes*of(m.sizes.node) + others*of(m.sizes.other)) / 1e6
	}
	mb := sum(func(z Size) float64 { return z.Wire })
	otlp := sum(func(z Size) float64 { return z.Record })
	predicted := func(f *fit, factor float64, terms ...float64) cost {
		return cost{f.at(terms...) * factor, f.beyond(terms...)}
	}
	c.objects, c.initialMB = cost{value: objects}, cost{value: mb}
	c.cpu = predicted(m.fromReal, initialFactor, mb)
	c.cpuReplay = predicted(m.initial, initialFactor, 1, objects, mb)
	c.wall = predicted(m.wall, 1, mb)
	c.server = predicted(m.server, 1, mb)
	c.peak = predicted(m.peak, 1, 1, objects)
	c.peak.value += moreMB
	c.otlpMB = cost{value: otlp}
	c.exportMB = cost{m.exportMemory, objects / m.exportObjects}
	exportCPU, _ := m.export.sent(s)
	c.exportCPU = cost{objects * exportCPU, objects / m.gatewayObjects}
	c.exportSeconds = cost{objects / m.exportRate, objects / m.exportObjects}

	emitted := pods / 1000 * s.Changes
	status, leases := 0.0, 0.0
	if s.StatusSeconds > 0 {
		status = nodes / s.StatusSeconds
	}
	if s.LeaseSeconds > 0 {
		leases = nodes / s.LeaseSeconds
	}
	read := emitted + status + leases
	liveMB := (emitted*m.sizes.pod.Wire + status*m.sizes.node.Wire + leases*leaseBytes) / 1e6
	c.emitted = cost{emitted, emitted / highestRate}
	c.suppressed = cost{value: status + leases}
	liveCPU, ratio := m.exportLive.sent(s)
	c.cores = cost{(read*m.perChange*liveFactor + emitted*liveCPU) * 100, read / highestRate}
	c.serverCores = cost{value: m.server.at(liveMB) * 100}
	c.liveKB = cost{value: liveMB * 1000}

	relists := 0.0
	if s.RelistHours > 0 {
		relists = 24 / s.RelistHours
	}
	c.relistCPU = predicted(m.relist, 1, objects)
	c.relistServer = predicted(m.relistAPI, 1, objects)
	c.relistMB = cost{value: sum(func(z Size) float64 { return z.Metadata })}
	c.readGBDay = cost{value: (liveMB*secondsPerDay + relists*c.relistMB.value) / 1000}
	sentMB := emitted * m.sizes.pod.Record / 1e6
	c.sentGBDay = cost{value: sentMB * secondsPerDay / 1000 / ratio}

	all := emitted * clusters
	c.gatewayRecords = cost{all, all / highestRate}
	c.gatewayMbit = cost{value: sentMB * clusters * bitsPerMB / ratio}
	c.gatewayCores = cost{all * m.exportLive.gateway * 100, all / highestRate}
	c.allRecords = cost{value: objects * clusters}
	c.allGB = cost{value: otlp * clusters / 1000}
	c.gatewayCPU = cost{objects * clusters * m.export.gateway, objects * clusters / m.gatewayObjects}
	c.gatewaySeconds = cost{objects * clusters / m.exportRate, objects * clusters / m.exportObjects}
	waiting := min(objects*clusters, m.mostWaiting)
	c.gatewayMB = cost{m.gatewayPeak + waiting*m.perWaiting, waiting / m.gatewayObjects}

	c.recordsDay = cost{value: all * secondsPerDay}
	c.bytesDay = cost{value: sentMB * clusters * secondsPerDay / 1000}
	return c
}
