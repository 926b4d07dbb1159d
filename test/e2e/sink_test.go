package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// toSink returns the configuration of a Collector that sends records to an OTLP server. Without other components in
// between, the receiver gets the server's verdicts.
func toSink(receiver string, sink *harness.Sink, exporter, rest string) string {
	return `
receivers:
  k8s_watchlist:
` + indent(receiver) + `
exporters:
  otlp_grpc:
    endpoint: ` + sink.Address() + `
    tls: {insecure: true}
    compression: none
    timeout: 30s
` + indent(exporter) + rest
}

// stored keeps checkpoints in a folder, without an exporter's queue between receiver and sink.
func stored(receiver string, sink *harness.Sink, folder string) string {
	return toSink(receiver+"\nstorage: file_storage", sink, "sending_queue: {enabled: false}\nretry_on_failure: {enabled: false}", `
extensions:
  file_storage:
    directory: `+folder+`
service:
  extensions: [file_storage]
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [otlp_grpc]}
  telemetry:
    metrics: {level: none}
`)
}

// The exporter's queue holds more than the limit allows, so that memory_limiter refuses the receiver's records. The
// receiver waits, and nothing is lost.
func TestMemoryLimiterRefusesInFrontOfASlowOTLPSink(t *testing.T) {
	t.Parallel()
	const pods, refusals, bound = 8000, 5, 400 << 20
	c := harness.StartCluster(t, controlplane.Options{})
	etcd := harness.ConnectEtcd(t, c)
	etcd.PlantPods(t, c, "large", pods, harness.LargePod)
	truth := etcd.Watch(t, "/registry/pods/")
	sink := harness.StartSink(t)
	sink.Slow(2 * time.Second)
	metrics := harness.FreeAddress(t)
	collector := harness.StartCollector(t, toSink(kubeconfig(c.Kubeconfig())+"resources: [{name: pods}]", sink,
		"sending_queue: {num_consumers: 1, queue_size: 100000}\nretry_on_failure: {max_elapsed_time: 0}", `
processors:
  memory_limiter: {check_interval: 100ms, limit_mib: 160, spike_limit_mib: 40}
service:
  pipelines:
    logs: {receivers: [k8s_watchlist], processors: [memory_limiter], exporters: [otlp_grpc]}
  telemetry:
    metrics: `+otelcol.PullMetrics(metrics)+`
`))
	var refused, retried float64
	harness.Poll(t, 2*catchUp, "memory_limiter to refuse", func() string {
		scraped, err := otelcol.ReadMetrics(t.Context(), metrics)
		if err != nil {
			return err.Error() // not started yet
		}
		refused = scraped.Sum("otelcol_processor_memory_limiter_refused_log_records")
		retried = scraped.Sum("otelcol_k8s_watchlist_consumer_retries")
		if retried < refusals {
			return fmt.Sprintf("it refused %.0f records in %.0f tries", refused, retried)
		}
		return ""
	})
	harness.NewWriter(t, c).Write(t, harness.Times(200))
	sink.Slow(20 * time.Millisecond)

	listed := c.List(t, harness.Pods)
	sink.Records.AwaitFold(t, "pods", listed.State, 3*catchUp)
	usage := harness.UsageOf(t, collector.PID())
	records := sink.Records.All()
	from := sink.Records.AwaitSnapshot(t, "pods", 0)
	requireOnceAndInOrder(t, harness.Objects(records, "pods"))
	report(t, "events of etcd were lost silently", harness.NotAccountedFor(t, truth.Between(t, from, listed.ResourceVersion), records, "pods"))
	t.Logf("%d pods of %d bytes, %.0f records refused in %.0f tries while a request took the sink two seconds, peak RSS %.1f MB",
		len(listed.State), servedBytes(t, c, "large-template"), refused, retried, float64(usage.PeakResident)/1e6)
	if usage.PeakResident > bound {
		t.Errorf("peak RSS is %d bytes, more than %d", usage.PeakResident, bound)
	}
}

// Nothing is repeated, and the changes of the downtime are emitted at once. The time is printed; it is a second on an
// idle machine, and the required limit is generous.
func TestRestartWithCheckpointOn20000Pods(t *testing.T) {
	t.Parallel()
	const pods, limit = 20000, 10 * time.Second
	c := harness.StartCluster(t, controlplane.Options{})
	harness.ConnectEtcd(t, c).PlantPods(t, c, "kept", pods, harness.SmallPod)
	sink := harness.StartSink(t)
	config := stored(kubeconfig(c.Kubeconfig())+"resources: [{name: pods}]", sink, t.TempDir())
	first := harness.StartCollector(t, config)
	sink.Records.AwaitSnapshot(t, "pods", 2*catchUp)
	listed := c.List(t, harness.Pods).State
	sink.Records.AwaitFold(t, "pods", listed, catchUp)
	first.Interrupt(t)

	mark := sink.Records.Len()
	c.CreatePods(t, "down", 1, harness.SmallPod)
	began := time.Now()
	second := harness.StartCollector(t, config)
	sink.Records.AwaitObject(t, "pods", "down-00000", "ADDED", catchUp)
	took := time.Since(began)
	c.CreatePods(t, "after", 1, harness.SmallPod)
	sink.Records.AwaitObject(t, "pods", "after-00000", "ADDED", catchUp)
	second.Interrupt(t)

	t.Logf("%d objects: the changes of the downtime reached the sink %s after the start of the process", len(listed), took.Round(time.Millisecond))
	if took > limit {
		t.Errorf("it took %s", took)
	}
	if came := sink.Records.After(mark); len(came) != 2 {
		t.Errorf("%d records arrived after the restart, want the two of new pods, and no repetition", len(came))
	}
}

// Nothing is lost, and only the last records before the kill, which no checkpoint covers yet, are repeated.
func TestKillDuringHeavyChange(t *testing.T) {
	t.Parallel()
	const kills, between = 4, 800
	// A checkpoint waits for a second or for 1000 changes, with a batch in flight in the meantime.
	const mostRepeated = 1000 + 2*500
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "first", 200, harness.SmallPod)
	truth := harness.ConnectEtcd(t, c).Watch(t, "/registry/pods/")
	sink := harness.StartSink(t)
	config := stored(kubeconfig(c.Kubeconfig())+"resources: [{name: pods}]", sink, t.TempDir())
	collector := harness.StartCollector(t, config)
	from := sink.Records.AwaitSnapshot(t, "pods", catchUp)

	writer := harness.NewWriter(t, c)
	var changes atomic.Int64
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		writer.Write(t, func(o harness.Operations) bool {
			changes.Store(int64(o.Total()))
			return o.Total() >= between*(kills+1)
		})
	})
	var ends []int // of the records of each process
	for kill := range kills {
		mark := sink.Records.Len()
		harness.Poll(t, 2*catchUp, "changes to be made and delivered", func() string {
			made, delivered := changes.Load(), sink.Records.Len()-mark
			if made < int64(between*(kill+1)) || delivered < between/4 {
				return fmt.Sprintf("%d were made, %d records delivered since the last kill", made, delivered)
			}
			return ""
		})
		collector.Kill(t)
		ends = append(ends, sink.Records.Len())
		collector = harness.StartCollector(t, config)
	}
	writing.Wait()
	listed := c.List(t, harness.Pods)
	sink.Records.AwaitFold(t, "pods", listed.State, catchUp)
	collector.Interrupt(t)

	records := sink.Records.All()
	objects := harness.Objects(records, "pods")
	report(t, "events of etcd were not emitted", harness.NotEmitted(truth.Between(t, from, listed.ResourceVersion), objects))
	requireNothingRecovered(t, records)
	again := requireRepeatedSuffixes(t, records, ends, mostRepeated)
	t.Logf("%d kills during %d changes: %d records, repeated after each kill: %v", kills, changes.Load(), len(objects), again)
}

// requireRepeatedSuffixes requires that the records repeated after each end of a process are the last ones before it,
// and no more than allowed, and that all others are in order. It returns how many records were repeated after each end.
func requireRepeatedSuffixes(t *testing.T, records []harness.Record, ends []int, most int) []int {
	t.Helper()
	first := map[string]int{} // place by identity
	var inOrder []fold.Record
	repeated := make([]int, len(ends))
	oldest := make([]int, len(ends)) // first place of the oldest repeated record
	life := 0
	for i, record := range records {
		for life < len(ends) && i >= ends[life] {
			life++
		}
		if record.Object == nil {
			continue
		}
		identity := strings.Join([]string{record.Object.UID, record.Object.ResourceVersion, record.Object.Type}, " ")
		place, ok := first[identity]
		if !ok {
			first[identity] = i
			inOrder = append(inOrder, *record.Object)
			continue
		}
		if life == 0 || place >= ends[life-1] {
			t.Errorf("repeated within one process: %s", record)
			continue
		}
		if repeated[life-1] == 0 {
			oldest[life-1] = place
		}
		oldest[life-1] = min(oldest[life-1], place)
		repeated[life-1]++
	}
	report(t, "records are out of order", fold.Disorder(inOrder))
	for i, n := range repeated {
		if n == 0 {
			continue
		}
		if last := ends[i] - oldest[i]; n != last || n > most {
			t.Errorf("after kill %d there were %d repeated records, of the last %d before it; at most %d are allowed", i+1, n, last, most)
		}
	}
	return repeated
}
