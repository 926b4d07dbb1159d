package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// measured returns the results of an imaginary run.
func measured() *Results {
	r := &Results{}
	for _, k := range []contenderKind{theFloor, oursMap, peerPull} {
		for _, n := range []int{1000, 10_000} {
			for run := range 3 {
				r.Rows = append(r.Rows,
					Row{"counts", k.name, n, run, map[string]float64{"cpu_s": float64(n) / 1e4 * float64(run+1), "peak_mb": 20}},
					Row{"initial", k.name, n, run, map[string]float64{"cpu_s": float64(run + 1), "peak_mb": 20}})
			}
		}
		r.Series = append(r.Series, Series{"initial", k.name, []sample{{0, 1e7}, {time.Second, 2e7}}, nil},
			Series{"swap", k.name, []sample{{0, 1e7}, {time.Second, 2e7}}, map[string]span{"relist": {time.Second / 2, time.Second}}})
	}
	return r
}

func TestPlotsAreDrawn(t *testing.T) {
	folder := t.TempDir()
	if err := measured().WritePlots(folder); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rss-initial-state.svg", "rss-relist.svg", "cpu-by-objects.svg", "peak-by-objects.svg"} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !strings.Contains(string(content), oursMap.name) && name != "rss-relist.svg" {
			t.Errorf("%s: %v, %d bytes", name, err, len(content))
		}
	}
}

func TestTablesHaveMediansAndRatios(t *testing.T) {
	tables := measured().Markdown()
	if want := "| 1,000 | k8s_watchlist, body map | 2.00 (1.00–3.00) | 1.0 | 1.00 |"; !strings.Contains(tables, want) {
		t.Errorf("%s is not in\n%s", want, tables)
	}
}
