package harness

import (
	"path/filepath"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/reference"
)

var readReference = sync.OnceValues(func() (*reference.Table, error) {
	return reference.ReadFile(filepath.Join("..", "..", "docs", "records.md"))
})

// Reference returns the table of attributes in docs/records.md.
func Reference(t testing.TB) *reference.Table {
	t.Helper()
	table, err := readReference()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// documented compares the attributes of records with the reference.
type documented struct {
	mu          sync.Mutex
	coverage    *reference.Coverage
	differences map[string]bool
}

func newDocumented(t testing.TB) *documented {
	t.Helper()
	return &documented{coverage: Reference(t).NewCoverage(), differences: map[string]bool{}}
}

func (d *documented) add(logs plog.Logs) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, difference := range d.coverage.AddLogs(logs) {
		d.differences[difference] = true
	}
}

// report fails the test if there was a difference.
func (d *documented) report(t testing.TB) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for difference := range d.differences {
		t.Errorf("the records are not as in docs/records.md: %s", difference)
	}
}
