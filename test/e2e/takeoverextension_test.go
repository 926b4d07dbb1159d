package e2e

import (
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// byExtension returns the configuration of a Collector whose receiver follows contrib's extension.
func byExtension(receiver, extension string, sink *harness.Sink) string {
	return toSink(receiver+`
k8s_leader_elector: k8s_leader_elector
standby: {progress: default/watchlist-progress}
`, sink, "sending_queue: {enabled: false}\nretry_on_failure: {enabled: false}", `
extensions:
  k8s_leader_elector: `+extension+`
service:
  extensions: [k8s_leader_elector]
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [otlp_grpc]}
  telemetry:
    logs: {level: debug}
    metrics: {level: none}
`)
}

// Contrib's extension elects the leader. After an orderly stop it does not release its Lease, so that the others wait until it
// ends. Nothing is lost, and only what was accepted since the last publication before a kill is repeated.
func TestTakeoverByExtension(t *testing.T) {
	t.Parallel()
	x := startTakeovers(t, 2, kind{extension: true})
	old := x.leader()
	old.stop(t)
	now, took := x.next(old)
	t.Logf("%s leads %s after %s was stopped", now.name, took.Round(time.Millisecond), old.name)
	x.add()
	x.awaitReady()
	report(t, "records were repeated after an orderly stop", x.repeated())

	now.kill(t)
	last, took := x.next(now)
	t.Logf("%s leads %s after %s was killed", last.name, took.Round(time.Millisecond), now.name)
	repeated := x.finish()
	t.Logf("%d of %d records are repeated", len(repeated), len(x.objects()))
	requireNothingRecovered(t, x.records())
}
