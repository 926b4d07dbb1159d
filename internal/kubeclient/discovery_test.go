package kubeclient

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// answers serves bodies by path, and 404 for others. A body that is a number is a status code.
type answers map[string]string

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch body, ok := a[r.URL.Path]; {
	case !ok:
		http.Error(w, "404 page not found", http.StatusNotFound)
	case body == "403":
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","status":"Failure","message":"forbidden by RBAC","reason":"Forbidden","code":403}`)
	case body == "503":
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, body)
	}
}

// Shortened answers of kube-apiserver 1.26 and later.
var aggregated = answers{
	"/api": `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[
		{"metadata":{"creationTimestamp":null},"versions":[{"version":"v1","freshness":"Current","resources":[
			{"resource":"pods","responseKind":{"group":"","version":"","kind":"Pod"},"scope":"Namespaced","singularResource":"pod","verbs":["get","list","watch"],
			 "subresources":[{"subresource":"log","responseKind":{"kind":"Pod"},"verbs":["get"]}]},
			{"resource":"events","responseKind":{"kind":"Event"},"scope":"Namespaced","verbs":["list","watch"]}]}]}]}`,
	"/apis": `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[
		{"metadata":{"name":"events.k8s.io"},"versions":[{"version":"v1","resources":[{"resource":"events","scope":"Namespaced","verbs":["list","watch"]}]}]},
		{"metadata":{"name":"autoscaling"},"versions":[
			{"version":"v2","freshness":"Current","resources":[{"resource":"horizontalpodautoscalers","responseKind":{"kind":"HorizontalPodAutoscaler"},"scope":"Namespaced","verbs":["watch"]}]},
			{"version":"v1","freshness":"Current","resources":[{"resource":"horizontalpodautoscalers","responseKind":{"kind":"HorizontalPodAutoscaler"},"scope":"Namespaced","verbs":["watch"]},
				{"resource":"olds","responseKind":{"kind":"Old"},"scope":"Cluster","verbs":["create"]}]}]},
		{"metadata":{"name":"networking.k8s.io"},"versions":[{"version":"v1","resources":[{"resource":"networkpolicies","responseKind":{"kind":"NetworkPolicy"},"scope":"Namespaced","verbs":["watch"]}]}]},
		{"metadata":{"name":"crd.projectcalico.org"},"versions":[{"version":"v1","resources":[{"resource":"networkpolicies","responseKind":{"kind":"NetworkPolicy"},"scope":"Namespaced","verbs":["watch"]}]}]},
		{"metadata":{"name":"metrics.k8s.io"},"versions":[{"version":"v1beta1","freshness":"Stale"}]}]}`,
}

// Answers of servers before 1.26, with the same resources.
var legacy = answers{
	"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
	"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["get","list","watch"]},{"name":"pods/log","namespaced":true,"kind":"Pod","verbs":["get"]},{"name":"events","namespaced":true,"kind":"Event","verbs":["list","watch"]}]}`,
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[
		{"name":"events.k8s.io","versions":[{"groupVersion":"events.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"events.k8s.io/v1","version":"v1"}},
		{"name":"autoscaling","versions":[{"groupVersion":"autoscaling/v1","version":"v1"},{"groupVersion":"autoscaling/v2","version":"v2"}],"preferredVersion":{"groupVersion":"autoscaling/v2","version":"v2"}},
		{"name":"networking.k8s.io","versions":[{"groupVersion":"networking.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"networking.k8s.io/v1","version":"v1"}},
		{"name":"crd.projectcalico.org","versions":[{"groupVersion":"crd.projectcalico.org/v1","version":"v1"}],"preferredVersion":{"groupVersion":"crd.projectcalico.org/v1","version":"v1"}},
		{"name":"metrics.k8s.io","versions":[{"groupVersion":"metrics.k8s.io/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"metrics.k8s.io/v1beta1","version":"v1beta1"}}]}`,
	"/apis/events.k8s.io/v1":         `{"kind":"APIResourceList","resources":[{"name":"events","namespaced":true,"kind":"Event","verbs":["list","watch"]}]}`,
	"/apis/autoscaling/v1":           `{"kind":"APIResourceList","resources":[{"name":"horizontalpodautoscalers","namespaced":true,"kind":"HorizontalPodAutoscaler","verbs":["watch"]},{"name":"olds","kind":"Old","verbs":["create"]}]}`,
	"/apis/autoscaling/v2":           `{"kind":"APIResourceList","resources":[{"name":"horizontalpodautoscalers","namespaced":true,"kind":"HorizontalPodAutoscaler","verbs":["watch"]},{"name":"horizontalpodautoscalers/status","kind":"HorizontalPodAutoscaler"}]}`,
	"/apis/networking.k8s.io/v1":     `{"kind":"APIResourceList","resources":[{"name":"networkpolicies","namespaced":true,"kind":"NetworkPolicy","verbs":["watch"]}]}`,
	"/apis/crd.projectcalico.org/v1": `{"kind":"APIResourceList","resources":[{"name":"networkpolicies","namespaced":true,"kind":"NetworkPolicy","verbs":["watch"]}]}`,
	"/apis/metrics.k8s.io/v1beta1":   "503",
}

func TestDiscover(t *testing.T) {
	for name, server := range map[string]answers{"aggregated": aggregated, "legacy": legacy} {
		t.Run(name, func(t *testing.T) {
			served, err := serve(t, server.ServeHTTP).Discover(t.Context())
			require.NoError(t, err)
			require.Len(t, served.Failed, 1)
			require.Error(t, served.Failed[schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}])

			pod := []Resource{{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Verbs: []string{"get", "list", "watch"}}}
			hpa := func(versions ...string) (resources []Resource) {
				for _, version := range versions {
					resources = append(resources, Resource{Group: "autoscaling", Version: version, Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true, Verbs: []string{"watch"}})
				}
				return resources
			}
			tests := []struct {
				name    string // plural.group; a bare plural ends in a dot if its group is known
				version string
				want    []Resource
				is      error
				wantErr string
			}{
				{name: "pods", want: pod},
				{name: "pods.", version: "v1", want: pod},
				{name: "pods/log", is: ErrUnknown},
				{name: "horizontalpodautoscalers", want: hpa("v2", "v1")},
				{name: "horizontalpodautoscalers.autoscaling", want: hpa("v2", "v1")},
				{name: "horizontalpodautoscalers", version: "v1", want: hpa("v1")},
				{name: "olds.autoscaling", want: []Resource{{Group: "autoscaling", Version: "v1", Plural: "olds", Kind: "Old", Verbs: []string{"create"}}}},
				{name: "horizontalpodautoscalers.autoscaling", version: "v3", is: ErrNotServed, wantErr: "version v3 of horizontalpodautoscalers.autoscaling is not served, but v2, v1 is"},
				{name: "networkpolicies", is: ErrAmbiguous, wantErr: "networkpolicies is ambiguous: write networkpolicies.crd.projectcalico.org or networkpolicies.networking.k8s.io"},
				{name: "networkpolicies.example.com", is: ErrNotServed, wantErr: "networkpolicies.example.com is not served, but networkpolicies.networking.k8s.io, networkpolicies.crd.projectcalico.org is"},
				{name: "widgets.example.com", is: ErrNotServed, wantErr: "widgets.example.com is not served"},
				{name: "widgets.", is: ErrNotServed, wantErr: "widgets is not served"},
				{name: "widgets", is: ErrUnknown},
				{name: "widgets", version: "v1", is: ErrNotServed, wantErr: "version v1 of widgets is not served"},
				{name: "nodes.metrics.k8s.io", is: ErrUnknown},
			}
			for _, tt := range tests {
				plural, group, groupKnown := strings.Cut(tt.name, ".")
				got, err := served.Lookup(group, groupKnown, plural, tt.version)
				assert.Equal(t, tt.want, got, tt.name)
				if tt.is != nil {
					require.ErrorIs(t, err, tt.is)
					require.ErrorContains(t, err, tt.wantErr)
				} else {
					require.NoError(t, err)
				}
			}
			events, err := served.Lookup("", false, "events", "")
			require.NoError(t, err)
			assert.Len(t, events, 1)
			assert.Empty(t, events[0].Group)
			assert.True(t, events[0].Can("watch"))
			assert.False(t, events[0].Can("get"))
			_, err = served.Lookup("metrics.k8s.io", true, "nodes", "")
			require.ErrorContains(t, err, "nodes.metrics.k8s.io is unknown: cannot discover metrics.k8s.io/v1beta1: ")
		})
	}
}

func TestDiscoverFails(t *testing.T) {
	_, err := serve(t, answers{"/api": aggregated["/api"], "/apis": "503"}.ServeHTTP).Discover(t.Context())
	require.ErrorContains(t, err, "cannot discover the resources under /apis: 127.0.0.1:")
	require.ErrorContains(t, err, "answered 503 Service Unavailable with 20 bytes of text/plain")
	assert.True(t, apierrors.IsServiceUnavailable(err))

	_, err = serve(t, answers{"/api": "403", "/apis": "403"}.ServeHTTP).Discover(t.Context())
	require.EqualError(t, err, "cannot discover the resources under /apis: forbidden by RBAC")
	assert.True(t, apierrors.IsForbidden(err))
}

// A document that is not from the Kubernetes API, or has no group, does not prove that a resource is not served.
func TestDiscoverRejectsOtherDocuments(t *testing.T) {
	const empty = `{"kind":"APIGroupDiscoveryList","items":[]}`
	for name, server := range map[string]answers{
		"nothing is served":      {},
		"other kind":             {"/api": `{"kind":"Pod"}`, "/apis": aggregated["/apis"]},
		"no kind":                {"/api": `{}`, "/apis": `{}`},
		"no JSON":                {"/api": `{"kind":`, "/apis": aggregated["/apis"]},
		"page":                   {"/api": aggregated["/api"], "/apis": `<!DOCTYPE html><title>default backend - 404</title>`},
		"text":                   {"/api": aggregated["/api"], "/apis": `default backend - 404`},
		"JSON of something else": {"/api": aggregated["/api"], "/apis": `{"type":"error","status":"404"}`},
		"empty, both":            {"/api": empty, "/apis": empty},
		"nothing at all":         {"/api": aggregated["/api"], "/apis": ""},
		"null":                   {"/api": aggregated["/api"], "/apis": "null"},
	} {
		t.Run(name, func(t *testing.T) {
			served, err := serve(t, server.ServeHTTP).Discover(t.Context())
			require.Error(t, err)
			assert.Nil(t, served)
		})
	}
}

// What the answers do not cover is unknown, not absent.
func TestDiscoverWithOneHalf(t *testing.T) {
	lookup := func(server answers, group string, known bool, plural string) error {
		served, err := serve(t, server.ServeHTTP).Discover(t.Context())
		require.NoError(t, err)
		_, err = served.Lookup(group, known, plural, "")
		return err
	}
	for _, code := range []string{"403", ""} { // "" is 404
		withoutCore := answers{"/apis": aggregated["/apis"]}
		withoutGroups := answers{"/api": aggregated["/api"]}
		if code != "" {
			withoutCore["/api"], withoutGroups["/apis"] = code, code
		}
		require.ErrorIs(t, lookup(withoutCore, "", true, "pods"), ErrUnknown)
		require.ErrorIs(t, lookup(withoutCore, "", false, "widgets"), ErrUnknown)
		require.ErrorIs(t, lookup(withoutCore, "example.com", true, "widgets"), ErrNotServed)
		require.ErrorIs(t, lookup(withoutGroups, "example.com", true, "widgets"), ErrUnknown)
		require.ErrorIs(t, lookup(withoutGroups, "", true, "widgets"), ErrNotServed)
		require.NoError(t, lookup(withoutGroups, "", true, "pods"))
	}
	for name, document := range map[string]string{
		"empty":                      `{"kind":"APIGroupDiscoveryList","items":[]}`,
		"group without a name":       `{"kind":"APIGroupDiscoveryList","items":[{"versions":[{"version":"v1"}]}]}`,
		"group without a version":    `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"}}]}`,
		"empty, before 1.26":         `{"kind":"APIGroupList","groups":[]}`,
		"no groups key, before 1.26": `{"kind":"APIGroupList"}`,
	} {
		withoutGroups := answers{"/api": aggregated["/api"], "/apis": document}
		require.ErrorIs(t, lookup(withoutGroups, "apps", true, "widgets"), ErrUnknown, name)
		require.NoError(t, lookup(withoutGroups, "", true, "pods"), name)
	}
	withoutCore := answers{"/api": `{"kind":"APIVersions","versions":[]}`, "/apis": aggregated["/apis"]}
	require.ErrorIs(t, lookup(withoutCore, "", true, "pods"), ErrUnknown)
	broken := answers{"/api": legacy["/api"], "/apis": legacy["/apis"], "/api/v1": `{"kind":"APIResourceList","resources":[]}`}
	require.ErrorIs(t, lookup(broken, "", true, "pods"), ErrUnknown)
	broken["/api/v1"] = `<html>`
	require.ErrorIs(t, lookup(broken, "", true, "pods"), ErrUnknown)
	require.ErrorIs(t, lookup(broken, "autoscaling", true, "horizontalpodautoscalers"), ErrUnknown, "404 for each version")
}

func TestDiscoverVersion(t *testing.T) {
	client := serve(t, legacy.ServeHTTP)
	resources, err := client.DiscoverVersion(t.Context(), "events.k8s.io", "v1")
	require.NoError(t, err)
	assert.Equal(t, []Resource{{Group: "events.k8s.io", Version: "v1", Plural: "events", Kind: "Event", Namespaced: true, Verbs: []string{"list", "watch"}}}, resources)
	_, err = client.DiscoverVersion(t.Context(), "events.k8s.io", "v2")
	assert.True(t, apierrors.IsNotFound(err))
}

func TestClusterUID(t *testing.T) {
	uid, err := serve(t, answers{"/api/v1/namespaces/kube-system": `{"kind":"PartialObjectMetadata","metadata":{"name":"kube-system","uid":"f0e1"}}`}.ServeHTTP).ClusterUID(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "f0e1", uid)

	_, err = serve(t, answers{"/api/v1/namespaces/kube-system": "403"}.ServeHTTP).ClusterUID(t.Context())
	require.ErrorContains(t, err, `cannot get namespaces (group "", version v1) named kube-system: forbidden by RBAC`)
	assert.True(t, apierrors.IsForbidden(err))

	_, err = serve(t, answers{"/api/v1/namespaces/kube-system": `{}`}.ServeHTTP).ClusterUID(t.Context())
	require.ErrorContains(t, err, "it has no UID")
}

func TestServedByAggregation(t *testing.T) {
	client := serve(t, answers{
		"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io": `{"spec":{"service":{"namespace":"kube-system","name":"metrics-server"}}}`,
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.apps":                `{"spec":{"group":"apps"}}`,
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.null.example.com":    `{"spec":{"service":null}}`,
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.hidden.example.com":  "403",
		"/apis/apiregistration.k8s.io/v1/apiservices/v1.broken.example.com":  "503",
	}.ServeHTTP)
	for name, want := range map[string]bool{
		"v1beta1.metrics.k8s.io": true,
		"v1.apps":                false,
		"v1.":                    false,
		"v1.null.example.com":    false,
		"v1.hidden.example.com":  false,
		"v1.absent.example.com":  false,
	} {
		version, group, _ := strings.Cut(name, ".")
		got, err := client.ServedByAggregation(t.Context(), group, version)
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
	_, err := client.ServedByAggregation(t.Context(), "broken.example.com", "v1")
	require.ErrorContains(t, err, `cannot get apiservices (group "apiregistration.k8s.io", version v1) named v1.broken.example.com`)
}

func TestAggregated(t *testing.T) {
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	server := answers{path: `{"kind":"APIServiceList","items":[
		{"metadata":{"name":"v1.apps"},"spec":{"group":"apps","version":"v1"}},
		{"metadata":{"name":"v1.views.example.com"},"spec":{"group":"views.example.com","version":"v1","service":{"name":"x","namespace":"y"}}},
		{"metadata":{"name":"v1.example.com"},"spec":{"group":"example.com","version":"v1","service":null}}]}`}
	all, err := serve(t, server.ServeHTTP).Aggregated(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[schema.GroupVersion]bool{
		{Group: "apps", Version: "v1"}: false, {Group: "views.example.com", Version: "v1"}: true, {Group: "example.com", Version: "v1"}: false,
	}, all)

	for _, body := range []string{"403", "{}", `{"kind":"Something"}`} {
		all, err := serve(t, answers{path: body}.ServeHTTP).Aggregated(t.Context())
		require.NoError(t, err, body)
		assert.Nil(t, all, body)
	}
	_, err = serve(t, answers{path: "503"}.ServeHTTP).Aggregated(t.Context())
	require.ErrorContains(t, err, `cannot list apiservices (group "apiregistration.k8s.io", version v1)`)
}

// An unchanged document is not sent again, and a changed one replaces it. An answer 304 that was not asked for is none.
func TestDiscoverUnchanged(t *testing.T) {
	etags := map[string]string{"/api": `"a"`, "/apis": `"b"`}
	documents := map[string]string{"/api": aggregated["/api"], "/apis": aggregated["/apis"]}
	sent := map[string]int{}
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if etag := etags[r.URL.Path]; etag != "" {
			w.Header().Set("ETag", etag)
			if r.Header.Get("If-None-Match") == etag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		sent[r.URL.Path]++
		_, _ = io.WriteString(w, documents[r.URL.Path])
	})
	discover := func() *Served {
		t.Helper()
		served, err := client.Discover(t.Context())
		require.NoError(t, err)
		return served
	}
	first := discover()
	assert.Equal(t, first, discover())
	assert.Equal(t, map[string]int{"/api": 1, "/apis": 1}, sent)

	etags["/apis"] = `"c"`
	documents["/apis"] = strings.ReplaceAll(documents["/apis"], "olds", "news")
	changed := discover()
	assert.True(t, changed.Has(schema.GroupResource{Group: "autoscaling", Resource: "news"}))
	assert.False(t, changed.Has(schema.GroupResource{Group: "autoscaling", Resource: "olds"}))
	assert.True(t, changed.Has(schema.GroupResource{Resource: "pods"}))

	etags["/apis"] = "" // another API server, without entity tags
	discover()
	discover()
	assert.Equal(t, map[string]int{"/api": 1, "/apis": 4}, sent)

	_, err := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }).Discover(t.Context())
	require.Error(t, err)
}

func TestAllResources(t *testing.T) {
	served, err := serve(t, aggregated.ServeHTTP).Discover(t.Context())
	require.NoError(t, err)
	var names []string
	for versions := range served.All() {
		name := schema.GroupResource{Group: versions[0].Group, Resource: versions[0].Plural}.String()
		for _, r := range versions {
			name += " " + r.Version
		}
		names = append(names, name)
	}
	assert.Equal(t, []string{
		"events v1", "pods v1", "horizontalpodautoscalers.autoscaling v2 v1", "olds.autoscaling v1",
		"networkpolicies.crd.projectcalico.org v1", "events.events.k8s.io v1", "networkpolicies.networking.k8s.io v1",
	}, names)
}
