package watchlist_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/tools/txtar"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/cut"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/pipenet"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// TestScenarios plays the transcripts in testdata/scenarios. Each is a txtar archive with the configuration of the
// reader, the actions of the server (see scriptedServer), and the changes that must be emitted. Reader, HTTP client and
// server are real, connected by pipes, in virtual time.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) {
				queue := playScenario(t, archive)
				if *update {
					updateScenario(t, file, archive, queue.transcript())
				}
			})
		})
	}
}

var update = flag.Bool("update", false, "write the emitted changes to the want sections of testdata/scenarios")

// updateScenario writes the emitted changes to the scenario's section "want", if they differ.
func updateScenario(t *testing.T, file string, archive *txtar.Archive, changes []string) {
	for i := range archive.Files {
		section := &archive.Files[i]
		if section.Name == "want" && !assert.ObjectsAreEqual(trimLines(string(section.Data)), changes) {
			section.Data = []byte(strings.Join(append(changes, ""), "\n"))
			require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
		}
	}
}

// Each restart of an API server cuts the stream and discards the history.
func TestServerRestartedTwentyTimes(t *testing.T) {
	server := "snapshot\n ADDED a@5\n MARKER 5\n wait 30s\n reset\n"
	want := "BEGIN initial\nSNAPSHOT initial a@5\nEND initial 1 objects at 5\n"
	for rv := 5; rv < 45; rv += 2 {
		server += fmt.Sprintf("watch rv=%d\n ERROR 410 Expired too old\n", rv)
		server += fmt.Sprintf("snapshot rv=%d\n ADDED a@%d\n MARKER %d\n wait 30s\n reset\n", rv, rv+1, rv+2)
		want += fmt.Sprintf("MODIFIED recovered a@%d\nGAP expired %d..%d +0 ~1 -0\n", rv+1, rv, rv+2)
	}
	server += "watch rv=45\n"
	synctest.Test(t, func(t *testing.T) {
		playScenario(t, &txtar.Archive{Files: []txtar.File{
			{Name: "config", Data: []byte("run: 30m\n")},
			{Name: "server", Data: []byte(server)},
			{Name: "want", Data: []byte(want)},
			{Name: "server-holds", Data: []byte("a@44")},
		}})
	})
}

// A jumping wall clock affects neither timers nor versions; records have the time that it shows.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		archive, err := txtar.ParseFile("testdata/scenarios/relist-overlap.txtar")
		require.NoError(t, err)
		began := time.Now()
		jumpingClock = func() time.Time {
			since := time.Since(began)
			if since > time.Minute {
				return began.Add(since - 48*time.Hour)
			}
			return began.Add(since)
		}
		defer func() { jumpingClock = nil }()
		playScenario(t, archive)
	})
}

// jumpingClock replaces the wall clock of the scenarios, if set.
var jumpingClock func() time.Time

// scenario is the configuration of a transcript, from its file "config" with lines of "key: value".
type scenario struct {
	options watchlist.Options
	runFor  time.Duration
	room    int           // records that the queue holds
	blocked time.Duration // the consumer is blocked until then
	down    time.Duration // the server refuses connections until then
	gone    [2]time.Duration
	storage bool
	cluster checkpoint.Cluster // its known identity
	broken  time.Duration      // the storage fails until then
	// firstShard is the shard until the first restart; nil is the same as later.
	firstShard *shard.Shard
	first      string // the namespaces read until the first restart, see scopeOf; "" is the same as later
	listOnly   bool
	drops      []string // changes that the consumer refuses permanently, once each
	qps        float32  // requests per second that the client may send
	restarts   []restart
	selected   []selected
	takeover   *checkpoint.Handover // from where the reader after the first restart continues
}

// selected are the namespaces whose labels match from a time on.
type selected struct {
	from time.Duration
	set  watchlist.SelectedNamespaces
}

// restart stops the reader and starts another on the same storage.
type restart struct {
	at    time.Duration
	until time.Duration
	crash bool // unwritten changes are lost
}

func playScenario(t *testing.T, archive *txtar.Archive) *recordingQueue {
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	s := readScenarioConfig(t, files["config"])
	began := time.Now()

	network := pipenet.New()
	network.RefuseUntil = began.Add(s.down)
	script := &scriptedServer{t: t, began: began, expected: parseScript(t, files["server"])}
	stop := network.Serve(script)

	client, err := kubeclient.New(&rest.Config{Host: "http://apiserver", Dial: network.Dial, QPS: s.qps, Burst: int(max(1, s.qps))})
	require.NoError(t, err)

	core, logs := observer.New(zapcore.InfoLevel)
	queue := &recordingQueue{room: s.room, blockedUntil: began.Add(s.blocked), freed: make(chan struct{}, 1), deny: s.drops, showsSections: s.options.SuppressNoop}
	observed := &countingObserver{counts: map[string]int{}}

	o := s.options
	o.Knowledge = watchlist.NewKnowledge(o.Scope.GroupResource, s.listOnly)
	policy := redact.Options{FingerprintKey: []byte("the key of the scenarios")}
	if o.SuppressNoop {
		policy.Ignored = redact.UsuallyIgnored
	}
	o.Plan = redact.NewPolicy(policy).Plan(o.Scope.Group, o.Scope.Resource, nil)
	o.Opener = client
	o.Emitter = queue
	o.SnapshotSlots = watchlist.NewSlots(3)
	o.Now = time.Now
	if jumpingClock != nil {
		o.Now = jumpingClock
	}
	o.Observer = observed
	spans := recordSpans()
	o.StartSpan = spans.start
	o.Logger = zap.New(core)
	o.Served = func(context.Context) (bool, error) {
		since := time.Since(began)
		return since < s.gone[0] || since >= s.gone[1], nil
	}

	extension := memstorage.New()
	if s.broken > 0 {
		extension.Fail(assert.AnError)
		time.AfterFunc(s.broken, func() { extension.Fail(nil) })
	}
	for i, r := range append(s.restarts, restart{at: s.runFor}) {
		if o.Scope = s.options.Scope; i == 0 && s.first != "" {
			o.Scope = scopeOf(o.Scope, s.first)
		}
		if i == 0 && s.firstShard != nil {
			o.Scope = o.Scope.Of(*s.firstShard)
		}
		for _, now := range s.selected {
			if time.Since(began) >= now.from {
				o.Selected = now.set
			}
		}
		var handover *checkpoint.Handover
		if i == 1 {
			handover = s.takeover
		}
		runReader(t, o, queue, s, handover, extension, began, began.Add(r.at), r.crash, zap.New(core))
		time.Sleep(max(0, time.Until(began.Add(r.until))))
	}

	client.Close()
	stop()
	synctest.Wait()

	if *update {
		files["want"] = strings.Join(queue.transcript(), "\n")
	}
	assert.Equal(t, trimLines(files["want"]), queue.transcript(), "changes\nrequests:\n%s\nlog:\n%s",
		strings.Join(script.requests, "\n"), logLines(logs))
	assert.Empty(t, script.trouble, "requests: %s", strings.Join(script.requests, "\n"))
	for _, e := range script.expected {
		assert.True(t, e.repeats, "request never came: %s\nall: %s", e.request, strings.Join(script.requests, "\n"))
	}
	records := queue.records()
	if _, crashed := files["repeats-after-crash"]; !crashed {
		assert.Empty(t, fold.Duplicates(records))
	}
	if _, reset := files["history-reset"]; !reset {
		assert.Empty(t, fold.Disorder(records))
	}
	if holds, ok := files["server-holds"]; ok {
		listed, contents := fold.State{}, map[string]string{}
		for _, object := range strings.Fields(holds) {
			name, rv, _ := strings.Cut(object, "@")
			rv, content, _ := strings.Cut(rv, ":")
			listed[scriptUID(name)], contents[scriptUID(name)] = rv, content
		}
		same := func(uid, version, _ string) bool {
			content, _, _ := strings.Cut(contents[uid], "/") // the generation that the controller has seen is ignored
			return o.SuppressNoop && queue.content(uid, version) == content
		}
		assert.Empty(t, fold.Fold(queue.concluded()).DifferencesBut(listed, same), "fold of the changes compared with what the server holds")
	}
	lines := spans.check(t)
	if want, ok := files["want-spans"]; ok {
		first := trimLines(want)
		assert.Equal(t, first, lines[:min(len(first), len(lines))], "spans: %q", lines)
	}
	assertLines(t, "log", files["want-log"], logLines(logs))
	for _, line := range trimLines(files["want-counts"]) {
		if what, least, ok := strings.Cut(line, ": >="); ok {
			n, err := strconv.Atoi(least)
			require.NoError(t, err)
			assert.GreaterOrEqual(t, observed.counts[what], n, what)
			continue
		}
		assert.Contains(t, strings.Split(observed.String(), "\n"), line)
	}
	return queue
}

// scopeOf returns the scope in one namespace, in several of all (as the text of scope.Namespaces), or in "all".
func scopeOf(s scope.Scope, namespaces string) scope.Scope {
	s.Namespace, s.Among = "", ""
	switch {
	case namespaces == "all":
	case strings.ContainsAny(namespaces, "*!,;"):
		s.Among = namespaces
	default:
		s.Namespace = namespaces
	}
	return s
}

// runReader runs a reader until a time, with its checkpoints in the extension. handover is from where it continues the work of
// another process, if it does.
func runReader(t *testing.T, o watchlist.Options, queue *recordingQueue, s scenario, handover *checkpoint.Handover, extension *memstorage.Extension, began, until time.Time, crash bool, logger *zap.Logger) {
	ctx, cancel := context.WithDeadline(t.Context(), until)
	defer cancel()
	queue.endsAt = time.Time{}
	if crash {
		queue.endsAt = until
	}
	choose := func(reader *watchlist.Reader) {
		for _, now := range s.selected {
			if at := time.Until(began.Add(now.from)); at > 0 {
				timer := time.AfterFunc(at, func() { reader.Select(now.set) })
				context.AfterFunc(ctx, func() { timer.Stop() })
			}
		}
	}
	if !s.storage {
		reader := watchlist.NewReader(o)
		choose(reader)
		queue.dropped, queue.acceptedAgain = reader.Dropped, reader.AcceptedAgain
		reader.Run(ctx)
		return
	}
	keeper := checkpoint.NewKeeper(checkpoint.Options{
		Extension: extension, Shard: o.Scope.Shard, Interval: time.Second, MaxChanges: 1000, Cluster: func() checkpoint.Cluster { return s.cluster }, Report: func(string, error) {}, Logger: logger,
		Handover: func(scope.Scope, checkpoint.Own) *checkpoint.Handover { return handover },
	})
	keeper.Start()
	queue.offering, queue.accepted = keeper.BeforeDeliver, keeper.Accepted
	o.Restore = keeper.Restore
	reader := watchlist.NewReader(o)
	choose(reader)
	queue.acceptedAgain = reader.AcceptedAgain
	queue.dropped = func(changes []watchlist.Change) {
		keeper.Dropped(changes)
		reader.Dropped(changes)
	}
	reader.Run(ctx)
	if crash {
		extension.Fail(assert.AnError)
		defer extension.Fail(nil)
	}
	_ = keeper.Shutdown(t.Context())
}

// assertLines checks that each wanted line is a substring of exactly one line ("2x " before it: of two).
func assertLines(t *testing.T, what, want, got string) {
	t.Helper()
	for _, line := range trimLines(want) {
		times := 1
		if n, rest, ok := strings.Cut(line, "x "); ok {
			if count, err := strconv.Atoi(n); err == nil {
				times, line = count, rest
			}
		}
		found := 0
		for _, l := range strings.Split(got, "\n") {
			if strings.Contains(l, line) {
				found++
			}
		}
		assert.Equal(t, times, found, "%s should hold %d lines with %q:\n%s", what, times, line, got)
	}
}

func trimLines(s string) []string {
	lines := []string{}
	for _, line := range strings.Split(s, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func logLines(logs *observer.ObservedLogs) string {
	var b strings.Builder
	for _, entry := range logs.All() {
		fmt.Fprintf(&b, "%s %s %v\n", entry.Level, entry.Message, entry.ContextMap())
	}
	return b.String()
}

func readScenarioConfig(t *testing.T, text string) scenario {
	s := scenario{
		runFor:  5 * time.Minute,
		room:    1 << 30,
		qps:     1000,
		cluster: checkpoint.Cluster{UID: "cluster"},
		options: watchlist.Options{
			Scope: scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}},
			API:   scope.API{Version: "v1", Kind: "Pod", Namespaced: true},
		},
	}
	duration := func(v string) time.Duration {
		d, err := time.ParseDuration(v)
		require.NoError(t, err)
		return d
	}
	for _, line := range trimLines(text) {
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "run":
			s.runFor = duration(value)
		case "relist":
			s.options.RelistInterval = duration(value)
		case "quiet":
			s.options.QuietInterval = duration(value)
		case "rotate":
			s.options.RotateInterval = duration(value)
		case "emit":
			s.options.EmitSnapshots = value == "snapshot"
		case "noop":
			s.options.SuppressNoop = value == "suppress"
		case "list-only":
			s.listOnly = true
		case "resource":
			s.options.Scope.Resource = value
		case "drops":
			s.drops = strings.Fields(value)
		case "room":
			s.room, _ = strconv.Atoi(value)
		case "qps":
			qps, err := strconv.ParseFloat(value, 32)
			require.NoError(t, err)
			s.qps = float32(qps)
		case "consumer-blocked-until":
			s.blocked = duration(value)
		case "server-down-until":
			s.down = duration(value)
		case "storage":
			s.storage = true
		case "cluster": // unknown
			s.cluster = checkpoint.Cluster{Fingerprint: "server"}
		case "storage-fails-until":
			s.broken = duration(value)
		case "selected":
			from, names, _ := strings.Cut(value, " ")
			now := selected{duration(from), watchlist.SelectedNamespaces{}}
			for _, name := range strings.Fields(names) {
				name, version, _ := strings.Cut(name, "@")
				now.set[name] = version
			}
			s.selected = append(s.selected, now)
		case "namespaces":
			s.options.Scope = scopeOf(s.options.Scope, value)
		case "namespaces-before-the-restart":
			s.first = value
		case "exclude":
			for _, name := range strings.Fields(value) {
				for t, n := range typeNames {
					if n == name {
						s.options.Exclude = s.options.Exclude.With(t)
					}
				}
			}
		case "cut-above":
			most, err := strconv.Atoi(value)
			require.NoError(t, err)
			s.options.Fit = func(c *watchlist.Change) { c.Object.JSON, c.Cut = cut.Fit(c.Object.JSON, most, cut.Text) }
		case "initial":
			s.options.SkipInitial = value == "skip"
		case "shard":
			part, by := &s.options.Scope.Shard, ""
			_, _ = fmt.Sscanf(value, "%d of %d by %s", &part.Index, &part.Total, &by)
			require.Positive(t, part.Total)
			if by == "namespace" {
				part.By = shard.Namespace
			}
		case "shard-before-the-restart":
			s.firstShard = new(shard.Shard)
			_, _ = fmt.Sscanf(value, "%d of %d", &s.firstShard.Index, &s.firstShard.Total)
		case "diffs":
			bytes, err := strconv.Atoi(value)
			require.NoError(t, err)
			s.options.Diffs = diff.NewBudget(int64(bytes), func() {})
		case "deletions":
			s.options.OmitDeletions = value == "omit"
		case "dedup":
			s.options.DedupInterval = duration(value)
			s.options.Holding = watchlist.NewHolding(1 << 20)
		case "restart", "crash":
			from, to, _ := strings.Cut(value, " to ")
			s.restarts = append(s.restarts, restart{at: duration(from), until: duration(to), crash: key == "crash"})
		case "takeover":
			s.takeover = handoverOf(t, value)
		case "resource-gone":
			from, to, _ := strings.Cut(value, " to ")
			s.gone = [2]time.Duration{duration(from), duration(to)}
		default:
			t.Fatalf("unknown key in config: %s", line)
		}
	}
	return s
}

// handoverOf reads from where a reader continues: "9" is a published position, which the own checkpoint does not reach;
// "9 whole" one that it does, and "9 whole setback" the same if etcd was set back since; "anew 9" an initial state that hides what
// came after that. "perhaps a b" and "owed a b" may follow.
func handoverOf(t *testing.T, text string) *checkpoint.Handover {
	h := &checkpoint.Handover{}
	var names *[]redact.Identity
	for _, word := range strings.Fields(text) {
		switch {
		case word == "anew":
			h.Anew = true
		case word == "whole":
			h.Whole = true
		case word == "setback":
			h.SetBack = true
		case word == "perhaps":
			names = &h.Perhaps
		case word == "owed":
			names = &h.Owed
		case names != nil:
			*names = append(*names, redact.Identity{UID: scriptUID(word), Namespace: "default", Name: word})
		case h.Anew:
			h.FromRV = word
		default:
			h.ResourceVersion, h.Closed = word, true
		}
	}
	require.True(t, h.Anew || h.ResourceVersion != "", text)
	return h
}

// recordingQueue is the emitter of a scenario: bounded in records, and emptied at once unless the consumer is blocked.
type recordingQueue struct {
	mu           sync.Mutex
	changes      []watchlist.Change
	room         int
	blockedUntil time.Time
	endsAt       time.Time // takes nothing from then on, if that is set
	freed        chan struct{}
	offering     func(context.Context, []watchlist.Change)
	accepted     func([]watchlist.Change)

	showsSections bool // in the transcript

	deny          []string                 // what to drop, each once: objects as name@version, gaps and the begins and ends of sets as BEGIN#2
	offered       [watchlist.Ended + 1]int // by type
	denied        bool                     // a record was dropped, and none was accepted since
	dropped       func([]watchlist.Change)
	acceptedAgain func()
}

// denies reports whether the change has to be dropped.
func (q *recordingQueue) denies(c watchlist.Change) bool {
	what := c.Object.Name + "@" + c.Object.ResourceVersion
	if c.Type == watchlist.SnapshotBegin || c.Type == watchlist.SnapshotEnd || c.Type == watchlist.Gap {
		q.offered[c.Type]++
		what = fmt.Sprintf("%s#%d", typeNames[c.Type], q.offered[c.Type])
	}
	at := slices.Index(q.deny, what)
	if at < 0 {
		return false
	}
	q.deny = slices.Delete(q.deny, at, at+1)
	return true
}

func (q *recordingQueue) Offer(c watchlist.Change) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended() || len(q.changes) >= q.room && time.Now().Before(q.blockedUntil) {
		return false
	}
	if q.offering != nil {
		q.offering(context.Background(), []watchlist.Change{c})
	}
	if c.IsRecord() && q.denies(c) {
		q.dropped([]watchlist.Change{c})
		q.denied = true
		return true
	}
	if c.IsRecord() {
		q.changes = append(q.changes, c)
		if q.denied {
			q.denied = false
			q.acceptedAgain()
		}
	}
	if q.accepted != nil {
		q.accepted([]watchlist.Change{c})
	}
	return true
}

// ended reports whether the process of the reader has crashed.
func (q *recordingQueue) ended() bool { return !q.endsAt.IsZero() && !time.Now().Before(q.endsAt) }

func (q *recordingQueue) WaitForRoom(ctx context.Context) error {
	if q.ended() {
		return context.DeadlineExceeded
	}
	select {
	case <-time.After(time.Until(q.blockedUntil)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var typeNames = map[watchlist.Type]string{
	watchlist.Snapshot: "SNAPSHOT", watchlist.Added: "ADDED", watchlist.Modified: "MODIFIED", watchlist.Deleted: "DELETED",
	watchlist.Gap: "GAP", watchlist.SnapshotBegin: "BEGIN", watchlist.SnapshotEnd: "END",
}

var originNames = map[watchlist.Origin]string{
	watchlist.Initial: "initial", watchlist.Live: "live", watchlist.Relist: "relist", watchlist.Recovered: "recovered", watchlist.Selection: "selected",
}

func (q *recordingQueue) transcript() []string {
	lines := []string{}
	for _, c := range q.changes {
		line := typeNames[c.Type] + " " + originNames[c.Origin]
		switch c.Type {
		case watchlist.Gap:
			line = fmt.Sprintf("GAP %s %s..%s +%d ~%d -%d", c.Gap.Reason, c.Gap.FromRV, c.Gap.ToRV, c.Gap.Added, c.Gap.Modified, c.Gap.Deleted)
		case watchlist.SnapshotBegin:
		case watchlist.SnapshotEnd:
			line += fmt.Sprintf(" %d objects at %s", c.Snapshot.Objects, c.Snapshot.ResourceVersion)
		default:
			name := c.Object.Name
			if c.Object.Namespace != "default" {
				name = c.Object.Namespace + "/" + name
			}
			line += " " + name + "@" + c.Object.ResourceVersion
			if c.Inferred {
				line += " inferred"
			} else if c.Object.JSON == "" {
				line += " without body"
			}
			if q.showsSections && !c.Sections.IsEmpty() {
				line += " " + strings.Join(c.Sections.Names(), " ")
			}
			line += q.difference(c)
			if c.Suppressed > 0 {
				line += fmt.Sprintf(" suppressed %d", c.Suppressed)
			}
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// difference describes what changed in an object, or the state in which it was last.
func (q *recordingQueue) difference(c watchlist.Change) (text string) {
	if c.Inferred && c.Object.JSON != "" {
		_, content, _ := strings.Cut(c.Object.JSON, `"content":"`)
		content, _, _ = strings.Cut(content, `"`)
		return " last " + content
	}
	if c.Diff == nil {
		return ""
	}
	for _, d := range c.Diff.Changes {
		text += fmt.Sprintf(" %s:%s>%s", d.Path, d.Old.JSON+d.Old.Text, d.New.JSON+d.New.Text)
	}
	if text == "" {
		return " no difference"
	}
	return text
}

// content is what the record of a version of an object has as its content.
func (q *recordingQueue) content(uid, version string) string {
	for _, c := range q.changes {
		if c.Object.UID == uid && c.Object.ResourceVersion == version {
			_, content, _ := strings.Cut(c.Object.JSON, `"content":"`)
			content, _, _ = strings.Cut(content, `"`)
			return content
		}
	}
	return "no such record"
}

func (q *recordingQueue) records() []fold.Record {
	var records []fold.Record
	for _, c := range q.changes {
		if c.Type <= watchlist.Deleted {
			records = append(records, recordOf(c))
		}
	}
	return records
}

func recordOf(c watchlist.Change) fold.Record {
	return fold.Record{
		UID: c.Object.UID, Namespace: c.Object.Namespace, Name: c.Object.Name,
		ResourceVersion: c.Object.ResourceVersion, Type: typeNames[c.Type], Origin: originNames[c.Origin], Inferred: c.Inferred,
	}
}

// concluded returns the records, and a deletion for each object that is gone as whole sets of snapshots show: it has no record
// since the begin of one.
func (q *recordingQueue) concluded() []fold.Record {
	var records []fold.Record
	epoch, began, members := "", 0, 0
	for _, c := range q.changes {
		switch c.Type {
		case watchlist.SnapshotBegin:
			epoch, began, members = c.Snapshot.Epoch, len(records), 0
		case watchlist.SnapshotEnd:
			if c.Snapshot.Epoch != epoch || c.Snapshot.Objects != members {
				continue
			}
			since := map[string]bool{}
			for _, r := range records[began:] {
				since[r.UID] = true
			}
			for uid := range fold.Fold(records) {
				if !since[uid] {
					records = append(records, fold.Record{UID: uid, Type: typeNames[watchlist.Deleted]})
				}
			}
		case watchlist.Gap:
		default:
			if records = append(records, recordOf(c)); c.Snapshot != nil && c.Snapshot.Epoch == epoch {
				members++
			}
		}
	}
	return records
}

type countingObserver struct {
	watchlist.NopObserver
	mu     sync.Mutex
	counts map[string]int
}

func (o *countingObserver) count(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[what]++
}

func (o *countingObserver) StreamOpened(kind string)                    { o.count("opened " + kind) }
func (o *countingObserver) StreamEnded(reason string)                   { o.count("ended " + reason) }
func (o *countingObserver) DuplicateDropped()                           { o.count("duplicate") }
func (o *countingObserver) Excluded(t watchlist.Type)                   { o.count("excluded " + typeNames[t]) }
func (o *countingObserver) ObjectCut()                                  { o.count("cut") }
func (o *countingObserver) FrameUndecodable()                           { o.count("undecodable") }
func (o *countingObserver) Suppressed(reason string)                    { o.count("suppressed " + reason) }
func (o *countingObserver) FrameOfAnotherKind()                         { o.count("other kind") }
func (o *countingObserver) Recovered()                                  { o.count("recovered") }
func (o *countingObserver) GapRecorded(reason string)                   { o.count("gap " + reason) }
func (o *countingObserver) RelistEnded(outcome string, _ time.Duration) { o.count("relist " + outcome) }
func (o *countingObserver) Paused()                                     { o.count("paused") }

func (o *countingObserver) Throttled(wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts["throttled seconds"] += int(wait.Seconds())
}

func (o *countingObserver) String() string {
	var lines []string
	for what, n := range o.counts {
		lines = append(lines, fmt.Sprintf("%s: %d", what, n))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
