package record

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Of every kind of record: the body and the object's attribute, in each combination of both options.
func TestBodiesAndObjectAttribute(t *testing.T) {
	modified := watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, Object: pod(), ReadAt: read}
	inferred := watchlist.Change{Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Recovered, Inferred: true, ReadAt: read,
		Object: redact.Object{Identity: pod().Identity, Kind: "Pod"}}
	gap := watchlist.Change{Scope: pods, Type: watchlist.Gap, Origin: watchlist.Recovered, ReadAt: read,
		Gap: &watchlist.GapInfo{Reason: "expired", FromRV: "7", ToRV: "9", Modified: 1}}
	end := watchlist.Change{Scope: pods, Type: watchlist.SnapshotEnd, Origin: watchlist.Initial, ReadAt: read,
		Snapshot: &watchlist.SnapshotInfo{Epoch: "e", ResourceVersion: "9", Objects: 1}}
	const (
		sentence    = "Pod shop/web-1 modified"
		gone        = "Pod shop/web-1 deleted (inferred)"
		gapSentence = "the watch of pods did not see every change between resource versions 7 and 9 (expired); net differences: 0 added, 1 modified, 0 deleted"
		endSentence = "initial state of pods ends: 1 object at resource version 9"
	)
	for _, c := range []struct {
		name                 string
		options              Options
		body, gone, gap, end any
		attribute            any
		form                 ObjectMode
	}{
		{"map", Options{}, podBody, nil, gapSentence, nil, nil, ObjectMap},
		{"map, where an attribute would repeat it", Options{Object: ObjectJSON}, podBody, nil, gapSentence, nil, nil, ObjectMap},
		{"json", Options{Body: BodyJSON}, pod().JSON, nil, gapSentence, nil, nil, ObjectJSON},
		{"summary", Options{Body: BodySummary}, sentence, gone, gapSentence, endSentence, nil, ObjectNone},
		{"summary and map", Options{Body: BodySummary, Object: ObjectMap}, sentence, gone, gapSentence, endSentence, podBody, ObjectMap},
		{"summary and json", Options{Body: BodySummary, Object: ObjectJSON}, sentence, gone, gapSentence, endSentence, pod().JSON, ObjectJSON},
		{"none", Options{Body: BodyNone}, nil, nil, nil, nil, nil, ObjectNone},
		{"none and map", Options{Body: BodyNone, Object: ObjectMap}, nil, nil, nil, nil, podBody, ObjectMap},
		{"none and json", Options{Body: BodyNone, Object: ObjectJSON}, nil, nil, nil, nil, pod().JSON, ObjectJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.form, NewBuilder(c.options).objectForm(&modified))
			records := build(t, c.options, modified, inferred, gap, end)
			for i, want := range []any{c.body, c.gone, c.gap, c.end} {
				assert.Equal(t, pretty(want), pretty(records[i].Body().AsRaw()))
			}
			assert.Equal(t, pretty(c.attribute), pretty(records[0].Attributes().AsRaw()["k8s.object.manifest"]))
			for _, record := range records[1:] {
				_, has := record.Attributes().Get("k8s.object.manifest")
				assert.False(t, has)
			}
		})
	}
}

// An attribute that cannot be made is left out, and another one gives the reason.
func TestObjectAttributeThatCannotBeMapped(t *testing.T) {
	record := build(t, Options{Body: BodySummary, Object: ObjectMap}, watchlist.Change{Scope: pods, Type: watchlist.Modified, ReadAt: read,
		Object: podWith(func(o *redact.Object) { o.JSON = `{"kind":` })})[0]
	_, has := record.Attributes().Get("k8s.object.manifest")
	assert.False(t, has)
	_, has = record.Attributes().Get("k8s.body.error")
	assert.True(t, has)
	assert.Equal(t, "Pod shop/web-1 modified", record.Body().Str())
}

func TestWhatWasCutIsNamed(t *testing.T) {
	change := watchlist.Change{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, Object: pod(), ReadAt: read, Cut: []string{"spec.a", "and 3 more"}}
	truncated, ok := build(t, Options{}, change)[0].Attributes().Get("k8s.record.truncated")
	assert.True(t, ok)
	assert.Equal(t, []any{"spec.a", "and 3 more"}, truncated.AsRaw())
}

func TestSummaries(t *testing.T) {
	node := redact.Object{Identity: redact.Identity{Name: "n1"}, Kind: "Node", JSON: "{}"}
	event := func(change func(*redact.Event)) redact.Object {
		e := redact.Event{Type: "Normal", Reason: "Pulled", Note: `Pulled image "web:1"`, Count: 1, Regarding: redact.Reference{Kind: "Pod", Namespace: "shop", Name: "web-1"}}
		change(&e)
		return redact.Object{Identity: redact.Identity{Namespace: "shop", Name: "web.17"}, Kind: "Event", Event: &e, JSON: "{}"}
	}
	pulled := event(func(*redact.Event) {})
	set := func(objects int, rv string, incomplete bool) *watchlist.SnapshotInfo {
		return &watchlist.SnapshotInfo{Objects: objects, ResourceVersion: rv, Incomplete: incomplete}
	}
	for want, c := range map[string]watchlist.Change{
		"Pod shop/web-1 added":                                             {Scope: pods, Type: watchlist.Added, Origin: watchlist.Live, Object: pod()},
		"Pod shop/web-1 modified":                                          {Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, Object: pod()},
		"Pod shop/web-1 deleted":                                           {Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Live, Object: pod()},
		"Pod shop/web-1 added (recovered)":                                 {Scope: pods, Type: watchlist.Added, Origin: watchlist.Recovered, Object: pod()},
		"Pod shop/web-1 exists (initial state)":                            {Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Initial, Object: pod()},
		"Pod shop/web-1 exists (relist)":                                   {Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Relist, Object: pod()},
		"Pod shop/web-1 exists (recovered)":                                {Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Recovered, Object: pod()},
		"Pod shop/web-1 deleted (inferred)":                                {Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Recovered, Inferred: true, Object: pod()},
		"Node n1 modified":                                                 {Scope: nodes, Type: watchlist.Modified, Origin: watchlist.Live, Object: node},
		"services.serving.knative.dev a/b modified":                        {Scope: knative, Type: watchlist.Modified, Origin: watchlist.Live, Object: redact.Object{Identity: redact.Identity{Namespace: "a", Name: "b"}}},
		`Pod shop/web-1 Pulled: Pulled image "web:1"`:                      {Scope: events, Type: watchlist.Added, Origin: watchlist.Live, Object: pulled},
		`Pod shop/web-1 Pulled: Pulled image "web:1" (initial state)`:      {Scope: events2, Type: watchlist.Snapshot, Origin: watchlist.Initial, Object: pulled},
		`Pod shop/web-1 Pulled: Pulled image "web:1" (7 times)`:            {Scope: events, Type: watchlist.Modified, Origin: watchlist.Live, Object: event(func(e *redact.Event) { e.Count = 7 })},
		`Pod shop/web-1 Pulled: Pulled image "web:1" (7 times, recovered)`: {Scope: events, Type: watchlist.Modified, Origin: watchlist.Recovered, Object: event(func(e *redact.Event) { e.Count = 7 })},
		`Node n1 Rebooted: Node n1 has been rebooted`: {Scope: events, Type: watchlist.Added, Origin: watchlist.Live, Object: event(func(e *redact.Event) {
			e.Regarding = redact.Reference{Kind: "Node", Name: "n1"}
			e.Reason, e.Note = "Rebooted", "Node n1 has been rebooted"
		})},
		`Event shop/web.17 Pulled`:                               {Scope: events, Type: watchlist.Added, Origin: watchlist.Live, Object: event(func(e *redact.Event) { e.Regarding, e.Note = redact.Reference{}, "" })},
		`Pod shop/web-1: a message`:                              {Scope: events, Type: watchlist.Added, Origin: watchlist.Live, Object: event(func(e *redact.Event) { e.Reason, e.Note = "", "a message" })},
		`Event shop/web.17 deleted: Pulled image "web:1"`:        {Scope: events, Type: watchlist.Deleted, Origin: watchlist.Live, Object: pulled},
		"Event shop/web.17 added":                                {Scope: events, Type: watchlist.Added, Origin: watchlist.Live, Object: event(func(e *redact.Event) { e.Reason, e.Note = "", "" })},
		"Event shop/web.17 deleted (inferred)":                   {Scope: events, Type: watchlist.Deleted, Inferred: true, Object: redact.Object{Identity: pulled.Identity, Kind: "Event"}},
		"initial state of pods begins":                           {Scope: pods, Type: watchlist.SnapshotBegin, Origin: watchlist.Initial, Snapshot: set(0, "", false)},
		"snapshot of pods ends: 2 objects at resource version 9": {Scope: pods, Type: watchlist.SnapshotEnd, Origin: watchlist.Relist, Snapshot: set(2, "9", false)},
		"initial state of deployments.apps in namespace shop with labels team=web with fields metadata.name!=x ends: 0 objects, without what could not be decoded": {
			Scope: teamWeb, Type: watchlist.SnapshotEnd, Origin: watchlist.Initial, Snapshot: set(0, "", true)},
	} {
		c.ReadAt = read
		record := build(t, Options{Body: BodySummary}, c)[0]
		assert.Equal(t, want, record.Body().Str())
	}
}

// The examples of the reference are what is emitted.
func TestDocumentedSummaries(t *testing.T) {
	text, err := os.ReadFile("../../docs/records.md")
	require.NoError(t, err)
	_, examples, _ := strings.Cut(string(text), "<!-- What is between these marks is compared with what is emitted. -->")
	examples, _, _ = strings.Cut(examples, "<!-- End. -->")
	deployment := redact.Object{Identity: redact.Identity{Namespace: "shop", Name: "web"}, Kind: "Deployment", JSON: "{}"}
	backOff := redact.Object{Kind: "Event", JSON: "{}", Event: &redact.Event{
		Reason: "BackOff", Note: "Back-off restarting failed container web", Count: 5, Regarding: redact.Reference{Kind: "Pod", Namespace: "shop", Name: "web-1"},
	}}
	kubectl := redact.Manager{Name: "kubectl"}
	inShop := &scope.Scope{GroupResource: pods.GroupResource, Namespace: "shop"}
	var want []string
	for _, c := range []watchlist.Change{
		{Scope: teamWeb, Type: watchlist.Modified, Origin: watchlist.Live, Object: deployment, Manager: kubectl,
			Diff: compared(`{"spec":{"replicas":3}}`, `{"spec":{"replicas":5}}`)},
		{Scope: teamWeb, Type: watchlist.Modified, Origin: watchlist.Live, Object: deployment, Manager: kubectl,
			Sections: sections(`{"spec":1,"metadata":{"labels":{"a":"b"}}}`, `{"spec":2,"metadata":{"labels":{"a":"c"}}}`)},
		{Scope: pods, Type: watchlist.Modified, Origin: watchlist.Live, Object: pod(),
			Sections: sections(`{"metadata":{}}`, `{"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"}}`)},
		{Scope: pods, Type: watchlist.Added, Origin: watchlist.Live, Object: pod()},
		{Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Initial, Object: pod()},
		{Scope: pods, Type: watchlist.Snapshot, Origin: watchlist.Relist, Object: pod()},
		{Scope: teamWeb, Type: watchlist.Modified, Origin: watchlist.Recovered, Object: deployment},
		{Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Live, Object: pod()},
		{Scope: pods, Type: watchlist.Deleted, Origin: watchlist.Recovered, Inferred: true, Object: pod()},
		{Scope: events, Type: watchlist.Modified, Origin: watchlist.Live, Object: backOff},
		{Scope: inShop, Type: watchlist.SnapshotBegin, Origin: watchlist.Initial, Snapshot: &watchlist.SnapshotInfo{}},
		{Scope: pods, Type: watchlist.SnapshotEnd, Origin: watchlist.Relist, Snapshot: &watchlist.SnapshotInfo{Objects: 2, ResourceVersion: "9"}},
	} {
		want = append(want, build(t, Options{Body: BodySummary}, c)[0].Body().Str())
	}
	var got []string
	for line := range strings.Lines(examples) {
		if line = strings.TrimSpace(line); line != "" {
			got = append(got, line)
		}
	}
	assert.Equal(t, want, got)
}

// The message is the body of an Event, or the Event is, unless the bodies are sentences or there are none.
func TestBodiesOfEvents(t *testing.T) {
	const event = `{"kind":"Event","metadata":{"name":"e","namespace":"shop"},"involvedObject":{"kind":"Pod","namespace":"shop","name":"web-1"},"reason":"Pulled","message":"Pulled it"}`
	object := map[string]any{}
	require.NoError(t, json.Unmarshal([]byte(event), &object))
	const sentence = "Pod shop/web-1 Pulled: Pulled it"
	for _, c := range []struct {
		options         Options
		body, attribute any
		form            ObjectMode
	}{
		{Options{}, "Pulled it", nil, ObjectNone},
		{Options{Body: BodyJSON}, "Pulled it", nil, ObjectNone},
		{Options{EventBody: EventObject}, object, nil, ObjectMap},
		{Options{Body: BodyJSON, EventBody: EventObject}, event, nil, ObjectJSON},
		{Options{Body: BodySummary}, sentence, nil, ObjectNone},
		{Options{Body: BodySummary, Object: ObjectMap}, sentence, object, ObjectMap},
		{Options{Body: BodyNone}, nil, nil, ObjectNone},
		{Options{Body: BodyNone, Object: ObjectJSON}, nil, event, ObjectJSON},
	} {
		record := eventFrom(t, c.options, events, event)
		assert.Equal(t, pretty(c.body), pretty(record.Body().AsRaw()), "%+v", c.options)
		assert.Equal(t, pretty(c.attribute), pretty(record.Attributes().AsRaw()["k8s.object.manifest"]), "%+v", c.options)
		assert.Equal(t, c.form, NewBuilder(c.options).objectForm(&watchlist.Change{Scope: events}), "%+v", c.options)
	}
}
