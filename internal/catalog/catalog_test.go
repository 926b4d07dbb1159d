package catalog_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/pipenet"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// apiServer serves discovery, and streams without objects for what it serves.
type apiServer struct {
	began   time.Time
	widgets func(since time.Duration) bool   // whether widgets.example.com is served
	version func(since time.Duration) string // in which version

	mu     sync.Mutex
	listed []string // paths
}

func (s *apiServer) lists() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.listed)
}

func (s *apiServer) widgetVersion() string {
	if s.version == nil {
		return "v1"
	}
	return s.version(time.Since(s.began))
}

const verbs = `"verbs":["get","list","watch"]`

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	widgets := s.widgets != nil && s.widgets(time.Since(s.began))
	switch {
	case r.URL.Path == "/api":
		s.discovery(w, `{"metadata":{},"versions":[{"version":"v1","resources":[`+
			`{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced",`+verbs+`},`+
			`{"resource":"nodes","responseKind":{"kind":"Node"},"scope":"Cluster",`+verbs+`},`+
			`{"resource":"bindings","responseKind":{"kind":"Binding"},"scope":"Namespaced","verbs":["create"]}]}]}`)
	case r.URL.Path == "/apis":
		groups := []string{
			group("apps", "deployments", "Deployment"),
			group("extensions.other.io", "deployments", "Deployment"),
			group("down.example.com", "", ""),
			group("aggregated.example.com", "things", "Thing"),
		}
		if widgets {
			widget := group("example.com", "widgets", "Widget")
			groups = append(groups, strings.Replace(widget, `"version":"v1"`, fmt.Sprintf(`"version":%q`, s.widgetVersion()), 1))
		}
		s.discovery(w, strings.Join(groups, ","))
	case strings.HasPrefix(r.URL.Path, "/apis/apiregistration.k8s.io/"):
		if strings.HasSuffix(r.URL.Path, "/v1.aggregated.example.com") {
			fmt.Fprint(w, `{"spec":{"service":{"name":"x","namespace":"y"}}}`)
			return
		}
		fmt.Fprint(w, `{"spec":{}}`)
	case strings.Contains(r.URL.Path, "/example.com/") && (!widgets || !strings.Contains(r.URL.Path, "/"+s.widgetVersion()+"/")):
		http.Error(w, "404 page not found", http.StatusNotFound)
	case r.URL.Query().Get("watch") == "":
		s.mu.Lock()
		s.listed = append(s.listed, r.URL.Path)
		s.mu.Unlock()
		fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`)
	default:
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			if strings.HasSuffix(r.URL.Path, "/widgets") {
				fmt.Fprint(w, `{"type":"ADDED","object":{"metadata":{"name":"w","uid":"uid-of-w","resourceVersion":"5"}}}`+"\n")
			}
			fmt.Fprint(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	}
}

func group(name, resource, kind string) string {
	if resource == "" {
		return fmt.Sprintf(`{"metadata":{"name":%q},"versions":[{"version":"v1","freshness":"Stale"}]}`, name)
	}
	return fmt.Sprintf(`{"metadata":{"name":%q},"versions":[{"version":"v1","resources":[{"resource":%q,"responseKind":{"kind":%q},"scope":"Namespaced",%s}]}]}`,
		name, resource, kind, verbs)
}

func (s *apiServer) discovery(w http.ResponseWriter, items string) {
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	fmt.Fprintf(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[%s]}`, items)
}

// run lets a catalog run for a time, and returns what it did.
type run struct {
	readers []string // in the order they were started, with the time
	reports map[string]error
	logs    *observer.ObservedLogs
	taken   taken
}

func runCatalog(t *testing.T, server *apiServer, down, length time.Duration, specs ...catalog.Spec) *run {
	t.Helper()
	began := time.Now()
	server.began = began
	network := pipenet.New()
	network.RefuseUntil = began.Add(down)
	stop := network.Serve(server)
	client, err := kubeclient.New(&rest.Config{Host: "http://apiserver", Dial: network.Dial, QPS: 1000, Burst: 1000})
	require.NoError(t, err)

	core, logs := observer.New(zapcore.InfoLevel)
	r := &run{reports: map[string]error{}, logs: logs}
	var mu sync.Mutex
	slots := make(chan struct{}, 3)
	c := catalog.New(catalog.Options{
		Specs:  specs,
		Server: client,
		NewReader: func(target catalog.Target) catalog.Reader {
			name := fmt.Sprintf("%s %s %s/%s", time.Since(began).Round(time.Second), target.API.Kind, target.API.APIVersion(target.Scope.Group), target.Scope.Resource)
			if target.Scope.Namespace != "" {
				name += " in " + target.Scope.Namespace
			}
			r.readers = append(r.readers, name)
			return watchlist.NewReader(watchlist.Options{
				Scope: target.Scope, API: target.API, Knowledge: target.Knowledge, Plan: redact.NewPlan(target.Scope.Group, target.Scope.Resource),
				Opener: client, Emitter: &r.taken, Served: target.Served, SnapshotSlots: slots, Now: time.Now, Logger: zap.NewNop(),
			})
		},
		Report: func(key string, err error) {
			mu.Lock()
			defer mu.Unlock()
			r.reports[key] = err
		},
		Logger: zap.New(core),
	})
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	c.Run(ctx)
	client.Close()
	stop()
	synctest.Wait()
	return r
}

// taken are the changes that the readers have emitted.
type taken struct {
	mu      sync.Mutex
	changes []watchlist.Change
}

func (q *taken) Offer(c watchlist.Change) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes = append(q.changes, c)
	return true
}

func (q *taken) WaitForRoom(ctx context.Context) error { return ctx.Err() }

func (q *taken) deletions() int {
	n := 0
	for _, c := range q.changes {
		if c.Type == watchlist.Deleted {
			n++
		}
	}
	return n
}

func TestReadersAreStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{}
		r := runCatalog(t, server, 0, time.Minute,
			catalog.Spec{GroupResource: schema.GroupResource{Resource: "pods"}, Key: "resources[0]"},
			catalog.Spec{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, GroupKnown: true, Namespaces: []string{"pay", "shop"}, Key: "resources[1]"},
			catalog.Spec{GroupResource: schema.GroupResource{Resource: "things"}, Key: "resources[2]"},
		)
		assert.Equal(t, []string{
			"0s Pod v1/pods",
			"0s Deployment apps/v1/deployments in pay",
			"0s Deployment apps/v1/deployments in shop",
			"0s Thing aggregated.example.com/v1/things",
		}, r.readers)
		assert.Equal(t, []string{"/apis/aggregated.example.com/v1/things"}, server.lists(), "another server may not stream the initial state")
		assert.Empty(t, r.reports)
		assert.Zero(t, r.logs.Len())
	})
}

func TestResourceThatIsInstalledLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{widgets: func(since time.Duration) bool { return since > 40*time.Second }}
		r := runCatalog(t, server, 0, 5*time.Minute,
			catalog.Spec{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Key: "resources[0]"},
			catalog.Spec{GroupResource: schema.GroupResource{Resource: "pods"}, Key: "resources[1]"},
		)
		assert.Equal(t, []string{"0s Pod v1/pods", "45s Widget example.com/v1/widgets"}, r.readers, "the missing one holds up no other")
		assert.Equal(t, 1, r.logs.Len(), "it is said once: %v", r.logs.All())
		assert.Equal(t, map[string]error{"resources[0] widgets.example.com": nil}, r.reports, "and it is well in the end")
	})
}

func TestResourceThatCannotBeRead(t *testing.T) {
	f := func(want string, spec catalog.Spec) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := runCatalog(t, &apiServer{}, 0, time.Minute, spec)
			assert.Empty(t, r.readers)
			require.Len(t, r.reports, 1)
			for _, err := range r.reports {
				assert.ErrorContains(t, err, want)
			}
			assert.Equal(t, 1, r.logs.Len())
		})
	}
	f("nodes is not namespaced: remove resources[3].namespaces", catalog.Spec{GroupResource: schema.GroupResource{Resource: "nodes"}, Namespaces: []string{"x"}, Key: "resources[3]"})
	f("write deployments.apps or deployments.extensions.other.io", catalog.Spec{GroupResource: schema.GroupResource{Resource: "deployments"}, Key: "resources[0]"})
	f("bindings can be neither watched nor listed", catalog.Spec{GroupResource: schema.GroupResource{Resource: "bindings"}, Key: "resources[0]"})
	f("cannot discover down.example.com/v1", catalog.Spec{GroupResource: schema.GroupResource{Group: "down.example.com", Resource: "gone"}, GroupKnown: true, Key: "resources[0]"})
	f("not served", catalog.Spec{GroupResource: schema.GroupResource{Resource: "pods"}, Version: "v2", Key: "resources[0]"})
}

// A resource that is gone takes its objects with it. One that is only served in another version does not.
func TestResourceThatIsRemoved(t *testing.T) {
	widgets := catalog.Spec{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Key: "resources[0]"}
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{widgets: func(since time.Duration) bool { return since < 30*time.Second }}
		assert.Equal(t, 1, runCatalog(t, server, 0, 5*time.Minute, widgets).taken.deletions())
	})
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{
			widgets: func(time.Duration) bool { return true },
			version: func(since time.Duration) string {
				if since < 30*time.Second {
					return "v1beta1"
				}
				return "v1"
			},
		}
		assert.Zero(t, runCatalog(t, server, 0, 5*time.Minute, widgets).taken.deletions())
	})
}

func TestServerThatIsDownAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runCatalog(t, &apiServer{}, 2*time.Minute, 5*time.Minute, catalog.Spec{GroupResource: schema.GroupResource{Resource: "pods"}, Key: "resources[0]"})
		require.Len(t, r.readers, 1)
		assert.True(t, strings.HasSuffix(r.readers[0], "Pod v1/pods"))
		var messages []string
		for _, entry := range r.logs.All() {
			messages = append(messages, entry.Message)
		}
		assert.Equal(t, []string{"cannot discover what the API server serves, will try again"}, slices.Compact(messages), "it is said once")
		assert.Len(t, messages, 1)
		assert.Equal(t, map[string]error{"discovery": nil}, r.reports)
	})
}
