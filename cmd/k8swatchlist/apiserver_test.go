package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// apiServer answers what the commands ask, for what a real API server rarely has: other versions, and very many objects.
type apiServer struct {
	version string
	objects map[string]int                                    // by resource
	counts  bool                                              // lists state how many remain
	user    string                                            // "": tester
	may     func(verb, resource string) bool                  // nil: everything
	list    func(w http.ResponseWriter, r *http.Request) bool // answers instead; may be nil

	events chan string // frames of the watch of pods, after the initial state
}

// start returns the path of a kubeconfig for the server.
func (s *apiServer) start(t *testing.T) string {
	t.Helper()
	s.events = make(chan string)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, path, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, server.URL))
	return path
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	type object = map[string]any
	resource := func(plural, kind string, namespaced bool, verbs ...string) object {
		scope := "Cluster"
		if namespaced {
			scope = "Namespaced"
		}
		return object{"resource": plural, "responseKind": object{"kind": kind}, "scope": scope, "verbs": append(verbs, "get", "list")}
	}
	group := func(name, version string, resources ...object) object {
		return object{"metadata": object{"name": name}, "versions": []any{object{"version": version, "freshness": "Current", "resources": resources}}}
	}
	discovery := func(groups ...object) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		_ = json.NewEncoder(w).Encode(object{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups})
	}
	switch path := r.URL.Path; {
	case path == "/api":
		discovery(group("", "v1", resource("pods", "Pod", true, "watch"), resource("nodes", "Node", false, "watch"), resource("secrets", "Secret", true, "watch")))
	case path == "/apis":
		discovery(group("metrics.k8s.io", "v1beta1", resource("pods", "PodMetrics", true)), group("example.com", "v1", resource("widgets", "Widget", true, "watch")))
	case path == "/version":
		answer(object{"gitVersion": s.version})
	case strings.HasSuffix(path, "/selfsubjectreviews"):
		answer(object{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "status": object{"userInfo": object{"username": cmp.Or(s.user, "tester")}}})
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		var review authorizationv1.SelfSubjectAccessReview
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &review)
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = s.may == nil || s.may(a.Verb, strings.TrimSuffix(a.Resource+"."+a.Group, "."))
		answer(review)
	case strings.HasSuffix(path, "/namespaces/kube-system"):
		answer(object{"kind": "PartialObjectMetadata", "metadata": object{"uid": "c1"}})
	case strings.HasSuffix(path, "/apiservices"):
		answer(object{"kind": "APIServiceList", "items": []any{object{"spec": object{"group": "metrics.k8s.io", "version": "v1beta1", "service": object{"name": "m"}}}}})
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case s.list != nil && s.list(w, r):
	default:
		s.answerList(w, r, answer)
	}
}

func (s *apiServer) answerList(_ http.ResponseWriter, r *http.Request, answer func(any)) {
	plural := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	from, limit := 0, 0
	_, _ = fmt.Sscan(r.URL.Query().Get("continue"), &from)
	_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
	items := []any{}
	for i := from; i < min(from+limit, s.objects[plural]); i++ {
		items = append(items, map[string]any{"metadata": map[string]any{"name": fmt.Sprint(plural, i), "uid": fmt.Sprint(i)}})
	}
	metadata := map[string]any{"resourceVersion": "9"}
	if rest := s.objects[plural] - from - len(items); rest > 0 {
		metadata["continue"] = fmt.Sprint(from + len(items))
		if s.counts && !r.URL.Query().Has("shardSelector") {
			metadata["remainingItemCount"] = rest
		}
	}
	answer(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})
}

// watch sends an initial state, and then the events. Only pods have any.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	send := func(frame string) {
		_, _ = io.WriteString(w, frame+"\n")
		w.(http.Flusher).Flush()
	}
	isPods := slices.Contains(strings.Split(r.URL.Path, "/"), "pods")
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		if isPods {
			for i := range s.objects["pods"] {
				send(event("ADDED", fmt.Sprint("pod-", i), i+1))
			}
		}
		send(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	}
	for {
		select {
		case frame := <-s.events:
			send(frame)
		case <-r.Context().Done():
			return
		}
		if !isPods {
			return
		}
	}
}

// event is a frame of a watch of pods.
func event(kind, name string, version int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"shop","uid":%q,"resourceVersion":"%d"},"spec":{"nodeName":"n"}}}`, kind, name, name, version)
}
