package tail

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
)

// record appends a record to logs, with attributes as pairs.
func record(logs plog.Logs, event, body string, attributes ...string) {
	if logs.ResourceLogs().Len() == 0 {
		resource := logs.ResourceLogs().AppendEmpty()
		resource.Resource().Attributes().PutStr("k8s.cluster.uid", "c1")
		resource.ScopeLogs().AppendEmpty().Scope().SetName("watchlist")
	}
	r := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().AppendEmpty()
	r.SetEventName(event)
	r.Body().SetStr(body)
	r.SetObservedTimestamp(pcommon.NewTimestampFromTime(time.Date(2026, 12, 2, 14, 2, 7, 412e6, time.Local)))
	for i := 0; i < len(attributes); i += 2 {
		if n, err := strconv.Atoi(attributes[i+1]); err == nil {
			r.Attributes().PutInt(attributes[i], int64(n))
		} else {
			r.Attributes().PutStr(attributes[i], attributes[i+1])
		}
	}
}

func change(logs plog.Logs, kind, namespace, name, body string, more ...string) {
	record(logs, "k8s.object."+strings.ToLower(kind), body, append([]string{
		"k8s.change.type", kind, "k8s.resource.name", "pods", "k8s.namespace.name", namespace, "k8s.object.name", name,
	}, more...)...)
}

// sample has a record of every kind.
func sample() plog.Logs {
	logs := plog.NewLogs()
	record(logs, "k8s.snapshot.begin", "initial state of pods begins", "k8s.resource.name", "pods")
	change(logs, "SNAPSHOT", "shop", "web-1", "Pod shop/web-1 exists (initial state)")
	record(logs, "k8s.snapshot.end", "snapshot ends", "k8s.resource.name", "pods", "k8s.snapshot.objects", "1")
	change(logs, "ADDED", "shop", "web-2", "Pod shop/web-2 added (kubectl)", "k8s.change.manager", "kubectl")
	change(logs, "MODIFIED", "shop", "web-1", "Pod shop/web-1 modified: spec.x 1 → 2 (kubelet)", "k8s.change.manager", "kubelet")
	change(logs, "DELETED", "pay", "api-1", "Pod pay/api-1 deleted")
	record(logs, "k8s.watch.gap", "changes may be missing", "k8s.resource.name", "pods")
	record(logs, "entity.state", "")
	return logs
}

// lines returns what is printed of the sample, as sign and object.
func lines(t *testing.T, f Filter) []string {
	t.Helper()
	var out bytes.Buffer
	p := New(Options{Filter: f, Out: &out, Note: func(string) {}})
	require.NoError(t, p.ConsumeLogs(t.Context(), sample()))
	_, dropped, err := p.Close(time.Minute)
	require.NoError(t, err)
	assert.Zero(t, dropped)
	var found []string
	for line := range strings.Lines(out.String()) {
		words := strings.Fields(line)
		found = append(found, strings.Join(words[1:4], " "))
	}
	return found
}

func TestFilters(t *testing.T) {
	t.Parallel()
	const gapLine = "! pods changes"
	for name, test := range map[string]struct {
		filter Filter
		want   []string
	}{
		"none":        {Filter{}, []string{"+ pods shop/web-2", "~ pods shop/web-1", "- pods pay/api-1", gapLine}},
		"types":       {Filter{Types: []string{"DELETED"}}, []string{"- pods pay/api-1", gapLine}},
		"namespace":   {Filter{Namespaces: []string{"p*"}}, []string{"- pods pay/api-1", gapLine}},
		"name":        {Filter{Names: []string{"web-*"}}, []string{"+ pods shop/web-2", "~ pods shop/web-1", gapLine}},
		"manager":     {Filter{Managers: []string{"kubectl*"}}, []string{"+ pods shop/web-2", gapLine}},
		"resource":    {Filter{Resources: []string{"pods"}}, []string{"+ pods shop/web-2", "~ pods shop/web-1", "- pods pay/api-1", gapLine}},
		"another":     {Filter{Resources: []string{"nodes"}}, nil},
		"all of them": {Filter{Names: []string{"web-1"}, Types: []string{"MODIFIED"}, Initial: true}, []string{"! pods initial", "! pods snapshot", "~ pods shop/web-1", gapLine}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, lines(t, test.filter))
		})
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	logs := sample().ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	assert.Equal(t, "14:02:07.412  ~  pods          shop/web-1                                spec.x 1 → 2 (kubelet)\n", format(logs.At(4), false))
	assert.Equal(t, "14:02:07.412  -  pods          pay/api-1\n", format(logs.At(5), false))
	assert.Equal(t, "14:02:07.412  +  pods          shop/web-2                                (kubectl)\n", format(logs.At(3), false))
	assert.True(t, strings.HasPrefix(format(logs.At(3), true), "\x1b[32m14:02:07.412"))
	assert.True(t, strings.HasSuffix(format(logs.At(3), true), "\x1b[0m\n"))
}

// What comes from the cluster controls no terminal.
func TestLinesAreSafeToPrint(t *testing.T) {
	t.Parallel()
	logs := plog.NewLogs()
	change(logs, "ADDED", "shop", "a\x1b[2Jb\nc", "Pod x: \x1b]0;title\x07 added "+strings.Repeat("long ", 1000))
	line := format(logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0), false)
	assert.NotContains(t, line, "\x1b")
	assert.NotContains(t, line, "\x07")
	assert.Equal(t, 1, strings.Count(line, "\n"))
	assert.Less(t, len(line), 1000)
}

// A line of JSON is a record with its resource and scope.
func TestJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := New(Options{Filter: Filter{Initial: true, Others: true}, Out: &out, JSON: true, Note: func(string) {}})
	require.NoError(t, p.ConsumeLogs(t.Context(), sample()))
	shown, _, err := p.Close(time.Minute)
	require.NoError(t, err)
	assert.Equal(t, int64(8), shown)
	again := plog.NewLogs()
	for line := range strings.Lines(out.String()) {
		logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs([]byte(line))
		require.NoError(t, err)
		require.Equal(t, 1, logs.LogRecordCount())
		from := logs.ResourceLogs().At(0)
		assert.Equal(t, "c1", from.Resource().Attributes().AsRaw()["k8s.cluster.uid"])
		assert.Equal(t, "watchlist", from.ScopeLogs().At(0).Scope().Name())
		if again.ResourceLogs().Len() == 0 {
			logs.CopyTo(again)
		} else {
			from.ScopeLogs().At(0).LogRecords().MoveAndAppendTo(again.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords())
		}
	}
	assert.Equal(t, sample(), again)
}

func TestNotes(t *testing.T) {
	t.Parallel()
	var notes []string
	p := New(Options{Out: io.Discard, Note: func(text string) { notes = append(notes, text) }})
	require.NoError(t, p.ConsumeLogs(t.Context(), sample()))
	_, _, err := p.Close(time.Minute)
	require.NoError(t, err)
	assert.Equal(t, []string{"watching pods, objects: 1"}, notes)
}

// An output that nobody reads holds nobody back for long, and what it does not get is counted.
func TestSlowOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		var notes []string
		p := New(Options{Out: writer, Note: func(text string) { notes = append(notes, text) }})
		began := time.Now()
		many := plog.NewLogs()
		for range queued + 100 {
			change(many, "ADDED", "shop", "web", "Pod shop/web added")
		}
		require.NoError(t, p.ConsumeLogs(t.Context(), many))
		assert.Equal(t, patience, time.Since(began), "all together wait once")
		require.NoError(t, p.ConsumeLogs(t.Context(), sample()))
		assert.Equal(t, 2*patience, time.Since(began))
		assert.Equal(t, []string{"the output is too slow, leaving out records", "watching pods, objects: 1"}, notes)
		shown, dropped, err := p.Close(time.Second)
		require.NoError(t, err)
		assert.Equal(t, int64(1), shown, "the one that is being written")
		assert.Equal(t, int64(queued+100+4-1), dropped)
		require.NoError(t, reader.Close())
		<-p.done
	})
}

// An output that recovers gets what has waited.
func TestOutputThatRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		p := New(Options{Out: writer, Note: func(string) {}})
		many := plog.NewLogs()
		for range queued + 100 {
			change(many, "ADDED", "shop", "web", "Pod shop/web added")
		}
		var got bytes.Buffer
		read := make(chan struct{})
		time.AfterFunc(patience/2, func() {
			defer close(read)
			_, _ = io.Copy(&got, reader)
		})
		require.NoError(t, p.ConsumeLogs(t.Context(), many))
		shown, dropped, err := p.Close(time.Second)
		require.NoError(t, err)
		assert.Equal(t, int64(queued+100), shown)
		assert.Zero(t, dropped)
		require.NoError(t, writer.Close())
		<-read
		assert.Equal(t, queued+100, strings.Count(got.String(), "\n"))
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestBrokenOutput(t *testing.T) {
	t.Parallel()
	p := New(Options{Out: broken{}, Note: func(string) {}})
	require.NoError(t, p.ConsumeLogs(t.Context(), sample()))
	<-p.Failed()
	require.NoError(t, p.ConsumeLogs(t.Context(), sample()))
	_, _, err := p.Close(time.Minute)
	assert.ErrorContains(t, err, "broken pipe")
	assert.NoError(t, p.ConsumeLogs(t.Context(), sample()), "what comes after the end is ignored")
}
