package watchlist

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// keepingEmitter takes everything and keeps it.
type keepingEmitter struct{ changes []Change }

func (e *keepingEmitter) Offer(c Change) bool {
	e.changes = append(e.changes, c)
	return true
}

func (*keepingEmitter) WaitForRoom(context.Context) error { return nil }

// suppressing is a reader that passes over what changes nothing, and what it emits.
func suppressing() (*Reader, *keepingEmitter) {
	emitter := &keepingEmitter{}
	r := bareReader()
	r.SuppressNoop, r.Emitter = true, emitter
	return r, emitter
}

func (r *Reader) readLive(t *testing.T, kind, metadata, rest string) {
	t.Helper()
	frame := fmt.Appendf(nil, `{"type":%q,"object":{"kind":"Odd","apiVersion":"example.com/v1","metadata":{"name":"a","uid":"odd-a",%s}%s}}`, kind, metadata, rest)
	require.NoError(t, r.liveFrame(t.Context(), &stream{}, frame, func(Key, version) {}))
}

func versionOf(n int) string { return fmt.Sprintf(`"resourceVersion":"%d"`, n) }

// The consumer refuses a record permanently after later versions with the same content were passed over. Nobody has the
// content, so that it is emitted again; but not if a record after that one brought another.
func TestWhatWasDroppedAfterItWasPassedOver(t *testing.T) {
	const red, green = `,"spec":"red"`, `,"spec":"green"`
	for name, c := range map[string]struct {
		contents []string // of the versions 5, 6, …
		records  int
		dropped  int // index of the record
		unknown  bool
	}{
		"the newest record":                      {[]string{red, green}, 2, 1, true},
		"passed over since":                      {[]string{red, green, green, green}, 2, 1, true},
		"passed over since it was added":         {[]string{red, red}, 1, 0, true},
		"another content since":                  {[]string{red, green}, 2, 0, false},
		"another content since, and passed over": {[]string{red, red, green, green}, 2, 0, false},
		"the same content since, in a record":    {[]string{red, green, red}, 3, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, emitter := suppressing()
			for i, content := range c.contents {
				kind := "MODIFIED"
				if i == 0 {
					kind = "ADDED"
				}
				r.readLive(t, kind, versionOf(5+i), content)
			}
			require.Len(t, emitter.changes, c.records)
			dropped := emitter.changes[c.dropped]
			r.Dropped([]Change{dropped})
			r.noteDrops()
			assert.Equal(t, c.unknown, r.inventory.hasUnknown())
			known, _ := r.inventory.get(dropped.Key)
			assert.Equal(t, c.unknown, known.none())

			r.readLive(t, "MODIFIED", versionOf(5+len(c.contents)), c.contents[len(c.contents)-1])
			emittedAgain := len(emitter.changes) > c.records
			assert.Equal(t, c.unknown, emittedAgain)
		})
	}
}

// What is passed over takes no part of the frame or of the object with it into the queue.
func TestPassedOverIsSmall(t *testing.T) {
	r, emitter := suppressing()
	r.Restore = func(context.Context, *scope.Scope, func(Stored)) (Progress, error) { return Progress{}, nil }
	r.readLive(t, "ADDED", versionOf(5), `,"spec":"red"`)
	r.readLive(t, "MODIFIED", versionOf(6), `,"spec":"red"`)
	require.Len(t, emitter.changes, 2)
	c := emitter.changes[1]
	assert.Equal(t, Unchanged, c.Type)
	assert.False(t, c.IsRecord())
	assert.True(t, c.Advances)
	assert.Equal(t, redact.Object{
		Identity: redact.Identity{UID: "odd-a", Name: "a", ResourceVersion: "6"}, Content: emitter.changes[0].Object.Content,
	}, c.Object)
}

func TestWhoChangedIt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC)
	entry := func(manager, operation, subresource string, secondsAgo int) string {
		return fmt.Sprintf(`{"manager":%q,"operation":%q,"subresource":%q,"time":%q}`, manager, operation, subresource,
			now.Truncate(time.Second).Add(-time.Duration(secondsAgo)*time.Second).Format(time.RFC3339))
	}
	metadata := func(rv int, more string, entries ...string) string {
		return versionOf(rv) + `,"managedFields":[` + strings.Join(entries, ",") + `]` + more
	}
	kubectl, controller, helm := entry("kubectl", "Apply", "", 9), entry("controller", "Update", "status", 9), entry("helm", "Update", "", 9)
	const scaler = `{"manager":"kubectl","operation":"Update","subresource":"scale"}`
	undated := []string{
		"a finalizer taken away, of which managedFields say nothing", "a label taken away after it was scaled",
		"scaled, of which the entry has no time",
	}
	for name, c := range map[string]struct {
		before, after       string // metadata
		restBefore, restNow string
		want                redact.Manager
		sections            string
	}{
		"the newest entry": {
			metadata(5, "", kubectl), metadata(6, "", kubectl, entry("scale", "Update", "scale", 0)),
			`,"spec":1`, `,"spec":2`, redact.Manager{Name: "scale", Operation: "Update", Subresource: "scale"}, "spec",
		},
		"the spec in the same second as the status": {
			metadata(5, "", kubectl), metadata(6, "", entry("kubectl", "Apply", "", 0), entry("controller", "Update", "status", 0)),
			`,"spec":1,"status":1`, `,"spec":2,"status":1`, redact.Manager{Name: "kubectl", Operation: "Apply"}, "spec",
		},
		"the status in the same second as the spec": {
			metadata(5, "", entry("kubectl", "Apply", "", 0)), metadata(6, "", entry("kubectl", "Apply", "", 0), entry("controller", "Update", "status", 0)),
			`,"spec":1,"status":1`, `,"spec":1,"status":2`, redact.Manager{Name: "controller", Operation: "Update", Subresource: "status"}, "status",
		},
		"the status, with an annotation, in the same second as the spec": {
			metadata(5, "", entry("kubectl", "Apply", "", 0)),
			metadata(6, `,"annotations":{"revision":"2"}`, entry("kubectl", "Apply", "", 0), entry("controller", "Update", "status", 0)),
			`,"spec":1,"status":1`, `,"spec":1,"status":2`, redact.Manager{Name: "controller", Operation: "Update", Subresource: "status"}, "metadata.annotations status",
		},
		"again within a second": {
			metadata(5, "", entry("controller", "Update", "status", 0)), metadata(6, "", entry("controller", "Update", "status", 0)),
			`,"status":1`, `,"status":2`, redact.Manager{Name: "controller", Operation: "Update", Subresource: "status"}, "status",
		},
		"a finalizer taken away, of which managedFields say nothing": {
			metadata(5, `,"finalizers":["x","y"]`, kubectl), metadata(6, `,"finalizers":["y"]`, kubectl), "", "", redact.Manager{}, "metadata.finalizers",
		},
		"deleted just after it was changed": {
			metadata(5, "", entry("kubectl", "Apply", "", 0)), metadata(6, `,"deletionTimestamp":"2026-01-02T03:04:05Z"`, entry("kubectl", "Apply", "", 0)),
			"", "", redact.Manager{}, "metadata.deletionTimestamp",
		},
		"scaled, of which the entry has no time": {
			metadata(5, "", helm), metadata(6, "", scaler, helm),
			`,"spec":1`, `,"spec":2`, redact.Manager{Name: "kubectl", Operation: "Update", Subresource: "scale"}, "spec",
		},
		"scaled just after another change": {
			metadata(5, "", entry("helm", "Update", "", 1)), metadata(6, "", scaler, entry("helm", "Update", "", 1)),
			`,"spec":1`, `,"spec":2`, redact.Manager{Name: "kubectl", Operation: "Update", Subresource: "scale"}, "spec",
		},
		"changed by another after it was scaled": {
			metadata(5, "", scaler, helm), metadata(6, "", scaler, entry("helm", "Update", "", 0)),
			`,"spec":1`, `,"spec":2`, redact.Manager{Name: "helm", Operation: "Update"}, "spec",
		},
		"a label taken away after it was scaled": {
			metadata(5, `,"labels":{"a":"b"}`, scaler, helm), metadata(6, "", scaler, helm), "", "", redact.Manager{}, "metadata.labels",
		},
		"one manager twice in the same second": {
			metadata(5, "", kubectl), metadata(6, "", entry("kubectl", "Update", "", 0), entry("kubectl", "Update", "scale", 0)),
			`,"spec":1`, `,"spec":2`, redact.Manager{Name: "kubectl", Operation: "Update", Subresource: "scale"}, "spec",
		},
		"no managedFields": {versionOf(5), versionOf(6), `,"spec":1`, `,"spec":2`, redact.Manager{}, "spec"},
		"no times":         {versionOf(5), metadata(6, "", `{"manager":"x"}`), `,"spec":1`, `,"spec":2`, redact.Manager{}, "spec"},
		"a secret in the name": {
			versionOf(5), metadata(6, "", entry("tool password=hunter2secret", "Update", "", 0)),
			`,"spec":1`, `,"spec":2`, redact.Manager{Name: redact.Masked, Operation: "Update"}, "spec",
		},
		"both, at different times": {
			metadata(5, "", kubectl, controller), metadata(6, "", entry("kubectl", "Apply", "", 0), controller),
			`,"spec":1`, `,"spec":2`, redact.Manager{Name: "kubectl", Operation: "Apply"}, "spec",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, emitter := suppressing()
			r.Now = func() time.Time { return now }
			r.readLive(t, "ADDED", c.before, c.restBefore)
			r.readLive(t, "MODIFIED", c.after, c.restNow)
			require.Len(t, emitter.changes, 2)
			assert.True(t, emitter.changes[0].Sections.IsEmpty(), "of an object that was added, nothing has changed")
			assert.Equal(t, c.want, emitter.changes[1].Manager)
			assert.Equal(t, c.sections, strings.Join(emitter.changes[1].Sections.Names(), " "))
			assert.Equal(t, slices.Contains(undated, name), emitter.changes[1].Undated, "whether managedFields say when it was")

			r.readLive(t, "DELETED", versionOf(9), "")
			assert.Equal(t, redact.Manager{}, emitter.changes[2].Manager, "managedFields do not say who deletes")
		})
	}
}

// A pod is assigned to a node in the second in which its ReplicaSet's controller created it. managedFields have no entry of the
// scheduler, and the controller did not do it.
func TestWhoAssignedIt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC)
	created := `,"managedFields":[{"manager":"kube-controller-manager","operation":"Update","time":"2026-01-02T03:04:05Z"}]`
	for resource, want := range map[string]redact.Manager{
		"pods":    {},
		"widgets": {Name: "kube-controller-manager", Operation: "Update"},
	} {
		r, emitter := suppressing()
		r.Now = func() time.Time { return now }
		r.Scope = scope.Scope{GroupResource: schema.GroupResource{Resource: resource}}
		r.readLive(t, "ADDED", versionOf(5)+created, `,"spec":{"x":1},"status":1`)
		r.readLive(t, "MODIFIED", versionOf(6)+created, `,"spec":{"x":1,"nodeName":"node-1"},"status":2`)
		require.Len(t, emitter.changes, 2)
		assert.Equal(t, want, emitter.changes[1].Manager, resource)
	}
}

func TestWhoAddedIt(t *testing.T) {
	r, emitter := suppressing()
	r.readLive(t, "ADDED", versionOf(5)+`,"managedFields":[{"manager":"kubectl","operation":"Apply","time":"2026-01-02T03:04:05Z"}]`, "")
	assert.Equal(t, redact.Manager{Name: "kubectl", Operation: "Apply"}, emitter.changes[0].Manager)
}

// Without suppression every version is emitted, and says which sections changed.
func TestEverythingIsEmitted(t *testing.T) {
	r, emitter := suppressing()
	r.SuppressNoop = false
	r.readLive(t, "ADDED", versionOf(5), `,"spec":1`)
	r.readLive(t, "MODIFIED", versionOf(6), `,"spec":1`)
	r.readLive(t, "MODIFIED", versionOf(7), `,"spec":2`)
	require.Len(t, emitter.changes, 3)
	assert.Empty(t, emitter.changes[1].Sections.Names())
	assert.Equal(t, []string{"spec"}, emitter.changes[2].Sections.Names())
}
