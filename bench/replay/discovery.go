package replay

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

const (
	jsonType       = "application/json"
	aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

var verbs = []string{"get", "list", "watch"}

// groups returns the distinct groups and versions of all resources.
func (s *Server) groups() [][2]string {
	var all [][2]string
	seen := map[[2]string]bool{}
	for _, r := range s.resources {
		g := [2]string{r.Objects.Kind.Group, r.Objects.Kind.Version}
		if !seen[g] {
			seen[g] = true
			all = append(all, g)
		}
	}
	return all
}

// discover answers requests for anything but resources, and reports whether the path exists.
func (s *Server) discover(w http.ResponseWriter, r *http.Request) bool {
	aggregated := strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList") &&
		strings.Contains(r.Header.Get("Accept"), "v=v2;")
	switch path := strings.Trim(r.URL.Path, "/"); path {
	case "version":
		writeJSON(w, http.StatusOK, version.Info{Major: "1", Minor: "37", GitVersion: "v1.37.2"})
	case "api", "apis":
		switch {
		case aggregated:
			w.Header().Set("Content-Type", aggregatedType)
			writeJSON(w, http.StatusOK, s.aggregated(path == "api"))
		case path == "api":
			writeJSON(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		default:
			writeJSON(w, http.StatusOK, s.groupList())
		}
	case "api/v1/namespaces/kube-system":
		writeJSON(w, http.StatusOK, metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "5f0c1f0a-3f0b-4c55-9d2e-7a55c6f1b001", ResourceVersion: "1"},
		})
	default:
		for _, g := range s.groups() {
			if path == "api/"+g[1] && g[0] == "" || path == "apis/"+g[0]+"/"+g[1] {
				writeJSON(w, http.StatusOK, s.resourceList(g[0], g[1]))
				return true
			}
		}
		return false
	}
	return true
}

func (s *Server) groupList() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, g := range s.groups() {
		if g[0] == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: g[0] + "/" + g[1], Version: g[1]}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: g[0], Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
	}
	return list
}

func (s *Server) resourceList(group, version string) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	list.GroupVersion = strings.TrimPrefix(group+"/"+version, "/")
	for _, r := range s.resources {
		k := r.Objects.Kind
		if k.Group == group && k.Version == version {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.Plural, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Kind, Verbs: verbs})
		}
	}
	return list
}

// aggregated returns an APIGroupDiscoveryList (apidiscovery.k8s.io/v2).
func (s *Server) aggregated(core bool) map[string]any {
	items := []any{}
	for _, g := range s.groups() {
		if (g[0] == "") != core {
			continue
		}
		var resources []any
		for _, r := range s.resourceList(g[0], g[1]).APIResources {
			scope := "Cluster"
			if r.Namespaced {
				scope = "Namespaced"
			}
			resources = append(resources, map[string]any{
				"resource": r.Name, "responseKind": map[string]any{"group": g[0], "version": g[1], "kind": r.Kind},
				"scope": scope, "singularResource": r.SingularName, "verbs": r.Verbs,
			})
		}
		items = append(items, map[string]any{
			"metadata": map[string]any{"name": g[0]},
			"versions": []any{map[string]any{"version": g[1], "resources": resources, "freshness": "Current"}},
		})
	}
	return map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": map[string]any{}, "items": items}
}
