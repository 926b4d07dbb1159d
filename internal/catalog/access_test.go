package catalog_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

func podsAmong(labels string, namespaces ...string) catalog.Spec {
	return catalog.Expand(0, "pods", catalog.Spec{Namespaces: namespaces, NamespaceLabels: labels})[0]
}

var nodes = catalog.Expand(1, "nodes", catalog.Spec{})[0]

// The reader of namespaces that are selected by labels starts as soon as these are known.
func TestLabelsOfNamespacesAreNeededFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{namespaces: []timedEvent{namespace(0, "ADDED", "shop", 5)}}
		since := time.Now()
		server.refuse = func(r *http.Request) bool {
			return r.URL.Path == "/api/v1/namespaces" && time.Since(since) < time.Minute
		}
		r := runCatalog(t, server, 0, 15*time.Minute, podsAmong("env=prod"), nodes)
		require.Len(t, r.readers, 2)
		assert.Equal(t, "0s Node v1/nodes", r.readers[0], "other resources are read")
		assert.Contains(t, r.readers[1], "Pod v1/pods")
		at, err := time.ParseDuration(strings.Fields(r.readers[1])[0])
		require.NoError(t, err)
		assert.Greater(t, at, time.Minute)
		assert.Empty(t, failing(r), "it was asked again")
		warnings := r.logs.FilterLevelExact(zapcore.WarnLevel).All()
		require.Len(t, warnings, 1)
		cause, _ := warnings[0].ContextMap()["error"].(string)
		assert.Contains(t, cause, `resources[0].namespace_label_selector: the resource is not read: grant list and watch on namespaces (API group "") in all namespaces by a ClusterRole`)
	})
}

// Where the right to read all namespaces is missing, those that are selected are read one by one, as they come and go.
func TestSelectedNamespacesAreReadOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{
			refuse: func(r *http.Request) bool { return r.URL.Path == "/api/v1/pods" },
			namespaces: []timedEvent{
				namespace(0, "ADDED", "team-a", 5), namespace(0, "ADDED", "shop", 6),
				namespace(time.Minute, "ADDED", "team-b", 8), namespace(time.Minute, "ADDED", "pay", 9),
				namespace(2*time.Minute, "DELETED", "team-a", 10), namespace(3*time.Minute, "ADDED", "team-a", 11),
			},
		}
		r := runCatalog(t, server, 0, 10*time.Minute, podsAmong("", "team-*", "web"))
		assert.Equal(t, []string{"0s Pod v1/pods in team-a", "1m0s Pod v1/pods in team-b", "3m0s Pod v1/pods in team-a"}, r.readers)
		assert.Empty(t, failing(r))
		warnings := r.logs.FilterLevelExact(zapcore.WarnLevel).All()
		require.Len(t, warnings, 1)
		assert.Contains(t, warnings[0].Message, `grant list and watch on pods (API group "") in all namespaces by a ClusterRole`)
	})
}

// Without the right to watch namespaces, only those can be read that are named.
func TestNamedNamespacesAreReadOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{refuse: func(r *http.Request) bool {
			return r.URL.Path == "/api/v1/pods" || r.URL.Path == "/api/v1/namespaces"
		}}
		spec := podsAmong("", "team-*", "web")
		r := runCatalog(t, server, 0, 10*time.Minute, spec)
		assert.Equal(t, []string{"0s Pod v1/pods in web"}, r.readers)
		require.Len(t, failing(r), 1)
		for _, err := range failing(r) {
			assert.ErrorContains(t, err, "resources[0]: only namespaces that are named are read")
			assert.ErrorContains(t, err, `grant list and watch on pods (API group "") in all namespaces by a ClusterRole, or list and watch on namespaces`)
		}
	})
}

// Without any right nothing is read, and it is tried again every five minutes.
func TestNoRightInAnyNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		since := time.Now()
		server.refuse = func(r *http.Request) bool {
			return r.URL.Path == "/api/v1/namespaces" || r.URL.Path == "/api/v1/pods" && time.Since(since) < 7*time.Minute
		}
		r := runCatalog(t, server, 0, 30*time.Minute, podsAmong("", "team-*"), nodes)
		require.Len(t, r.readers, 2)
		assert.Equal(t, "0s Node v1/nodes", r.readers[0])
		at, err := time.ParseDuration(strings.Fields(r.readers[1])[0])
		require.NoError(t, err)
		assert.Greater(t, at, 7*time.Minute)
		assert.Less(t, at, 18*time.Minute)
		assert.Empty(t, failing(r))
	})
}

// Which namespaces are read one by one is known to what asks for the options of a reader, but claims no checkpoint.
func TestReadingOneByOne(t *testing.T) {
	spec := podsAmong("", "team-*")
	one := scope.New(schema.GroupResource{Resource: "pods"}, "team-a", "", "")
	assert.Zero(t, catalog.Reading([]catalog.Spec{spec}, one))
	assert.False(t, catalog.Reads([]catalog.Spec{spec}, one))
	assert.Equal(t, -1, catalog.Reading([]catalog.Spec{spec}, scope.New(schema.GroupResource{Resource: "pods"}, "shop", "", "")))
}

// failing returns what is reported to fail at the end.
func failing(r *run) map[string]error {
	found := map[string]error{}
	for key, err := range r.reports {
		if err != nil {
			found[key] = err
		}
	}
	return found
}
