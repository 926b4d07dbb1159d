package capacity

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
)

const (
	figuresPage = "../../../docs/performance-figures.md"
	gatewayPage = "../../../docs/gateway-figures.md"
	scalePage   = "../../../docs/scale.md"
)

func pages(t *testing.T) (f, gateways *Figures) {
	t.Helper()
	f, err := Read(figuresPage)
	if err != nil {
		t.Fatal(err)
	}
	if gateways, err = Read(gatewayPage); err != nil {
		t.Fatal(err)
	}
	return f, gateways
}

func model(t *testing.T, body string, podKB int) *Model {
	t.Helper()
	f, gateways := pages(t)
	m, err := NewModel(f, gateways, body, podKB)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// docs/scale.md has what the program prints.
func TestScalePageIsUpToDate(t *testing.T) {
	want, err := Examples(pages(t))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(scalePage)
	if err != nil {
		t.Fatal(err)
	}
	_, got, _, err := parts(string(content))
	if err != nil {
		t.Fatal(err)
	}
	if got == want {
		return
	}
	old := strings.Split(got, "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(old) || old[i] != line {
			t.Fatalf("docs/scale.md is not up to date: run make capacity-docs. It lacks the line\n%s", line)
		}
	}
	t.Fatal("docs/scale.md is not up to date: run make capacity-docs")
}

// The sizes of objects are those with which the figures were measured.
func TestSizesAreThoseOfTheFigures(t *testing.T) {
	m := model(t, "map", 8)
	streams, err := m.Figures.of(initialTable, "k8s_watchlist, body map", "stream MB")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range streams {
		near(t, "a stream in MB", r.objects*m.sizes.pod.Wire/1e6, r.value, 0.02)
	}
	small, err := sizeOf(corpus.Pods2K, record.BodyJSON)
	if err != nil {
		t.Fatal(err)
	}
	if small.Record < 500 || small.Record > 2*small.Wire || small.Metadata > small.Wire {
		t.Errorf("pods of 2 KB have the sizes %+v", small)
	}
}

// What was measured is predicted with the stated deviation, and not called extrapolated.
func TestModelPredictsWhatWasMeasured(t *testing.T) {
	for _, body := range []string{"map", "json"} {
		m := model(t, body, 8)
		measured, err := m.Figures.of(realTable, "k8s_watchlist, body "+body, "CPU s of the client, with start-up")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range measured {
			s := Default(1, 0, int(r.objects))
			s.Others, s.Since = 0, false
			c := m.costs(s)
			near(t, "the CPU time", c.cpu.value, r.value, m.fromReal.deviation+1e-6)
			if text := c.cpu.String(); strings.Contains(text, "×") {
				t.Errorf("%g pods with body %s are extrapolated: %s", r.objects, body, text)
			}
			s.Since = true
			near(t, "the CPU time since", m.costs(s).cpu.value, c.cpu.value*since[body].initial, 1e-9)
		}
	}
}

func TestCosts(t *testing.T) {
	m := model(t, "map", 8)
	s := Default(1, 5000, 150_000)
	c := m.costs(s)
	near(t, "objects", c.objects.value, 230_000, 0)
	near(t, "records per second", c.emitted.value, 15, 1e-9)
	near(t, "statuses per second", c.suppressed.value, 5000./300, 1e-9)
	near(t, "records a day", c.recordsDay.value, 15*86400, 1e-9)
	near(t, "bytes a day", c.bytesDay.value, 15*86400*m.sizes.pod.Record/1e9, 1e-9)
	near(t, "sent a day", c.sentGBDay.value*m.exportLive.ratio, c.bytesDay.value, 1e-9)
	near(t, "CPU of the export", c.exportCPU.value, 230_000*m.export.gzip, 1e-9)
	near(t, "how far beyond", c.cpu.beyond, c.initialMB.value/m.fromReal.most[0], 1e-9)
	if !strings.Contains(c.cpu.String(), "×") || strings.Contains(c.peak.String(), "×") {
		t.Errorf("CPU %s is beyond the measurements, and memory %s within", c.cpu, c.peak)
	}

	s.LeaseSeconds = 10
	near(t, "signs of life with Leases", m.costs(s).suppressed.value, 5000./300+500, 1e-9)
	near(t, "read with Leases", m.costs(s).liveKB.value-c.liveKB.value, 500*leaseBytes/1e3, 1e-9)

	s = Default(40, 500, 15_000)
	one := m.costs(s)
	near(t, "records at the gateway", one.gatewayRecords.value, 40*one.emitted.value, 1e-9)
	near(t, "records of all", one.allRecords.value, 40*23_000, 1e-9)

	s.RelistHours, s.StatusSeconds, s.Changes = 0, 0, 0
	quiet := m.costs(s)
	for name, value := range map[string]float64{"read": quiet.readGBDay.value, "sent": quiet.sentGBDay.value, "CPU": quiet.cores.value} {
		if value != 0 {
			t.Errorf("%s is %g where nothing happens", name, value)
		}
	}
	if text := m.Markdown(s); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || !strings.Contains(text, "| never |") {
		t.Error(text)
	}
}

// What the measurements say of an exporter and a gateway is plausible, and -compression replaces the measured ratio.
func TestGateway(t *testing.T) {
	m := model(t, "map", 8)
	for name, p := range map[string]path{"initial state": m.export, "live": m.exportLive} {
		if p.plain <= 0 || p.gzip <= p.plain || p.gateway <= 0 || p.ratio <= 1 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	s := Default(40, 500, 15_000)
	c := m.costs(s)
	near(t, "CPU of the gateway", c.gatewayCores.value, 60*m.exportLive.gateway*100, 1e-9)
	near(t, "CPU of all initial states", c.gatewayCPU.value, 40*23_000*m.export.gateway, 1e-9)
	near(t, "memory with a full queue", c.gatewayMB.value, m.gatewayPeak+m.mostWaiting*m.perWaiting, 1e-9)
	small := m.costs(Default(2, 0, 10))
	near(t, "memory with all in the queue", small.gatewayMB.value, m.gatewayPeak+30*m.perWaiting, 1e-9)

	s.Compression = 3
	near(t, "compressed", m.costs(s).gatewayMbit.value, c.gatewayMbit.value*m.exportLive.ratio/3, 1e-9)
	near(t, "CPU with another ratio", m.costs(s).exportCPU.value, c.exportCPU.value, 1e-9)
	s.Compression = 1
	near(t, "not compressed", m.costs(s).sentGBDay.value*40, c.bytesDay.value, 1e-9)
	near(t, "CPU without compression", m.costs(s).exportCPU.value, 23_000*m.export.plain, 1e-9)
}

func TestScenariosThatMakeNoSense(t *testing.T) {
	if err := Default(1, 0, 1).Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Scenario){
		"pods is 0":          func(s *Scenario) { s.Pods = 0 },
		"clusters is 0":      func(s *Scenario) { s.Clusters = 0 },
		"changes is NaN":     func(s *Scenario) { s.Changes = math.NaN() },
		"relist is -1":       func(s *Scenario) { s.RelistHours = -1 },
		"compression is 0.5": func(s *Scenario) { s.Compression = 0.5 },
	} {
		s := Default(1, 10, 100)
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, not %s", err, want)
		}
	}
	f, gateways := pages(t)
	if _, err := NewModel(f, gateways, "summary", 8); err == nil {
		t.Error("a body that was not measured is accepted")
	}
	if _, err := NewModel(f, gateways, "map", 5); err == nil {
		t.Error("a size of pods that was not measured is accepted")
	}
}

// Figures without a table that the model needs are an error that names it.
func TestFiguresWithoutATable(t *testing.T) {
	f, gateways := pages(t)
	example, err := Parse(examplePage)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewModel(example, gateways, "map", 8); err == nil || !strings.Contains(err.Error(), initialTable) {
		t.Errorf("error %v", err)
	}
	if _, err := NewModel(f, example, "map", 8); err == nil || !strings.Contains(err.Error(), gatewayTable) {
		t.Errorf("error %v", err)
	}
}

func TestPlainNumbers(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.1: "0.1", 0.0123: "0.012", 1: "1", 8.64: "8.6", 9.96: "10", 12.4: "12", 999.7: "1,000", 1234567: "1,234,567"} {
		if got := plain(value); got != want {
			t.Errorf("%g is %s, not %s", value, got, want)
		}
	}
}
