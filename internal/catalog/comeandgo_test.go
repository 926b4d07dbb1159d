package catalog_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func pattern(name string, includeAggregated bool, exclude ...string) catalog.Spec {
	return catalog.Spec{Pattern: catalog.ParsePattern(name).Excluding(exclude, includeAggregated), Key: "resources[0]"}
}

// What can be neither listed nor watched, or cannot be discovered, is not selected, and what another server serves only if
// that is configured or cannot be found out.
func TestPatternSelects(t *testing.T) {
	always := []string{"Pod v1/pods", "Node v1/nodes", "Deployment apps/v1/deployments", "Deployment extensions.other.io/v1/deployments"}
	const aggregatedOne = "Thing aggregated.example.com/v1/things"
	list := `{"kind":"APIServiceList","items":[` +
		`{"spec":{"group":"aggregated.example.com","version":"v1","service":{"name":"x"}}},{"spec":{"group":"extensions.other.io","version":"v1"}}]}`
	for name, c := range map[string]struct {
		apiServices func(time.Duration) string
		spec        catalog.Spec
		want        []string
	}{
		"each can be got":    {nil, pattern("*", false), always},
		"they can be listed": {func(time.Duration) string { return list }, pattern("*", false), always},
		"included":           {nil, pattern("*", true), append(always, aggregatedOne)},
		"no right to see":    {func(time.Duration) string { return "403" }, pattern("*", false), append(always, aggregatedOne)},
		"unknown":            {func(time.Duration) string { return "500" }, pattern("*", false), always[:3]},
		"unknown at first": {func(since time.Duration) string {
			if since < time.Minute {
				return "500"
			}
			return list
		}, pattern("*", false), always},
		"excluded": {nil, pattern("*", false, "*.*"), always[:2]},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := runCatalog(t, &apiServer{apiServices: c.apiServices}, 0, 3*time.Minute, c.spec)
				var started []string
				for _, reader := range r.readers {
					_, what, _ := strings.Cut(reader, " ")
					started = append(started, what)
				}
				assert.ElementsMatch(t, c.want, started)
			})
		})
	}
}

// A definition that appears is noticed at once, and one that is deleted ends the reader.
func TestDefinitionsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{
			widgets: func(since time.Duration) bool {
				return since > time.Minute+time.Second && since < 2*time.Minute || since > 3*time.Minute
			},
			definitions: []timedEvent{
				crd(time.Minute, "ADDED", "first", 10), crd(2*time.Minute, "DELETED", "first", 20), crd(3*time.Minute, "ADDED", "second", 30),
			},
		}
		r := runCatalog(t, server, 0, 4*time.Minute, pattern("*.example.com", false))
		assert.Equal(t, []string{"1m1s Widget example.com/v1/widgets", "3m0s Widget example.com/v1/widgets"}, r.readers)
		var types []watchlist.Type
		for _, c := range r.taken.changes {
			if c.Object.UID != "" {
				types = append(types, c.Type)
			}
		}
		assert.Equal(t, []watchlist.Type{watchlist.Snapshot, watchlist.Deleted, watchlist.Snapshot}, types)
		for _, err := range r.reports {
			assert.NoError(t, err)
		}
	})
}

// A resource that is defined again at once is another one, even if nothing was ever seen to be missing.
func TestDefinitionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{
			widgets:     func(time.Duration) bool { return true },
			definitions: []timedEvent{crd(2*time.Minute, "DELETED", "first", 20), crd(2*time.Minute, "ADDED", "second", 21)},
		}
		r := runCatalog(t, server, 0, 4*time.Minute, pattern("*.example.com", false))
		require.Len(t, r.readers, 2)
		assert.Regexp(t, "^2m[01]s Widget", r.readers[1])
		assert.Equal(t, 1, r.taken.deletions())
	})
}

// Without the right to watch definitions, discovery is asked every half a minute, and the right asked for rarely.
func TestDefinitionsThatCannotBeWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		server := &apiServer{
			widgets:     func(since time.Duration) bool { return since > 50*time.Second },
			definitions: []timedEvent{},
		}
		server.refuse = func(r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/customresourcedefinitions") {
				refused++
				return true
			}
			return false
		}
		r := runCatalog(t, server, 0, 20*time.Minute, pattern("*.example.com", false))
		assert.Equal(t, []string{"1m0s Widget example.com/v1/widgets"}, r.readers)
		assert.Less(t, refused, 7)
		assert.Equal(t, 1, r.logs.FilterMessageSnippet("new resources are noticed within half a minute").Len())
	})
}
