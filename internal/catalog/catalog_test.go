package catalog_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// apiServer serves discovery, and streams without objects for its resources.
type apiServer struct {
	began    time.Time
	widgets  func(since time.Duration) bool     // whether widgets.example.com is served
	versions func(since time.Duration) []string // its versions, the preferred one first
	page     func(since time.Duration) bool     // whether a proxy answers every request with its own page

	// apiServices is the answer to a list of APIServices: a status, or a body. "" is one that nothing can be learned from.
	apiServices func(since time.Duration) string
	// definitions are the watch events of CRDs, each with the time at which it is sent; nil: CRDs are not served.
	definitions []timedEvent
	namespaces  []timedEvent             // the same of namespaces
	refuse      func(*http.Request) bool // whether to answer 403; may be nil

	mu          sync.Mutex
	listed      []string // paths
	watched     []string // paths, with the time
	discoveries int
}

type timedEvent struct {
	at    time.Duration
	event string
}

// crd returns a watch event of the CRD of a widgets resource.
func crd(at time.Duration, event, uid string, rv int) timedEvent {
	return timedEvent{at, fmt.Sprintf(`{"type":%q,"object":{"kind":"PartialObjectMetadata","metadata":{"name":"widgets.example.com","uid":%q,"resourceVersion":"%d"}}}`, event, uid, rv)}
}

// namespace returns a watch event of a namespace.
func namespace(at time.Duration, event, name string, rv int) timedEvent {
	return timedEvent{at, fmt.Sprintf(`{"type":%q,"object":{"kind":"PartialObjectMetadata","metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"}}}`, event, name, name, rv)}
}

func (s *apiServer) lists() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.listed)
}

func (s *apiServer) widgetVersions() []string {
	if s.versions == nil {
		return []string{"v1"}
	}
	return s.versions(time.Since(s.began))
}

const verbs = `"verbs":["get","list","watch"]`

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	widgets := s.widgets != nil && s.widgets(time.Since(s.began))
	switch {
	case s.refuse != nil && s.refuse(r):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
	case s.page != nil && s.page(time.Since(s.began)):
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<html><title>default backend</title></html>")
	case r.URL.Path == "/api":
		s.mu.Lock()
		s.discoveries++
		s.mu.Unlock()
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
		if s.definitions != nil {
			groups = append(groups, group("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"))
		}
		if widgets {
			groups = append(groups, group("example.com", "widgets", "Widget", s.widgetVersions()...))
		}
		s.discovery(w, strings.Join(groups, ","))
	case s.apiServices != nil && strings.HasPrefix(r.URL.Path, "/apis/apiregistration.k8s.io/"):
		answer := s.apiServices(time.Since(s.began))
		if status, err := strconv.Atoi(answer); err == nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			answer = fmt.Sprintf(`{"kind":"Status","status":"Failure","message":"no","code":%d}`, status)
		}
		fmt.Fprint(w, answer)
	case strings.HasSuffix(r.URL.Path, "/customresourcedefinitions") && s.definitions != nil:
		s.watch(w, r, s.definitions)
	case r.URL.Path == "/api/v1/namespaces":
		s.watch(w, r, s.namespaces)
	case strings.HasPrefix(r.URL.Path, "/apis/apiregistration.k8s.io/"):
		if strings.HasSuffix(r.URL.Path, "/v1.aggregated.example.com") {
			fmt.Fprint(w, `{"spec":{"service":{"name":"x","namespace":"y"}}}`)
			return
		}
		fmt.Fprint(w, `{"spec":{}}`)
	case strings.Contains(r.URL.Path, "/example.com/") && (!widgets || !slices.Contains(s.widgetVersions(), strings.Split(r.URL.Path, "/")[3])):
		http.Error(w, "404 page not found", http.StatusNotFound)
	case r.URL.Query().Get("watch") == "":
		s.mu.Lock()
		s.listed = append(s.listed, r.URL.Path)
		s.mu.Unlock()
		fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`)
	default:
		s.mu.Lock()
		watched := fmt.Sprintf("%s %s", time.Since(s.began).Round(time.Second), r.URL.Path)
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			watched += " initial"
		}
		s.watched = append(s.watched, watched)
		s.mu.Unlock()
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

// watch streams events at their times, those at 0 in the initial state.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, events []timedEvent) {
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, e := range events {
			if e.at == 0 {
				fmt.Fprintln(w, e.event)
			}
		}
		fmt.Fprint(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
	}
	w.(http.Flusher).Flush()
	for _, e := range events {
		wait := time.Until(s.began.Add(e.at))
		if wait < 0 || e.at == 0 {
			continue
		}
		select {
		case <-time.After(wait):
			fmt.Fprintln(w, e.event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
	select {
	case <-r.Context().Done():
	case <-time.After(time.Minute):
	}
}

func group(name, resource, kind string, versions ...string) string {
	if resource == "" {
		return fmt.Sprintf(`{"metadata":{"name":%q},"versions":[{"version":"v1","freshness":"Stale"}]}`, name)
	}
	if len(versions) == 0 {
		versions = []string{"v1"}
	}
	var served []string
	for _, version := range versions {
		served = append(served, fmt.Sprintf(`{"version":%q,"resources":[{"resource":%q,"responseKind":{"kind":%q},"scope":"Namespaced",%s}]}`,
			version, resource, kind, verbs))
	}
	return fmt.Sprintf(`{"metadata":{"name":%q},"versions":[%s]}`, name, strings.Join(served, ","))
}

func (s *apiServer) discovery(w http.ResponseWriter, items string) {
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	fmt.Fprintf(w, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[%s]}`, items)
}

// run is the result of a catalog that ran for some time.
type run struct {
	readers []string // in the order they were started, with the time
	reports map[string]error
	logs    *observer.ObservedLogs // of the catalog
	read    *observer.ObservedLogs // of the readers
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
	readerCore, read := observer.New(zapcore.InfoLevel)
	r := &run{reports: map[string]error{}, logs: logs, read: read}
	var mu sync.Mutex
	slots := watchlist.NewSlots(3)
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
				Selected: target.Selected, Scope: target.Scope, API: target.API, Knowledge: target.Knowledge, Plan: redact.NewPlan(target.Scope.Group, target.Scope.Resource),
				Opener: client, Emitter: &r.taken, Served: target.Served, UntilGone: true, Optional: target.ByPattern, SnapshotSlots: slots, Now: time.Now, Logger: zap.New(readerCore),
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

// taken holds the changes that the readers have emitted.
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

func (q *taken) objects() int {
	n := 0
	for _, c := range q.changes {
		if c.Object.UID != "" {
			n++
		}
	}
	return n
}

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
		assert.Contains(t, server.lists(), "/apis/aggregated.example.com/v1/things")
		for _, watched := range server.watched {
			assert.NotContains(t, watched, "things initial", "another server may not stream the initial state")
		}
		assert.Empty(t, r.reports)
		assert.Zero(t, r.logs.Len())
	})
}

// Names are read one by one; patterns and exclusions select namespaces of all.
func TestNamespacesOfReaders(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	spec := func(namespaces, exclude []string) catalog.Spec {
		return catalog.Spec{GroupResource: pods, GroupKnown: true, Namespaces: namespaces, ExcludeNamespaces: exclude}
	}
	labelled := spec([]string{"shop"}, nil)
	labelled.NamespaceLabels = "env in (prod)"
	for _, c := range []struct {
		spec   catalog.Spec
		scopes []string
	}{
		{labelled, []string{"pods in namespaces shop;env=prod"}},
		{spec(nil, nil), []string{"pods"}},
		{spec([]string{"pay", "shop"}, nil), []string{"pods in namespace pay", "pods in namespace shop"}},
		{spec([]string{"shop", "team-*"}, nil), []string{"pods in namespaces shop,team-*"}},
		{spec([]string{"team-*"}, []string{"team-x"}), []string{"pods in namespaces team-*,!team-x"}},
		{spec(nil, []string{"kube-*"}), []string{"pods in namespaces !kube-*"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			network := pipenet.New()
			stop := network.Serve(&apiServer{began: time.Now()})
			client, err := kubeclient.New(&rest.Config{Host: "http://apiserver", Dial: network.Dial, QPS: 1000, Burst: 1000})
			require.NoError(t, err)
			defer func() {
				client.Close()
				stop()
				synctest.Wait()
			}()
			resolved, failures, err := catalog.Resolve(t.Context(), []catalog.Spec{c.spec}, client)
			require.NoError(t, err)
			require.Empty(t, failures)
			var scopes []string
			for _, r := range resolved {
				scopes = append(scopes, r.Scope.String())
				assert.Zero(t, catalog.Reading([]catalog.Spec{c.spec}, r.Scope))
				assert.True(t, catalog.Reads([]catalog.Spec{c.spec}, r.Scope))
			}
			assert.Equal(t, c.scopes, scopes)
		})
	}
	assert.Equal(t, -1, catalog.Reading([]catalog.Spec{spec(nil, []string{"kube-*"})}, scope.New(pods, "", "", "")))

	pattern := catalog.Spec{Pattern: catalog.ParsePattern("*").Excluding(nil, false), ExcludeNamespaces: []string{"kube-*"}}
	custom := scope.New(schema.GroupResource{Group: "example.com", Resource: "widgets"}, "", "", "")
	assert.Zero(t, catalog.Reading([]catalog.Spec{pattern}, custom), "it may be in no namespace")
	assert.False(t, catalog.Reads([]catalog.Spec{pattern}, custom), "which is not certain")
	assert.Zero(t, catalog.Reading([]catalog.Spec{pattern}, custom.In(scope.ParseNamespaces("!kube-*"))))
	assert.True(t, catalog.Reads([]catalog.Spec{pattern}, scope.New(schema.GroupResource{Resource: "nodes"}, "", "", "")))
	assert.Equal(t, -1, catalog.Reading([]catalog.Spec{pattern}, scope.New(pods, "", "", "")))
}

func TestResourceThatIsInstalledLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{widgets: func(since time.Duration) bool { return since > 40*time.Second }}
		r := runCatalog(t, server, 0, 5*time.Minute,
			catalog.Spec{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Key: "resources[0]"},
			catalog.Spec{GroupResource: schema.GroupResource{Resource: "pods"}, Key: "resources[1]"},
		)
		assert.Equal(t, []string{"0s Pod v1/pods", "45s Widget example.com/v1/widgets"}, r.readers, "the missing one does not delay the other")
		assert.Equal(t, 1, r.logs.Len(), "it is logged once: %v", r.logs.All())
		assert.Equal(t, map[string]error{"resources[0] widgets.example.com": nil}, r.reports, "and it is healthy in the end")
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

// When a resource is gone, so are its objects, but not if it is only served in another version.
func TestResourceThatIsRemoved(t *testing.T) {
	widgets := catalog.Spec{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Key: "resources[0]"}
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{widgets: func(since time.Duration) bool { return since < 30*time.Second }}
		assert.Equal(t, 1, runCatalog(t, server, 0, 5*time.Minute, widgets).taken.deletions())
	})
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{
			widgets: func(time.Duration) bool { return true },
			versions: func(since time.Duration) []string {
				if since < 30*time.Second {
					return []string{"v1beta1"}
				}
				return []string{"v1"}
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
		assert.Equal(t, []string{"cannot discover what the API server serves, will try again"}, slices.Compact(messages), "it is logged once")
		assert.Len(t, messages, 1)
		assert.Equal(t, map[string]error{"discovery": nil}, r.reports)
	})
}

// While several versions are served, the one that the server prefers is read, so that the others can be retired.
func TestPreferredVersionIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{
			widgets: func(time.Duration) bool { return true },
			versions: func(since time.Duration) []string {
				switch {
				case since < 2*time.Minute:
					return []string{"v1alpha1"}
				case since < 20*time.Minute:
					return []string{"v1", "v1alpha1"}
				}
				return []string{"v1"}
			},
		}
		r := runCatalog(t, server, 0, 30*time.Minute,
			catalog.Spec{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Key: "resources[0]"})
		assert.Equal(t, 1, r.taken.objects(), "the object of the initial state, once")
		assert.Len(t, r.read.FilterMessage("resource is served in another version, continuing with it").All(), 1)
		for _, watched := range server.watched {
			at, path, _ := strings.Cut(watched, " ")
			if since, _ := time.ParseDuration(at); since > 8*time.Minute {
				assert.Contains(t, path, "/v1/", "the old version is still read at %s", at)
			}
		}
	})
}

// A pinned version is kept.
func TestPinnedVersionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{
			widgets:  func(time.Duration) bool { return true },
			versions: func(time.Duration) []string { return []string{"v1", "v1alpha1"} },
		}
		runCatalog(t, server, 0, 20*time.Minute, catalog.Spec{
			GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Version: "v1alpha1", Key: "resources[0]",
		})
		for _, watched := range server.watched {
			assert.Contains(t, watched, "/v1alpha1/")
		}
	})
}

// A proxy's page for every path proves nothing about any object.
func TestPageForEveryPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{
			widgets: func(time.Duration) bool { return true },
			page:    func(since time.Duration) bool { return since > 2*time.Minute && since < 5*time.Minute },
		}
		r := runCatalog(t, server, 0, 20*time.Minute,
			catalog.Spec{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Key: "resources[0]"})
		assert.Equal(t, 1, r.taken.objects(), "the object of the initial state, once")
		assert.Zero(t, r.taken.deletions())
	})
}

// One discovery that lacks a resource proves nothing: an API server that starts lists its groups one by one.
func TestResourceThatIsBrieflyMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{widgets: func(since time.Duration) bool { return since < 2*time.Minute || since > 2*time.Minute+20*time.Second }}
		r := runCatalog(t, server, 0, 20*time.Minute,
			catalog.Spec{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Key: "resources[0]"})
		assert.Zero(t, r.taken.deletions())
		assert.Equal(t, 1, r.taken.objects())
	})
}

// Readers that are answered 404 at the same time share one discovery.
func TestDiscoveryIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{widgets: func(since time.Duration) bool { return since < 90*time.Second }}
		var namespaces []string
		for i := range 100 {
			namespaces = append(namespaces, fmt.Sprint("ns-", i))
		}
		r := runCatalog(t, server, 0, 4*time.Minute,
			catalog.Spec{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Namespaces: namespaces, Key: "resources[0]"})
		assert.Equal(t, 100, r.taken.deletions())
		assert.Less(t, server.discoveries, 40)
	})
}

// Resolve answers at once what a catalog would read.
func TestResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := pipenet.New()
		stop := network.Serve(&apiServer{began: time.Now()})
		client, err := kubeclient.New(&rest.Config{Host: "http://apiserver", Dial: network.Dial, QPS: 1000, Burst: 1000})
		require.NoError(t, err)
		specs := append(catalog.Expand(0, "pods", catalog.Spec{Namespaces: []string{"b", "a"}}), pattern("*", false, "nodes"))
		specs = append(specs, catalog.Expand(2, "nothings.example.com", catalog.Spec{})...)
		resolved, failures, err := catalog.Resolve(t.Context(), specs, client)
		require.NoError(t, err)
		var found []string
		for _, r := range resolved {
			found = append(found, r.Spec.Key+" "+r.API.Version+" "+r.Scope.String())
		}
		assert.Equal(t, []string{
			"resources[0] v1 pods in namespace a", "resources[0] v1 pods in namespace b",
			"resources[0] v1 deployments.apps", "resources[0] v1 deployments.extensions.other.io",
		}, found)
		require.Len(t, failures, 1)
		assert.ErrorContains(t, failures[0], "nothings.example.com")
		client.Close()
		stop()
		synctest.Wait()
	})
}

func TestWholeGroup(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"*.cert-manager.io": "cert-manager.io", "*.apps": "", "*": "", "*.*": "", "*.*.istio.io": "", "cert*.cert-manager.io": "", "*.storage.k8s.io": "",
	} {
		group, ok := pattern(name, false).Pattern.WholeGroup()
		assert.Equal(t, want != "", ok, name)
		if ok {
			assert.Equal(t, want, group)
		}
	}
	_, ok := pattern("*.cert-manager.io", false, "orders.acme.cert-manager.io").Pattern.WholeGroup()
	assert.False(t, ok, "something is excluded")
}
