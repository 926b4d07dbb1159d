package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

const cluster = "c1"

// change returns the line of a change of a pod.
func change(kind, uid string, version int, attributes ...string) string {
	object := fold.Record{UID: uid, ResourceVersion: strconv.Itoa(version), Type: kind}
	all := append([]string{
		"k8s.change.type", kind, "k8s.change.origin", "live", "k8s.change.id", changeID(cluster, object),
		"k8s.resource.name", "pods", "k8s.object.name", "pod-" + uid, "k8s.namespace.name", "shop",
		"k8s.object.uid", uid, "k8s.object.resource_version", object.ResourceVersion,
	}, attributes...)
	return line("k8s.object."+strings.ToLower(kind), all...)
}

// line returns a line of one record. An attribute that is a number becomes an int; one without a value is left out.
func line(event string, attributes ...string) string {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("k8s.cluster.uid", cluster)
	r := resource.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	r.SetEventName(event)
	for i := 0; i < len(attributes); i += 2 {
		key, value := attributes[i], attributes[i+1]
		if n, err := strconv.Atoi(value); err == nil && (key == "k8s.snapshot.objects" || strings.HasPrefix(key, "k8s.watchlist.shard.")) {
			r.Attributes().PutInt(key, int64(n))
		} else {
			r.Attributes().PutStr(key, value)
		}
	}
	text, err := (&plog.JSONMarshaler{}).MarshalLogs(logs)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func begin(epoch string) string {
	return line("k8s.snapshot.begin", "k8s.resource.name", "pods", "k8s.snapshot.epoch", epoch)
}

func end(epoch string, n int) string {
	return line("k8s.snapshot.end", "k8s.resource.name", "pods", "k8s.snapshot.epoch", epoch, "k8s.snapshot.objects", strconv.Itoa(n))
}

func folded(lines ...string) *Fold {
	f := NewFold(cluster)
	for i, line := range lines {
		f.AddLine([]byte(line), at(i+1))
	}
	return f
}

func at(line int) Place { return Place{Path: "f", Line: line} }

func live(version int, uid string) Listed {
	return Listed{Namespace: "shop", Name: "pod-" + uid, ResourceVersion: strconv.Itoa(version)}
}

// compare compares lines with what is listed and returns the findings as "kind uid place".
func compare(t *testing.T, listed map[string]Listed, lines ...string) []string {
	t.Helper()
	c := &Comparison{
		Fold: folded(lines...),
		List: func(context.Context, Scope) (map[string]Listed, error) { return listed, nil },
		Read: func() error { return nil },
	}
	result, err := c.Run(t.Context())
	require.NoError(t, err)
	found := []string{}
	for _, f := range result.Findings {
		found = append(found, strings.Join(strings.Fields(f.Kind+" "+f.UID+" "+f.Place), " "))
	}
	return found
}

var history = []string{
	begin("e1"),
	change("SNAPSHOT", "a", 1, "k8s.snapshot.epoch", "e1"),
	change("SNAPSHOT", "b", 2, "k8s.snapshot.epoch", "e1"),
	end("e1", 2),
	change("ADDED", "c", 11),
	change("MODIFIED", "a", 12),
	change("DELETED", "b", 13),
	change("MODIFIED", "c", 14),
}

var present = map[string]Listed{"a": live(12, "a"), "c": live(14, "c")}

func TestCompare(t *testing.T) {
	t.Parallel()
	without := func(i int) []string { return slices.Delete(slices.Clone(history), i, i+1) }
	with := func(i int, line string) []string {
		changed := slices.Clone(history)
		changed[i] = line
		return changed
	}
	for name, test := range map[string]struct {
		lines []string
		want  []string
	}{
		"whole":                       {lines: history},
		"the last change is removed":  {lines: without(7), want: []string{"stale c f:5"}},
		"both changes are removed":    {lines: slices.Concat(history[:4], history[5:7]), want: []string{"missing c"}},
		"a deletion is removed":       {lines: without(6), want: []string{"extra b f:3"}},
		"a snapshot is removed":       {lines: without(2), want: []string{"incomplete f:3"}},
		"the end of the set is lost":  {lines: slices.Concat(history[:3], history[5:7])},
		"a change is repeated":        {lines: append(slices.Clone(history), history[4]), want: []string{"duplicate c f:9"}},
		"a deletion is repeated":      {lines: append(slices.Clone(history), history[6]), want: []string{"duplicate b f:9"}},
		"a set is repeated":           {lines: append(slices.Clone(history), begin("e2"), change("SNAPSHOT", "a", 12, "k8s.snapshot.epoch", "e2"), change("SNAPSHOT", "c", 14, "k8s.snapshot.epoch", "e2"), end("e2", 2))},
		"an older version comes last": {lines: append(slices.Clone(history), change("MODIFIED", "a", 5)), want: []string{"stale a f:9", "disorder a f:9"}},
		"a version is changed":        {lines: with(7, strings.Replace(history[7], `"14"`, `"19"`, 1)), want: []string{"altered c f:8", "altered c f:8"}},
		"a type is changed":           {lines: with(7, strings.Replace(history[7], "MODIFIED", "DELETED", 1)), want: []string{"missing c f:8", "altered c f:8"}},
		"a name is changed":           {lines: with(7, strings.Replace(history[7], "pod-c", "pod-x", 1)), want: []string{"altered c f:8"}},
		"a line is cut":               {lines: with(4, history[4][:100]), want: []string{"unreadable f:5"}},
		"no sets":                     {lines: []string{change("MODIFIED", "a", 12)}},
		"another cluster":             {lines: append(slices.Clone(history), strings.Replace(change("ADDED", "z", 20), `"c1"`, `"c2"`, 1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listed := maps.Clone(present)
			assert.ElementsMatch(t, append([]string{}, test.want...), compare(t, listed, test.lines...))
		})
	}
}

// The object and the attributes of a record have to agree.
func TestAlteredObject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, uid, version string // of the object; the record is of version 14
		want               bool
	}{
		"the same":               {"MODIFIED", "c", "14", false},
		"another version":        {"MODIFIED", "c", "13", true},
		"another UID":            {"MODIFIED", "d", "14", true},
		"the last known state":   {"DELETED", "c", "9", false},
		"a state that was later": {"DELETED", "c", "15", true},
		"another deleted object": {"DELETED", "d", "14", true},
		"versions without order": {"DELETED", "c", "x", false},
	} {
		for form, put := range map[string]func(r plog.LogRecord, uid, version string){
			"map": func(r plog.LogRecord, uid, version string) {
				metadata := r.Body().SetEmptyMap().PutEmptyMap("metadata")
				metadata.PutStr("uid", uid)
				metadata.PutStr("name", "pod-c")
				metadata.PutStr("resourceVersion", version)
			},
			"json": func(r plog.LogRecord, uid, version string) {
				r.Body().SetStr(fmt.Sprintf(`{"metadata":{"uid":%q,"name":"pod-c","resourceVersion":%q},"spec":{}}`, uid, version))
			},
			"attribute": func(r plog.LogRecord, uid, version string) {
				r.Body().SetStr("Pod shop/pod-c deleted (inferred)")
				r.Attributes().PutStr("k8s.object.manifest", fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q}}`, uid, version))
			},
		} {
			t.Run(name+" "+form, func(t *testing.T) {
				t.Parallel()
				logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(change(test.kind, "c", 14)))
				require.NoError(t, err)
				r := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
				put(r, test.uid, test.version)
				f := NewFold(cluster)
				f.add(r, cluster, at(1))
				if !test.want {
					assert.Empty(t, f.Findings)
					return
				}
				require.Len(t, f.Findings, 1)
				assert.Equal(t, Altered, f.Findings[0].Kind)
			})
		}
	}
}

// What is no object, such as the message of an Event, is not looked into.
func TestTextsAreNoObjects(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "{}", `{"metadata":null}`, `{"metadata":"x"}`, "{metadata} is a word"} {
		logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(history[7]))
		require.NoError(t, err)
		r := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
		r.Body().SetStr(text)
		f := NewFold(cluster)
		f.add(r, cluster, at(1))
		assert.Empty(t, f.Findings, text)
	}
}

func TestGapsAreNoFindings(t *testing.T) {
	t.Parallel()
	gap := line("k8s.watch.gap", "k8s.resource.name", "pods", "k8s.gap.reason", "expired",
		"k8s.gap.from_resource_version", "3", "k8s.gap.to_resource_version", "9")
	c := &Comparison{
		Fold: folded(append(slices.Clone(history), gap)...),
		List: func(context.Context, Scope) (map[string]Listed, error) { return present, nil },
		Read: func() error { return nil },
	}
	r, err := c.Run(t.Context())
	require.NoError(t, err)
	assert.Empty(t, r.Findings)
	assert.Equal(t, []Gap{{Resource: "pods", Reason: "expired", From: "3", To: "9", Place: "f:9"}}, r.Gaps)
	assert.Equal(t, []Summary{{Resource: "pods", Scope: "cluster", Listed: 2, Records: 6, Findings: map[string]int{}, Gaps: 1}}, r.Resources)
}

// The scopes are those of the records about readers.
// What comes from files and the API server cannot control a terminal, and shows no secret.
func TestResultIsSafeToPrint(t *testing.T) {
	t.Parallel()
	gap := line("k8s.watch.gap", "k8s.resource.name", "pods", "k8s.gap.reason", "expired\x1b[2J\nok")
	c := &Comparison{
		Fold: folded(append(slices.Clone(history), gap, "{\x1b[2J")...),
		List: func(context.Context, Scope) (map[string]Listed, error) {
			return map[string]Listed{"z": {Name: "a\x1b[31mb", Namespace: strings.Repeat("n", 1000), ResourceVersion: "Authorization: Bearer abcdefgh12345678"}}, nil
		},
		Read: func() error { return nil },
	}
	r, err := c.Run(t.Context())
	require.NoError(t, err)
	text := fmt.Sprintf("%q", fmt.Sprintf("%+v", r))
	assert.NotContains(t, text, `\x1b`)
	assert.NotContains(t, text, `\n`)
	assert.NotContains(t, text, "abcdefgh12345678")
	assert.NotContains(t, text, strings.Repeat("n", 500))
	assert.Contains(t, text, "a [31mb")
}

func TestScopes(t *testing.T) {
	t.Parallel()
	scoped := func(namespace, labels string) []string {
		return []string{"k8s.resource.name", "pods", "k8s.namespace.name", namespace, "k8s.resource.label_selector", labels, "k8s.snapshot.epoch", namespace}
	}
	var lines []string
	for _, namespace := range []string{"shop", "pay"} {
		lines = append(lines, line("k8s.snapshot.begin", scoped(namespace, "app=web")...), line("k8s.snapshot.end", scoped(namespace, "app=web")...))
	}
	lines = append(lines, change("ADDED", "a", 5))
	var listed []Scope
	c := &Comparison{
		Fold: folded(lines...),
		List: func(_ context.Context, s Scope) (map[string]Listed, error) {
			listed = append(listed, s)
			return map[string]Listed{"a": live(5, "a")}, nil
		},
		Read: func() error { return nil },
	}
	r, err := c.Run(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, []Scope{
		{Resource: "pods", Namespace: "shop", LabelSelector: "app=web"}, {Resource: "pods", Namespace: "pay", LabelSelector: "app=web"},
	}, listed)
	assert.Equal(t, "pay app=web, shop app=web", r.Resources[0].Scope)
	assert.Empty(t, r.Findings)
}

// A difference counts only if it lasts: the record may arrive later, and the object may change again.
func TestDifferencesThatDisappear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		listed := map[string]Listed{"a": live(12, "a"), "c": live(15, "c"), "d": live(16, "d"), "e": live(17, "e")}
		c := &Comparison{
			Fold: folded(history...),
			List: func(context.Context, Scope) (map[string]Listed, error) {
				if time.Since(began) > 2*time.Second {
					listed["d"] = live(18, "d") // changed again, and its record is again late
				}
				return listed, nil
			},
			Wait: 10 * time.Second,
		}
		c.Read = func() error {
			if time.Since(began) > time.Second {
				c.Fold.AddLine([]byte(change("MODIFIED", "c", 15)), at(9))
			}
			return nil
		}
		r, err := c.Run(t.Context())
		require.NoError(t, err)
		found := r.Findings
		found = slices.DeleteFunc(found, func(f Finding) bool { return f.Kind == Duplicate }) // Read adds the line each time
		require.Len(t, found, 1)
		assert.Equal(t, "e", found[0].UID)
		assert.Equal(t, Missing, found[0].Kind)
		assert.Equal(t, 10*time.Second, time.Since(began))
	})
}

// The fold is that of the tests' oracle, as are duplicates and disorder.
func TestFoldIsTheOracles(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		f := NewFold(cluster)
		var records []fold.Record
		versions := make(map[string]bool)
		for n := range 200 {
			uid := strconv.Itoa(random.IntN(20))
			kind := []string{"ADDED", "MODIFIED", "MODIFIED", "DELETED"}[random.IntN(4)]
			version := n + 1
			if random.IntN(10) == 0 {
				version = max(1, version-random.IntN(30))
			}
			text := change(kind, uid, version)
			key := fmt.Sprint(uid, kind, version)
			logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(text))
			require.NoError(t, err)
			if !versions[key] { // the oracle applies duplicates again
				records = append(records, fold.FromLogs(logs)...)
			}
			versions[key] = true
			f.AddLine([]byte(text), at(1))
		}
		got := fold.State{}
		for uid, object := range f.Objects {
			if !object.Deleted {
				got[uid] = object.ResourceVersion
			}
		}
		assert.Equal(t, fold.Fold(records), got)
		disorder := 0
		for _, finding := range f.Findings {
			if finding.Kind == Disorder {
				disorder++
			}
		}
		assert.Len(t, fold.Disorder(records), disorder)
	}
}

func TestContents(t *testing.T) {
	t.Parallel()
	pods, nodes, leases := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "nodes"}, schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for name, test := range map[string]struct {
		resource   schema.GroupResource
		live, body string
		want       Sameness
	}{
		"equal":                {pods, `{"kind":"Pod","metadata":{"resourceVersion":"2","managedFields":[]},"spec":{"a":1}}`, `{"kind":"Pod","metadata":{"resourceVersion":"1"},"spec":{"a":1.0}}`, Same},
		"another value":        {pods, `{"spec":{"a":1}}`, `{"spec":{"a":2}}`, Different},
		"another large number": {pods, `{"spec":{"a":9007199254740993}}`, `{"spec":{"a":9007199254740992}}`, Different},
		"something added":      {pods, `{"spec":{"a":1,"b":{}}}`, `{"spec":{"a":1}}`, Different},
		"something removed":    {pods, `{"spec":{"a":[1]}}`, `{"spec":{"a":[1,2]}}`, Different},
		"no body":              {pods, `{"spec":{}}`, `null`, Different},
		"masked":               {pods, `{"spec":{"password":"one"},"x":1}`, `{"spec":{"password":"[REDACTED]"},"x":1}`, SameButMasked},
		"kept":                 {pods, `{"spec":{"password":"one"},"x":1}`, `{"spec":{"password":"two"},"x":1}`, SameButMasked},
		"masked and different": {pods, `{"spec":{"password":"one"},"x":1}`, `{"spec":{"password":"[REDACTED]"},"x":2}`, Different},
		"heartbeat":            {nodes, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":"b"}]}}`, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":"a"}]}}`, Same},
		"heartbeat of a pod":   {pods, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":"b"}]}}`, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":"a"}]}}`, Different},
		"renewal":              {leases, `{"spec":{"renewTime":"b","holderIdentity":"x"}}`, `{"spec":{"holderIdentity":"x"}}`, Same},
		"another holder":       {leases, `{"spec":{"renewTime":"b","holderIdentity":"y"}}`, `{"spec":{"renewTime":"a","holderIdentity":"x"}}`, Different},
		"observed":             {pods, `{"spec":{},"status":{"observedGeneration":3}}`, `{"spec":{}}`, Same},
		"an old lock": {
			pods, `{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"{\"holder\":\"x\",\"renewTime\":\"b\"}"}}}`,
			`{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"{\"holder\":\"x\",\"renewTime\":\"a\"}"}}}`, Same,
		},
		"a configured part": {schema.GroupResource{Group: "example.com", Resource: "widgets"}, `{"metadata":{"generation":2},"spec":{"tick":{"at":2}}}`, `{"metadata":{"generation":1},"spec":{"tick":{"at":1}}}`, Same},
		"the generation":    {pods, `{"metadata":{"generation":2}}`, `{"metadata":{"generation":1}}`, Different},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := decode([]byte(test.body))
			require.NoError(t, err)
			ignored := append(slices.Clone(redact.UsuallyIgnored), redact.Ignored{Group: "example.com", Resource: "widgets", Paths: []string{"spec.tick.at"}})
			got, err := NewContents(test.resource, redact.Fields{}, ignored).Compare([]byte(test.live), Body{Object: body})
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

// What records do not have, because the configuration or its size leaves it out, is not compared.
func TestContentsOfReducedObjects(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, test := range map[string]struct {
		fields     redact.Fields
		live, body string
		truncated  []string
		want       Sameness
	}{
		"dropped":            {redact.Fields{Drop: []string{"status.conditions"}}, `{"spec":{"a":1},"status":{"phase":"x","conditions":[1]}}`, `{"spec":{"a":1},"status":{"phase":"x"}}`, nil, Same},
		"dropped, another":   {redact.Fields{Drop: []string{"status.conditions"}}, `{"status":{"phase":"y","conditions":[1]}}`, `{"status":{"phase":"x"}}`, nil, Different},
		"kept":               {redact.Fields{Keep: []string{"status"}}, `{"metadata":{"name":"p"},"spec":{"a":1},"status":{"b":1}}`, `{"metadata":{"name":"p"},"status":{"b":1}}`, nil, Same},
		"kept, another":      {redact.Fields{Keep: []string{"status"}}, `{"spec":{"a":1},"status":{"b":2}}`, `{"status":{"b":1}}`, nil, Different},
		"not configured":     {redact.Fields{}, `{"spec":{"a":1},"status":{"b":1}}`, `{"status":{"b":1}}`, nil, Different},
		"too large":          {redact.Fields{}, `{"metadata":{"annotations":{"example.com/notes":"long"}},"spec":{"a":1}}`, `{"metadata":{"annotations":{"example.com/notes":"[TRUNCATED len=4]"}},"spec":{"a":1}}`, []string{"metadata.annotations.example.com/notes"}, SameButMasked},
		"too large, another": {redact.Fields{}, `{"spec":{"a":2},"status":{"list":[1]}}`, `{"spec":{"a":1},"status":{"list":null}}`, []string{"status.list"}, Different},
		"far too large":      {redact.Fields{}, `{"spec":{"a":2}}`, `{"metadata":{"name":"p"}}`, []string{"*"}, SameButMasked},
		"too large all over": {redact.Fields{}, `{"spec":{"a":2}}`, `{"spec":null}`, []string{"spec.b", "and 17 more"}, SameButMasked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := decode([]byte(test.body))
			require.NoError(t, err)
			got, err := NewContents(pods, test.fields, redact.UsuallyIgnored).Compare([]byte(test.live), Body{Object: body, Truncated: test.truncated})
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

// A later version whose content is that of the last record is no finding.
func TestLaterVersionsWithTheSameContent(t *testing.T) {
	t.Parallel()
	listed := map[string]Listed{"a": live(20, "a"), "c": live(21, "c")}
	asked := 0
	c := &Comparison{
		Fold: folded(history...),
		List: func(context.Context, Scope) (map[string]Listed, error) { return listed, nil },
		Read: func() error { return nil },
		Same: func(_ context.Context, _ string, older []Object) (map[string]Sameness, error) {
			asked++
			assert.Len(t, older, 2)
			return map[string]Sameness{"a": SameButMasked, "c": Different}, nil
		},
	}
	r, err := c.Run(t.Context())
	require.NoError(t, err)
	require.Len(t, r.Findings, 1)
	assert.Equal(t, Stale+" c", r.Findings[0].Kind+" "+r.Findings[0].UID)
	assert.Equal(t, 1, r.Resources[0].Unchanged)
	assert.Equal(t, 1, r.Resources[0].Masked)
	assert.Equal(t, 1, asked)
}

func TestBodyIsReadAgain(t *testing.T) {
	t.Parallel()
	logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(history[7]))
	require.NoError(t, err)
	logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Body().SetEmptyMap().PutEmptyMap("spec").PutInt("a", 9007199254740993)
	text, err := (&plog.JSONMarshaler{}).MarshalLogs(logs)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "records.json")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(history[:7], "\n")+"\n"+string(text)+"\n"), 0o600))
	files, f := NewFiles([]string{path}), NewFold(cluster)
	require.NoError(t, files.ReadInto(f))
	body, err := files.Body(f.Objects["c"])
	require.NoError(t, err)
	assert.Equal(t, Body{Object: map[string]any{"spec": map[string]any{"a": json.Number("9007199254740993")}}}, body)
	body, err = files.Body(f.Objects["a"])
	require.NoError(t, err)
	assert.Nil(t, body.Object)
}

// With body: summary the object is in an attribute.
func TestObjectsInAttributes(t *testing.T) {
	t.Parallel()
	logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(history[7]))
	require.NoError(t, err)
	r := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	object, ok := fold.FromRecord(r)
	require.True(t, ok)
	r.Body().SetStr("Pod shop/pod-c modified")
	read := func() map[string]any {
		text, err := (&plog.JSONMarshaler{}).MarshalLogs(logs)
		require.NoError(t, err)
		return bodyOf(text, Object{Record: object}).Object
	}
	assert.Nil(t, read())
	r.Attributes().PutStr("k8s.object.manifest", `{"spec":{"a":1}}`)
	assert.Equal(t, map[string]any{"spec": map[string]any{"a": json.Number("1")}}, read())
	r.Attributes().PutEmptyMap("k8s.object.manifest").PutEmptyMap("metadata").PutStr("name", "another")
	assert.Equal(t, map[string]any{"metadata": map[string]any{"name": "another"}}, read())
	f := NewFold(cluster)
	f.add(r, cluster, at(1))
	require.Len(t, f.Findings, 1)
	assert.Equal(t, Altered, f.Findings[0].Kind)
}

func TestFilesThatGrow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "records.json")
	half := len(history[7]) / 2
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(history[:7], "\n")+"\n"+history[7][:half]), 0o600))
	files, f := NewFiles([]string{path}), NewFold(cluster)
	require.NoError(t, files.ReadInto(f))
	assert.Equal(t, 5, f.Records["pods"])
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(history[7][half:] + "\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.NoError(t, files.ReadInto(f))
	assert.Equal(t, 6, f.Records["pods"])
	assert.Equal(t, path+":8", f.Objects["c"].Place.String())
	assert.Empty(t, f.Findings)

	require.NoError(t, os.Truncate(path, 10))
	assert.ErrorContains(t, files.ReadInto(f), "truncated")
}

// The files of several shards are one state, and objects of a shard without a file are not missing.
func TestShardsOfFiles(t *testing.T) {
	t.Parallel()
	uids := map[string]string{
		"a": "ca978112-ca1b-bdca-fac2-31b39a23dc4d", "b": "18ac3e73-43f0-1689-0c51-0e93f9352611",
		"c": "3e23e816-0039-594a-3389-4f6564e1b134", "d": "2e7d2c03-a950-7ae2-65ec-f5b5356885a5",
	}
	owner := func(name string) int {
		if (shard.Shard{Index: 1, Total: 2}).Owns(uids[name], "") {
			return 1
		}
		return 0
	}
	listed := map[string]Listed{}
	byShard := [2][]string{}
	for n, name := range []string{"a", "b", "c", "d"} {
		listed[uids[name]] = Listed{Namespace: "shop", Name: "pod-" + uids[name], ResourceVersion: strconv.Itoa(n + 1)}
		byShard[owner(name)] = append(byShard[owner(name)], change("SNAPSHOT", uids[name], n+1, "k8s.snapshot.epoch", fmt.Sprint("e", owner(name))))
	}
	require.NotEmpty(t, byShard[0])
	require.NotEmpty(t, byShard[1])
	file := func(index int, without int) []string {
		attributes := []string{
			"k8s.resource.name", "pods", "k8s.snapshot.epoch", fmt.Sprint("e", index), "k8s.watchlist.shard.index", strconv.Itoa(index),
			"k8s.watchlist.shard.total", "2", "k8s.watchlist.shard.by", "uid",
		}
		lines := append([]string{line("k8s.snapshot.begin", attributes...)}, byShard[index][without:]...)
		return append(lines, line("k8s.snapshot.end", append(attributes, "k8s.snapshot.objects", strconv.Itoa(len(byShard[index])-without))...))
	}
	assert.Empty(t, compare(t, listed, slices.Concat(file(0, 0), file(1, 0))...))
	assert.Empty(t, compare(t, listed, file(1, 0)...), "the other shard has other files")
	found := compare(t, listed, slices.Concat(file(1, 1), file(0, 0))...)
	require.Len(t, found, 1)
	assert.Contains(t, found[0], Missing)

	c := &Comparison{Fold: folded(file(1, 0)...)}
	assert.Equal(t, "cluster shard 1 of 2", c.describeScopes("pods"))
}
