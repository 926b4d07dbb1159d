package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

const (
	// quietTimeout is how long the Collector may take to emit everything once the faults are over: it may pause for 45
	// s after repeated refusals, and detects a dead connection after 150 s at the latest.
	quietTimeout = 4 * time.Minute
	// relistTimeout is how long a relist of a rarely changed resource may take.
	relistTimeout = 3 * time.Minute
	startTimeout  = 2 * time.Minute
	progressEvery = 10 * time.Second
	eventTTL      = "1m0s" // so that Events expire during the run
)

// run is one seed's run.
type run struct {
	t        *testing.T
	seed     uint64
	settings Settings

	cluster *harness.Cluster
	etcd    *harness.Etcd
	truths  map[*objects]*harness.Truth
	proxy   *harness.Proxy // in front of the front, or of the API server itself
	front   *harness.Front
	sink    *Sink
	writer  *Writer

	random   *rand.Rand // for choices outside the schedule
	wording  wording
	spoilers *spoilers
	spoiling map[Kind]int // current faults in which the front disturbs streams

	needFront  int  // how many current faults need the front
	viaFront   bool // the proxy forwards to the front
	clusterUID bool // the Collector may know it

	*member    // the Collector that faults concern: the only one, or of several the one that last led
	members    []*member
	lives      []Life               // of all
	processes  []*harness.Collector // by life
	isolations []isolation
	progress   *harness.Publications // of several replicas
	beside     []beside              // faults that continue during others
	caused     []Cause
	restores   []Restore
	rescoped   []time.Time
	edits      int
	moves      int // number of moves of the custom resource's version
	faults     int
	began      time.Time
	result     *Result
}

// Result is the result of one seed's run.
type Result struct {
	Seed       uint64
	Failed     bool
	Operations int
	Done       map[string]int // counts of faults and other disturbances
	Relists    int
	Refused    int // records that the sink refused permanently
	Resumes    int
	Pauses     int
	Duplicates int // dropped by the Collector as already emitted
	Dropped    int // records dropped by the Collector
	PeakRSS    int64
	Wall       time.Duration
	Quiet      time.Duration // from the end of the faults until everything was emitted
	Objects    int
	Terms      int // in which one of several replicas led
	Verdict    Verdict
}

// Run runs one seed: faults for the duration, then the checks. The result is filled even if the test fails.
func Run(t *testing.T, seed uint64, duration time.Duration, replicas int, result *Result, only ...Kind) {
	settings, faults := Draw(seed, duration, replicas, only...)
	*result = Result{Seed: seed, Done: map[string]int{}}
	r := &run{
		t: t, seed: seed, settings: settings, began: time.Now(), result: result,
		random: rand.New(rand.NewPCG(seed, 0xFA117)), spoilers: newSpoilers(seed), spoiling: map[Kind]int{},
	}
	defer func() {
		result.Failed = t.Failed()
		result.Wall = time.Since(r.began)
	}()
	t.Logf("seed %d: %s", seed, settings)
	var schedule strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&schedule, "\n  %s", f)
	}
	t.Logf("seed %d: %d faults on schedule:%s", seed, len(faults), schedule.String())

	r.setUp()
	r.writer.Start(t)
	started := time.Now()
	for _, f := range faults {
		if r.isReplicated() && time.Since(started) > duration {
			break // takeovers took long
		}
		r.waitUntil(started.Add(f.At))
		r.say("%s", strings.TrimSpace(f.String()))
		r.inflict(f)
		r.faults++
		r.result.Done[string(f.Kind)]++
	}
	r.waitUntil(started.Add(duration))
	r.endBeside(func(beside) bool { return true })
	r.writer.Stop()
	r.say("faults are over")
	r.settle()
}

func (r *run) setUp() {
	t := r.t
	r.cluster = harness.StartCluster(t, controlplane.Options{APIServerArgs: []string{"--event-ttl=" + eventTTL}})
	r.createNamespaces()
	for _, o := range all {
		o.moved.Store(nil)
	}
	if _, err := r.cluster.Dynamic.Resource(definitions).Create(t.Context(), definition(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Poll(t, startTimeout, "the custom resource to be served", func() string {
		if _, err := r.cluster.Dynamic.Resource(gadgets).List(t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	r.etcd = harness.ConnectEtcd(t, r.cluster)
	r.truths = map[*objects]*harness.Truth{}
	for _, o := range all {
		r.truths[o] = r.etcd.Watch(t, o.prefix)
	}
	if r.isReplicated() {
		r.progress = r.etcd.WatchPublications(t, namespace, leaseName+"-progress")
	}
	r.writer = NewWriter(r.cluster, r.seed, r.settings.OperationRate)
	r.writer.Fill(t)

	r.proxy = harness.StartProxy(t, r.cluster.Address())
	r.front = harness.StartFront(t, r.cluster)
	r.sink = StartSink(t, r.isReplicated())
	r.addMembers()

	// The Collector is killed once while it emits the initial state, whose streams are cut at random.
	over := r.causes(InitialCuts)
	r.throughFront(true)
	r.spoil(InitialCuts, true)
	for _, m := range r.members {
		r.member = m
		r.startCollector()
	}
	harness.Poll(t, startTimeout, "the first records", func() string {
		r.check()
		if batches, _ := r.sink.Stored(); batches == 0 {
			return "none have arrived"
		}
		return ""
	})
	r.killCollector()
	r.spoil(InitialCuts, false)
	r.throughFront(false)
	over()
	r.say("killed while it emits the initial state, with %d streams cut", r.front.Count("cut"))
	r.startCollector()
	harness.Poll(t, startTimeout, "the initial state of all resources", func() string {
		r.check()
		ended, readers := map[string]bool{}, 0
		for _, batch := range r.sink.Batches() {
			for _, record := range batch.Records {
				if record.Event == "k8s.snapshot.end" {
					ended[record.Resource+" "+streamText(record, "k8s.namespace.name")] = true
				}
			}
		}
		for _, o := range all {
			readers += len(r.wording.scopes(o))
		}
		if len(ended) < readers {
			return fmt.Sprintf("complete are %v", ended)
		}
		return ""
	})
	r.say("the initial state is complete")
}

func (r *run) startCollector() {
	r.lives = append(r.lives, Life{Number: len(r.lives) + 1})
	r.member.life = len(r.lives)
	r.collector = harness.StartCollector(r.t, r.configuration(r.member), "--feature-gates="+harness.ShortRelistGate)
	r.processes = append(r.processes, r.collector)
	r.down = false
	if r.member.diskFull {
		r.life().Unwritten = time.Now()
		if err := harness.LimitFileSize(r.collector.PID(), 0); err != nil {
			r.t.Fatal(err)
		}
	}
}

// life returns the Collector's last life.
func (r *run) life() *Life { return &r.lives[r.member.life-1] }

func (r *run) killCollector() {
	r.toLeader()
	r.killMember()
}

func (r *run) killMember() {
	r.account()
	r.collector.Kill(r.t)
	r.ended(true)
	r.result.Done["kill -9 of the collector"]++
}

func (r *run) stopCollector() {
	r.toLeader()
	r.stopMember()
}

func (r *run) stopMember() {
	r.account()
	r.collector.Interrupt(r.t)
	r.ended(false)
	r.result.Done["orderly stops"]++
}

func (r *run) ended(killed bool) {
	life := r.life()
	life.Ended, life.Killed = time.Now(), killed
	r.down = true
}

// account adds the Collector's own metrics to the result, before it ends.
func (r *run) account() {
	r.result.PeakRSS = max(r.result.PeakRSS, harness.UsageOf(r.t, r.collector.PID()).PeakResident)
	scraped, err := otelcol.ReadMetrics(r.t.Context(), r.metrics)
	if err != nil {
		return // it has only just started
	}
	r.result.Relists += int(scraped.Sum("otelcol_k8s_watchlist_relists", "outcome", "complete"))
	r.result.Resumes += int(scraped.Sum("otelcol_k8s_watchlist_streams_opened", "kind", "resume"))
	r.result.Pauses += int(scraped.Sum("otelcol_k8s_watchlist_paused"))
	r.result.Duplicates += int(scraped.Sum("otelcol_k8s_watchlist_duplicates_dropped"))
	r.result.Dropped += int(scraped.Sum("otelcol_k8s_watchlist_records_dropped"))
}

// waitUntil waits, and logs the progress from time to time.
func (r *run) waitUntil(at time.Time) {
	for {
		r.check()
		r.endBeside(func(b beside) bool { return time.Now().After(b.until) })
		wait := time.Until(at)
		if wait <= 0 {
			return
		}
		select {
		case <-time.After(min(wait, r.untilBeside(), progressEvery)):
		case <-r.t.Context().Done():
			r.t.FailNow()
		}
		if wait > progressEvery {
			r.say("")
		}
	}
}

// check ends the run if something happened that no fault explains.
func (r *run) check() {
	r.t.Helper()
	for _, m := range r.members {
		if m.collector != nil && !m.down && !m.collector.Running() {
			r.t.Fatal("the collector has ended unexpectedly")
		}
	}
	if _, _, _, err := r.writer.Counts(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *run) say(format string, args ...any) {
	r.t.Helper()
	_, operations, failed, _ := r.writer.Counts()
	batches, records := r.sink.Stored()
	r.t.Logf("[seed %d %5.1fs] %d operations (%d failed), %d records in %d batches, %d faults, life %d  %s", r.seed,
		time.Since(r.began).Seconds(), operations, failed, records, batches, r.faults, len(r.lives), fmt.Sprintf(format, args...))
}

func (r *run) allTruths() []*harness.Truth {
	var truths []*harness.Truth
	for _, truth := range r.truths {
		truths = append(truths, truth)
	}
	if r.isReplicated() {
		truths = append(truths, r.progress.Truth)
	}
	return truths
}

func (r *run) compact() {
	r.etcd.CompactBehind(r.t, r.allTruths()...)
	r.result.Done["compactions"]++
}

func (r *run) editDefinition() {
	r.edits++
	patch, err := json.Marshal(edit(r.edits))
	if err != nil {
		r.t.Fatal(err)
	}
	r.patchDefinition(patch)
	r.result.Done["CRD edits"]++
}

func (r *run) patchDefinition(patch []byte) {
	harness.Poll(r.t, startTimeout, "the CRD to be edited", func() string {
		ctx, cancel := context.WithTimeout(r.t.Context(), operationTimeout)
		defer cancel()
		_, err := r.cluster.Dynamic.Resource(definitions).Patch(ctx, gadgets.GroupResource().String(), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// moveVersion makes the API server serve another version of the custom resource: first both, then only the new one.
func (r *run) moveVersion(f Fault) {
	r.define(versions(r.moves, true))
	moved := versionAfter(r.moves + 1)
	gadget := objectsOf(gadgets.GroupResource().String())
	harness.Poll(r.t, startTimeout, "the new version to be served", func() string {
		next := gadget.resource
		next.Version = moved
		if _, err := r.cluster.Dynamic.Resource(next).List(r.t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
			return err.Error()
		}
		return ""
	})
	r.waitUntil(time.Now().Add(f.Hold / 2))
	gadget.moved.Store(&moved) // the writer has already moved
	r.at(f.Also)
	r.waitUntil(time.Now().Add(f.Hold / 2))
	r.moves++
	r.define(versions(r.moves, false))
	r.result.Done["moves of the version"]++
	r.say("only %s is served", moved)
}

// define replaces the versions of the CRD.
func (r *run) define(versions []any) {
	patch, err := json.Marshal(object{"spec": object{"versions": versions}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.patchDefinition(patch)
}

// settle waits until everything is emitted, and checks all promises.
func (r *run) settle() {
	t, over := r.t, time.Now()
	defer r.logHistory()
	before, quiet := r.awaitQuiet("everything to be emitted")
	r.result.Quiet = time.Since(over)
	quietRecords := 0 // number of records when everything was emitted
	if quiet {
		r.say("everything is emitted %s after the faults", r.result.Quiet.Round(time.Second))
		r.toLeader()
		r.awaitRelists() // every reader is healthy again
		r.awaitQuiet("the changes in the meantime to be emitted")
		_, quietRecords = r.sink.Stored()
		r.awaitRelists()
		before, quiet = r.awaitQuiet("the last changes to be emitted")
	}
	r.stopAll()
	for what, counted := range map[string]string{
		"404 pages answered": "pages", "first answers delayed": "late", "idle streams ended": "idle",
		"lagging streams": "lagging", "initial streams ended": "cut",
	} {
		r.result.Done[what] = r.front.Count(counted)
	}
	r.say("the collector has ended, checking the evidence")
	r.result.Verdict = r.judge(before, r.list())
	findings := r.result.Verdict.Findings()
	if quiet {
		findings = append(findings, r.foundAfter(quietRecords)...)
	}
	if r.result.Verdict.Suppressed == 0 {
		findings = append(findings, "every modification was emitted, also those that change nothing")
	}
	for _, finding := range findings {
		t.Errorf("seed %d: %s", r.seed, finding)
	}
	for _, finding := range r.secondLeaders() {
		t.Errorf("seed %d: %s", r.seed, finding)
	}
	if found := r.inventoryDifferences(before); len(found) > 0 {
		t.Errorf("seed %d: %d differences between inventory and LIST, among them: %q", r.seed, len(found), found[:min(len(found), 5)])
	}
	if r.result.Dropped > r.result.Refused {
		t.Errorf("seed %d: the collector has dropped %d records, of which %d were refused permanently", r.seed, r.result.Dropped, r.result.Refused)
	}
	counts, operations, failed, _ := r.writer.Counts()
	t.Logf("seed %d: %d operations: %s; %d failed", r.seed, operations, summarize(counts), failed)
	t.Logf("seed %d: disturbances: %s", r.seed, summarize(r.result.Done))
	r.result.Operations = operations
}

// inventoryDifferences returns how the stored state of the readers differs from what the API server holds.
func (r *run) inventoryDifferences(before map[schema.GroupVersionResource]harness.Listing) []string {
	if r.storage == "" {
		return nil
	}
	var scopes []scope.Scope
	for _, o := range all {
		scopes = append(scopes, r.wording.scopes(o)...)
	}
	stored := r.cluster.StoredScopes(r.t, r.storage, r.knownUID(), scopes...)
	var found []string
	for _, o := range all {
		state := fold.State{}
		for _, of := range r.wording.scopes(o) {
			maps.Copy(state, stored[of].State)
		}
		for _, difference := range harness.DifferencesFromEither(state, before[o.resource].State, r.cluster.List(r.t, o.served()).State, nil) {
			found = append(found, fmt.Sprintf("inventory of %s: %s", harness.Name(o.resource), difference))
		}
	}
	return found
}

// logHistory logs, if the run has failed, everything known of a few objects that differ from the API server's.
func (r *run) logHistory() {
	if !r.t.Failed() {
		return
	}
	const objects = 5
	logged := 0
	for _, o := range all {
		name := harness.Name(o.resource)
		if uncached(name) {
			continue // Events expire in the meantime
		}
		for _, difference := range r.sink.Differences(name, r.lives, r.cluster.List(r.t, o.served()).State, r.same(o)) {
			if logged++; logged > objects {
				return
			}
			r.t.Logf("seed %d: %s\n%s", r.seed, difference, r.historyOf(o, difference))
		}
	}
}

// historyOf returns what etcd and the sink know of the object whose UID is in the text.
func (r *run) historyOf(o *objects, text string) string {
	var b strings.Builder
	for _, event := range r.truths[o].All() {
		if event.UID != "" && strings.Contains(text, event.UID) {
			fmt.Fprintf(&b, "  etcd: %s@%d %s\n", event.Type, event.Revision, event.Key)
		}
	}
	for _, batch := range r.sink.Batches() {
		for _, record := range batch.Records {
			switch {
			case record.Resource != harness.Name(o.resource):
			case record.Object == nil:
				fmt.Fprintf(&b, "  sink, %s, life %d: %s\n", batch.At.Format(clock), batch.Life, record)
			case strings.Contains(text, record.Object.UID):
				fmt.Fprintf(&b, "  sink, %s, life %d: %s %s\n", batch.At.Format(clock), batch.Life, record, batch.Doubt)
			}
		}
	}
	for _, life := range r.lives {
		fmt.Fprintf(&b, "  life %d ended at %s, killed: %t\n", life.Number, life.Ended.Format(clock), life.Killed)
	}
	return b.String()
}

func (r *run) list() map[schema.GroupVersionResource]harness.Listing {
	listed := map[schema.GroupVersionResource]harness.Listing{}
	for _, o := range all {
		listed[o.resource] = r.cluster.List(r.t, o.served())
	}
	return listed
}

// same compares the contents of two versions of an object, as etcd had them.
func (r *run) same(o *objects) fold.Same {
	contents := sync.OnceValue(r.truths[o].Contents)
	return func(uid, one, other string) bool { return contents().Same(uid, one, other) }
}

// awaitQuiet waits until the fold of the records of every resource equals what the API server holds. It returns the
// listings, and whether they are equal.
func (r *run) awaitQuiet(what string) (map[schema.GroupVersionResource]harness.Listing, bool) {
	r.t.Helper()
	began, logged, differ := time.Now(), time.Now(), false
	for {
		r.check()
		if differ { // to avoid repeated lists of unchanged state
			r.sink.AwaitStored(r.t.Context(), time.Second)
		}
		listed := map[schema.GroupVersionResource]harness.Listing{}
		var found []string
		for _, o := range all {
			listed[o.resource] = r.cluster.List(r.t, o.served())
			found = append(found, r.sink.Differences(harness.Name(o.resource), r.lives, listed[o.resource].State, r.same(o))...)
		}
		if differ = len(found) > 0; !differ {
			return listed, true
		}
		still := fmt.Sprintf("%d differences, among them %q", len(found), found[:min(len(found), 3)])
		if time.Since(began) > quietTimeout {
			r.t.Errorf("seed %d: waited %s for %s: %s", r.seed, quietTimeout, what, still)
			return listed, false
		}
		if time.Since(logged) > progressEvery {
			logged = time.Now()
			r.say("waiting for %s: %s", what, still)
		}
	}
}

// awaitRelists waits until every resource has a complete relist that began after everything was emitted. A relist waits
// for the live stream to pass its version, so a few changes are made.
func (r *run) awaitRelists() {
	const relists = "otelcol_k8s_watchlist_relists"
	count := func() (map[*objects]float64, error) {
		scraped, err := otelcol.ReadMetrics(r.t.Context(), r.metrics)
		if err != nil {
			return nil, err
		}
		counts := map[*objects]float64{}
		for _, o := range all {
			counts[o] = scraped.Sum(relists, "outcome", "complete", "resource", o.resource.Resource, "group", o.resource.Group)
		}
		return counts, nil
	}
	var before map[*objects]float64
	round, touched := 0, time.Time{}
	harness.Poll(r.t, relistTimeout, "a relist of every resource", func() string {
		now, err := count()
		if err != nil {
			return err.Error()
		}
		if before == nil {
			before = now
		}
		var missing []string
		for _, o := range all {
			if now[o] < before[o]+2*float64(len(r.wording.scopes(o))) { // the first of them may have begun earlier
				missing = append(missing, o.resource.Resource)
			}
		}
		if len(missing) == 0 {
			return ""
		}
		if time.Since(touched) > 2*time.Second {
			touched = time.Now()
			round++
			r.writer.Touch(r.t.Context(), round)
		}
		return "none yet of " + strings.Join(missing, ", ")
	})
}

// judge checks the evidence: everything up to the first listings must have been emitted. Changes up to the second ones
// may or may not have been.
func (r *run) judge(before, listed map[schema.GroupVersionResource]harness.Listing) Verdict {
	sum := Verdict{Gaps: map[string]int{}}
	denied, refused := r.sink.deniedVersions(), r.sink.Refused()
	lives, batches := r.lives, r.sink.Batches()
	var published []harness.Publication
	if r.isReplicated() {
		lives, batches = r.terms()
		published = r.progress.All(r.t)
		for _, finding := range r.unpublished(published) {
			r.t.Errorf("seed %d: %s", r.seed, finding)
		}
	}
	for _, o := range all {
		name := harness.Name(o.resource)
		e := Evidence{
			Resource: name, Prefix: o.prefix, Lives: lives, Batches: batches, Replicas: r.isReplicated(),
			Events: r.truths[o].Between(r.t, "0", listed[o.resource].ResourceVersion), Until: number(before[o.resource].ResourceVersion),
			Listed: listed[o.resource].State, Before: before[o.resource].State,
			Published: r.published(published, o), Causes: r.caused, Restores: r.restores, Denied: denied, DeniedGaps: r.sink.deniedGaps(name), DeniedSets: r.sink.deniedSets(name), Refused: refused[name],
		}
		if rescopes(name) {
			e.Rescoped = r.rescoped
		}
		v := Judge(e)
		for _, story := range v.Stories(e) {
			r.t.Logf("seed %d: %s: %s", r.seed, name, story)
		}
		r.result.Refused += refused[name]
		r.t.Logf("seed %d: %-36s %6d revisions, %6d records, %5d in gaps %v, %5d suppressed, duplicates: %5d after a kill, %4d of unknown batches, %4d after a restore, %4d deleted again, %4d reordered after a kill, oldest %s, %4d stored late, %4d emitted again after a takeover, %4d refused permanently, %d unknowable after a crash with a full disk, %4d objects",
			r.seed, name, v.Revisions, v.Records, v.InGaps, v.Gaps, v.Suppressed, v.DuplicatesAfterKill, v.DuplicatesOfUnknown, v.AfterRestore, v.DeletedAgain, v.ReorderedAfterKill, v.OldestRepeat.Round(time.Millisecond), v.Late, v.Restated, refused[name], v.Unstored, len(listed[o.resource].State))
		r.result.Objects += len(listed[o.resource].State)
		sum.add(v)
	}
	return sum
}

// foundAfter returns the records after the first quiet ones that did not come from a watch.
func (r *run) foundAfter(quiet int) []string {
	var found []string
	n := 0
	for _, batch := range r.sink.Batches() {
		for _, record := range batch.Records {
			if n++; n > quiet && (record.Object == nil || record.Object.Origin != "live") {
				found = append(found, "a relist has found something after everything was emitted: "+record.String())
			}
		}
	}
	return found
}

func (v *Verdict) add(o Verdict) {
	v.Revisions += o.Revisions
	v.Earlier += o.Earlier
	v.Records += o.Records
	v.InGaps += o.InGaps
	v.Suppressed += o.Suppressed
	v.DuplicatesAfterKill += o.DuplicatesAfterKill
	v.DuplicatesOfUnknown += o.DuplicatesOfUnknown
	v.DeletedAgain += o.DeletedAgain
	v.OldestRepeat = max(v.OldestRepeat, o.OldestRepeat)
	v.ReorderedAfterKill += o.ReorderedAfterKill
	v.AfterRestore += o.AfterRestore
	v.Denied += o.Denied
	v.Initial += o.Initial
	v.Unstored += o.Unstored
	v.Late += o.Late
	v.Restated += o.Restated
	for reason, n := range o.Gaps {
		v.Gaps[reason] += n
	}
	v.Unexplained = append(v.Unexplained, o.Unexplained...)
	v.FalseGaps = append(v.FalseGaps, o.FalseGaps...)
	v.Lost = append(v.Lost, o.Lost...)
	v.Invented = append(v.Invented, o.Invented...)
	v.Disorder = append(v.Disorder, o.Disorder...)
	v.Retreats = append(v.Retreats, o.Retreats...)
	v.Differences = append(v.Differences, o.Differences...)
}
