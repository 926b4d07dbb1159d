package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Alert is an alert of deploy/prometheus that has fired. See Notice in tools/monitoring.
type Alert struct {
	Name     string            `json:"alert"`
	Severity string            `json:"severity"`
	Labels   map[string]string `json:"labels"`
	Summary  string            `json:"summary"`
	Firing   bool              `json:"firing"` // still
	FiredAt  time.Time         `json:"fired_at"`
}

// Alerts are what the rules in deploy/prometheus, evaluated by Prometheus's own packages, say about the pages of an endpoint.
// A second of the pages is a minute for the rules.
type Alerts struct {
	mu    sync.Mutex
	fired []Alert
}

// WatchAlerts evaluates the rules over all pages from now on, until the test ends.
func (p *Pages) WatchAlerts(t testing.TB) *Alerts {
	t.Helper()
	a := &Alerts{}
	cmd := exec.Command(binaryOf(t, "MONITORING_BINARY"), "alerts", "../..")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	pages, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	printed, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewReader(printed)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var fired []Alert
			if err := json.Unmarshal(line, &fired); err != nil {
				t.Errorf("cannot read the alerts: %v: %s", err, line)
				continue
			}
			a.mu.Lock()
			a.fired = fired
			a.mu.Unlock()
		}
	})
	p.pass(pages)
	t.Cleanup(func() {
		p.pass(nil)
		_ = pages.Close()
		reading.Wait()
		if err := cmd.Wait(); err != nil {
			t.Errorf("cannot evaluate the alerting rules: %v\n%s", err, complaints.String())
		}
	})
	return a
}

// Fired returns the alerts so far, in the order in which they have fired.
func (a *Alerts) Fired() []Alert {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fired[:len(a.fired):len(a.fired)]
}
