package e2e

import (
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// catchUp is how long the receiver may take to emit all changes, on a busy machine.
const catchUp = 60 * time.Second

// requireOnceAndInOrder requires that no record is repeated, and that those of an object are in the order of its
// versions.
func requireOnceAndInOrder(t *testing.T, records []fold.Record) {
	t.Helper()
	report(t, "records were repeated", fold.Duplicates(records))
	report(t, "records are out of order", fold.Disorder(records))
}

// requireNothingRecovered requires that every change was live and none was missed.
func requireNothingRecovered(t *testing.T, records []harness.Record) {
	t.Helper()
	var found []string
	for _, record := range records {
		recovered := record.Object != nil && (record.Object.Origin == "recovered" || record.Object.Inferred && record.Object.Origin != "selected")
		if recovered || record.Event == "k8s.watch.gap" {
			found = append(found, record.String())
		}
	}
	report(t, "records report missed changes", found)
}

// report fails the test with the first few findings, if there are any.
func report(t *testing.T, what string, found []string) {
	t.Helper()
	if len(found) > 0 {
		t.Errorf("%d %s, among them: %q", len(found), what, found[:min(len(found), 5)])
	}
}

// requireEveryEvent waits until the pods are as the API server lists them, and requires every change since a version
// live, once and in order, since the server still had the history.
func requireEveryEvent(t *testing.T, c *harness.Cluster, emitted *harness.Records, truth *harness.Truth, from string) {
	t.Helper()
	listed := c.List(t, harness.Pods)
	emitted.AwaitFold(t, "pods", listed.State, catchUp)
	records := emitted.All()
	objects := harness.Objects(records, "pods")
	requireOnceAndInOrder(t, objects)
	requireNothingRecovered(t, records)
	report(t, "events of etcd were not emitted", harness.NotEmitted(truth.Between(t, from, listed.ResourceVersion), objects))
}
