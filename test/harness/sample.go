package harness

import (
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/workload"
)

// Sample applies the sample workload of `make run`. It changes only when it is told to, and ends with the test.
func (c *Cluster) Sample(t *testing.T) *workload.Workload {
	t.Helper()
	sample, err := workload.New(c.RESTConfig(), func(format string, args ...any) { t.Logf(format, args...) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sample.Close)
	if err := sample.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sample
}
