package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// recordSize returns how many bytes the record of a change takes, and the record.
func recordSize(t *testing.T, b *Builder, c watchlist.Change) (int, plog.LogRecord) {
	t.Helper()
	record := b.Build([]watchlist.Change{c}).ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	return (&plog.ProtoMarshaler{}).LogRecordSize(record), record
}

// What no record holds is not queued.
func TestObjectsThatAreNotInRecordsAreNotQueued(t *testing.T) {
	formats := func(s *scope.Scope) Format {
		switch s {
		case nodes:
			return FormatK8sObjects
		case events2:
			return FormatK8sEvents
		}
		return FormatWatchlist
	}
	for _, c := range []struct {
		options Options
		scope   *scope.Scope
		holds   bool
	}{
		{Options{}, pods, true},
		{Options{}, events, false},
		{Options{EventBody: EventObject}, events, true},
		{Options{EventBody: EventObject}, events2, false},
		{Options{Body: BodyJSON}, pods, true},
		{Options{Body: BodySummary}, pods, false},
		{Options{Body: BodySummary}, nodes, true},
		{Options{Body: BodySummary, Object: ObjectJSON}, pods, true},
		{Options{Body: BodySummary, Object: ObjectJSON}, events2, false},
		{Options{Body: BodyNone}, pods, false},
		{Options{Body: BodyNone}, events, false},
		{Options{Body: BodyNone, Object: ObjectMap}, events, true},
	} {
		c.options.FormatOf, c.options.MaxBytes = formats, 1<<20
		change := decoded(t, c.scope, watchlist.Modified, `{"kind":"Thing","metadata":{"name":"a"},"reason":"r","message":"m"}`)
		whole := change.Object.JSON
		b := NewBuilder(c.options)
		_, before := recordSize(t, b, change)
		b.Fit(&change)
		_, after := recordSize(t, b, change)
		assert.Equal(t, pretty(before.Attributes().AsRaw()), pretty(after.Attributes().AsRaw()))
		assert.Equal(t, pretty(before.Body().AsRaw()), pretty(after.Body().AsRaw()))
		if c.holds {
			assert.Equal(t, whole, change.Object.JSON, "%+v", c)
		} else {
			assert.Equal(t, noObject, change.Object.JSON, "%+v", c)
		}
		assert.Empty(t, change.Cut)
	}
	gone := watchlist.Change{Scope: pods, Type: watchlist.Deleted, Inferred: true, Object: redact.Object{Identity: pod().Identity}}
	NewBuilder(Options{Body: BodyNone}).Fit(&gone)
	assert.Empty(t, gone.Object.JSON, "only the identity is known")
}

// Entity events are made of the labels and owners of objects, also of those that are in no record.
func TestObjectsForEntityEvents(t *testing.T) {
	const object = `{"kind":"Pod","metadata":{"name":"a","labels":{"app":"web"},"annotations":{"a":"b"},"ownerReferences":[{"kind":"Job","name":"j"}]},"spec":{"a":1}}`
	for of, want := range map[*scope.Scope]string{
		pods:   `{"metadata":{"labels":{"app":"web"},"ownerReferences":[{"kind":"Job","name":"j"}]}}`,
		events: noObject,
	} {
		c := decoded(t, of, watchlist.Modified, object)
		NewBuilder(Options{Body: BodySummary, Entities: true}).Fit(&c)
		assert.Equal(t, want, c.Object.JSON)
	}
	for _, object := range []string{`{}`, `{"kind":"Pod","metadata":{"name":"a"}}`, `{"kind":"Pod","metadata":"x"}`} {
		c := decoded(t, pods, watchlist.Modified, object)
		NewBuilder(Options{Body: BodyNone, Entities: true}).Fit(&c)
		assert.Equal(t, `{"metadata":{}}`, c.Object.JSON)
	}
	c := decoded(t, pods, watchlist.Modified, object)
	NewBuilder(Options{Entities: true}).Fit(&c)
	assert.Contains(t, c.Object.JSON, "spec", "it is in the record")
}

// largeObjects are large for all reasons.
func largeObjects() map[string]string {
	numbers := strings.TrimSuffix(strings.Repeat("-1,", 150_000), ",")
	var small, members []string
	for i := range 5000 {
		small = append(small, fmt.Sprintf(`{"name":"n%d","value":%d.5}`, i, i))
		members = append(members, fmt.Sprintf(`"k%d":"some value"`, i))
	}
	const start = `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"7"`
	return map[string]string{
		"an annotation":           start + `,"annotations":{"a":"` + strings.Repeat("x", 300_000) + `"}}}`,
		"a string beyond ASCII":   start + `},"spec":{"text":"` + strings.Repeat("größer ", 50_000) + `"}}`,
		"a string with escapes":   start + `},"spec":{"text":"` + strings.Repeat(`\n\"`, 50_000) + `"}}`,
		"numbers":                 start + `},"spec":{"numbers":[` + numbers + `]}}`,
		"numbers in the status":   start + `},"status":{"numbers":[` + numbers + `]}}`,
		"small objects":           start + `},"spec":{"list":[` + strings.Join(small, ",") + `]}}`,
		"many members":            start + `},"data":{` + strings.Join(members, ",") + `}}`,
		"many members at the top": start + `},` + strings.Join(members, ",") + `}`,
		"many long strings":       start + `},"spec":{"a":["` + strings.Join(slices.Repeat([]string{strings.Repeat("y", 1000)}, 500), `","`) + `"]}}`,
		"small":                   start + `},"spec":{"a":1}}`,
	}
}

// Whatever makes an object large, its record fits, in every form, and what is left is valid.
func TestRecordsAreNotLargerThanTheyMayBe(t *testing.T) {
	k8sObjects := func(*scope.Scope) Format { return FormatK8sObjects }
	for name, object := range largeObjects() {
		for _, o := range []Options{
			{}, {Body: BodyJSON}, {Body: BodySummary, Object: ObjectJSON}, {Body: BodyNone, Object: ObjectMap}, {FormatOf: k8sObjects},
		} {
			whole := decoded(t, knative, watchlist.Modified, object)
			size, _ := recordSize(t, NewBuilder(o), whole)
			for _, most := range []int{1024, 2000, 16 << 10, 200_000, size - 1, size, 1 << 20, 0} {
				if most > 0 && most < 1024 {
					continue
				}
				o.MaxBytes = most
				b, c := NewBuilder(o), whole
				b.Fit(&c)
				fitted, record := recordSize(t, b, c)
				if most == 0 {
					assert.Equal(t, whole, c)
					continue
				}
				assert.LessOrEqual(t, fitted, most, "%s, %d of %d bytes: %+v", name, most, size, o)
				require.True(t, json.Valid([]byte(c.Object.JSON)) && utf8.ValidString(c.Object.JSON), name)
				truncated, isCut := record.Attributes().Get("k8s.record.truncated")
				if size > most {
					assert.True(t, isCut && truncated.Slice().Len() > 0, name)
				}
				if size+size/5+nesting < most {
					assert.False(t, isCut, "%s, %d of %d bytes", name, size, most)
				}
				for key, want := range map[string]string{"name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "7"} {
					assert.Contains(t, c.Object.JSON, fmt.Sprintf("%q:%q", key, want), name)
				}
			}
		}
	}
}

// The message of an Event may be as large as the Event, and is cut as a text.
func TestMessagesAreCut(t *testing.T) {
	message := strings.Repeat("größer ", 20_000)
	event := `{"kind":"Event","metadata":{"name":"e","namespace":"shop","uid":"u"},"involvedObject":{"kind":"Pod","name":"p"},"reason":"r","message":"` + message + `"}`
	k8sEvents := func(*scope.Scope) Format { return FormatK8sEvents }
	for _, o := range []Options{
		{}, {Body: BodySummary}, {Body: BodySummary, Object: ObjectJSON}, {Body: BodySummary, Object: ObjectMap}, {EventBody: EventObject}, {FormatOf: k8sEvents},
	} {
		for _, most := range []int{1024, 10_000, 100_000} {
			o.MaxBytes = most
			b, c := NewBuilder(o), decoded(t, events, watchlist.Modified, event)
			b.Fit(&c)
			size, record := recordSize(t, b, c)
			assert.LessOrEqual(t, size, most, "%+v", o)
			assert.Equal(t, []string{"message"}, c.Cut, "%+v", o)
			if o.EventBody == EventObject {
				continue
			}
			body := record.Body().Str()
			assert.True(t, utf8.ValidString(body))
			assert.Contains(t, body, "größer größer")
			assert.True(t, strings.HasSuffix(body, fmt.Sprintf("… [TRUNCATED len=%d]", len(message))), "%s", body[len(body)-50:])
			if o.Object == ObjectNone {
				assert.Greater(t, size, most-most/50-learnedLater, "no more is cut than needed")
			}
			assert.LessOrEqual(t, c.Bytes(), most, "what waits in the queue is small too")
		}
	}
	note := decoded(t, events2, watchlist.Modified, `{"kind":"Event","metadata":{"name":"e"},"note":"`+message+`"}`)
	NewBuilder(Options{MaxBytes: 2000}).Fit(&note)
	assert.Equal(t, []string{"note"}, note.Cut)
}

// Attributes are not cut: if they are too large, nothing but the identity is left beside them.
func TestAttributesThatAreTooLarge(t *testing.T) {
	event := `{"kind":"Event","metadata":{"name":"e","namespace":"shop","uid":"u"},"reason":"` + strings.Repeat("r", 50_000) + `","message":"` + strings.Repeat("m", 50_000) + `"}`
	for _, o := range []Options{{MaxBytes: 2000}, {MaxBytes: 2000, EventBody: EventObject}} {
		c := decoded(t, events, watchlist.Modified, event)
		b := NewBuilder(o)
		b.Fit(&c)
		size, record := recordSize(t, b, c)
		assert.Less(t, size, 51_000)
		assert.Len(t, record.Attributes().AsRaw()["k8s.event.reason"], 50_000)
		assert.NotEmpty(t, c.Cut)
	}
}

// That the workload of a pod becomes known while the change waits does not make the record too large.
func TestWorkloadsThatAreLearnedLater(t *testing.T) {
	const uid = "6d7c1b6e-0000-4000-8000-000000000001"
	name := strings.Repeat("n", 253)
	for _, most := range []int{4096, 4097, 5000} {
		c := decoded(t, pods, watchlist.Modified, `{"kind":"Pod","metadata":{"name":"p","namespace":"shop","uid":"u","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"x","uid":"`+uid+`","controller":true}]},"spec":{"a":"`+strings.Repeat("x", 1000)+`","b":[`+strings.TrimSuffix(strings.Repeat(`"yyyyyyyyyyyyyyyyy",`, 300), ",")+`]}}`)
		b := NewBuilder(Options{Body: BodyJSON, MaxBytes: most})
		b.Fit(&c)
		set := watchlist.Change{Scope: of("replicasets.apps"), Type: watchlist.Added, Object: redact.Object{
			Identity: redact.Identity{UID: uid}, Owner: redact.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: uid, Controls: true}, JSON: "{}",
		}}
		b.Build([]watchlist.Change{set})
		size, record := recordSize(t, b, c)
		assert.Equal(t, name, record.Attributes().AsRaw()["k8s.deployment.name"])
		assert.LessOrEqual(t, size, most)
	}
}
