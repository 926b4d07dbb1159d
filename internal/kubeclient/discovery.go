package kubeclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// acceptDiscovery asks for aggregated discovery (Kubernetes 1.26) and accepts the answers of older servers.
// https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList," +
	"application/json"

// groupDiscovery is the part of apidiscovery.k8s.io/v2 that is used here.
type groupDiscovery struct {
	Metadata struct {
		Name string `json:"name"` // the group
	} `json:"metadata"`
	Versions []struct {
		Version   string `json:"version"`
		Freshness string `json:"freshness"`
		Resources []struct {
			Resource     string `json:"resource"`
			ResponseKind *struct {
				Kind string `json:"kind"`
			} `json:"responseKind"`
			Scope string   `json:"scope"`
			Verbs []string `json:"verbs"`
		} `json:"resources"`
	} `json:"versions"`
}

// errStale is the error of a group whose resources are outdated or missing because its aggregated API server does not
// answer properly.
var errStale = errors.New("the API server behind it has not answered lately")

// errNoGroup is the error of a document that proves nothing.
var errNoGroup = errors.New("the server answered with a list without any API group")

// Discover asks the server which resources it serves. A group that cannot be discovered does not hide others. Only
// documents of the Kubernetes API that name at least one group prove that a resource is not served. Without them
// Discover fails, or [Served.Lookup] returns ErrUnknown for the groups whose document is missing.
func (c *Client) Discover(ctx context.Context) (*Served, error) {
	served := &Served{}
	var refused error
	for _, root := range []string{"api", "apis"} {
		err := c.discoverRoot(ctx, root, served)
		if err == nil {
			continue
		}
		err = fmt.Errorf("cannot discover the resources under /%s: %w", root, err)
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !errors.Is(err, errNoGroup) {
			return nil, err
		}
		refused = err
		served.hide(root, err)
	}
	if len(served.hidden) == 2 {
		return nil, refused
	}
	return served, nil
}

// discoverRoot reads /api, which is the core group, or /apis.
func (c *Client) discoverRoot(ctx context.Context, root string, served *Served) error {
	document, err := c.getRoot(ctx, root)
	if err != nil {
		return err
	}
	versions := 0
	switch document.Kind {
	case "APIGroupDiscoveryList":
		for _, group := range document.Items {
			if (group.Metadata.Name == "") == (root == "api") {
				versions += addGroup(group, served)
			}
		}
	case "APIVersions":
		versions = len(document.Versions)
		if err := c.discoverVersions(ctx, "", document.Versions, served); err != nil {
			return err
		}
	case "APIGroupList":
		for _, group := range document.Groups {
			if group.Name == "" {
				continue
			}
			versions += len(group.Versions)
			if err := c.discoverVersions(ctx, group.Name, preferredFirst(group), served); err != nil {
				return err
			}
		}
	default:
		return errors.New("the server answered with something other than a list of API groups")
	}
	if versions == 0 {
		return errNoGroup
	}
	return nil
}

// rootDocument is a discovery document of /api or /apis.
type rootDocument struct {
	Kind string `json:"kind"`

	Items []groupDiscovery `json:"items"` // of an APIGroupDiscoveryList

	Versions []string          `json:"versions"` // of APIVersions, the old answer of /api
	Groups   []metav1.APIGroup `json:"groups"`   // of an APIGroupList, the old answer of /apis
}

// documents holds the last document of each root with its entity tag. A server that supports these answers 304, without
// a body, if the document has not changed.
// https://github.com/kubernetes/kubernetes/blob/v1.37.0/staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated/etag.go
type documents struct {
	mu    sync.Mutex
	roots map[string]taggedDocument
}

type taggedDocument struct {
	etag string
	*rootDocument
}

func (d *documents) of(root string) taggedDocument {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.roots[root]
}

func (d *documents) keep(root string, latest taggedDocument) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.roots == nil {
		d.roots = make(map[string]taggedDocument)
	}
	d.roots[root] = latest
}

// getRoot reads the document of a root, or returns the previous one if it has not changed.
func (c *Client) getRoot(ctx context.Context, root string) (*rootDocument, error) {
	previous := c.documents.of(root)
	answer, err := c.getSmall(ctx, get{path: []string{root}, accept: acceptDiscovery, etag: previous.etag})
	switch {
	case errors.Is(err, errNotModified):
		return previous.rootDocument, nil
	case err != nil:
		return nil, err
	}
	latest := &rootDocument{}
	if json.Unmarshal(answer.content, latest) != nil {
		return nil, answer.undecodable()
	}
	if answer.etag == "" {
		c.documents.keep(root, taggedDocument{})
	} else {
		c.documents.keep(root, taggedDocument{answer.etag, latest})
	}
	return latest, nil
}

// addGroup adds a group and returns the number of its versions.
func addGroup(group groupDiscovery, served *Served) int {
	for _, version := range group.Versions { // the preferred one comes first
		gv := schema.GroupVersion{Group: group.Metadata.Name, Version: version.Version}
		if version.Freshness == "Stale" {
			served.fail(gv, errStale)
		}
		for _, r := range version.Resources {
			resource := Resource{
				Group:      gv.Group,
				Version:    gv.Version,
				Plural:     r.Resource,
				Namespaced: r.Scope == "Namespaced",
				Verbs:      r.Verbs,
			}
			if r.ResponseKind != nil {
				resource.Kind = r.ResponseKind.Kind
			}
			served.add(resource)
		}
	}
	return len(group.Versions)
}

func preferredFirst(group metav1.APIGroup) []string {
	versions := []string{group.PreferredVersion.Version}
	for _, v := range group.Versions {
		if v.Version != group.PreferredVersion.Version {
			versions = append(versions, v.Version)
		}
	}
	return versions
}

// discoverVersions asks for each version of a group separately, as servers before Kubernetes 1.26 require.
func (c *Client) discoverVersions(ctx context.Context, group string, versions []string, served *Served) error {
	for _, version := range versions {
		resources, err := c.DiscoverVersion(ctx, group, version)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			served.fail(schema.GroupVersion{Group: group, Version: version}, err)
			continue
		}
		for _, r := range resources {
			served.add(r)
		}
	}
	return nil
}

// DiscoverVersion asks the server for the resources of one version of a group. It may succeed where the list of all
// groups is forbidden or broken.
func (c *Client) DiscoverVersion(ctx context.Context, group, version string) ([]Resource, error) {
	path := []string{"apis", group, version}
	if group == "" {
		path = []string{"api", version}
	}
	var list metav1.APIResourceList
	if err := c.getJSON(ctx, get{path: path, accept: acceptJSON}, &list); err != nil {
		return nil, err
	}
	var resources []Resource
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") { // a subresource
			continue
		}
		resources = append(resources, Resource{
			Group:      group,
			Version:    version,
			Plural:     r.Name,
			Kind:       r.Kind,
			Namespaced: r.Namespaced,
			Verbs:      r.Verbs,
		})
	}
	if list.Kind != "APIResourceList" || len(resources) == 0 {
		return nil, errors.New("the server answered with something other than a list of resources")
	}
	return resources, nil
}

// ClusterUID returns the UID of the namespace kube-system, which identifies a cluster.
// https://opentelemetry.io/docs/specs/semconv/resource/k8s/#cluster
func (c *Client) ClusterUID(ctx context.Context) (string, error) {
	var namespace struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	err := c.getJSON(ctx, get{
		path:   []string{"api", "v1", "namespaces", "kube-system"},
		accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
	}, &namespace)
	if err != nil {
		return "", fmt.Errorf("cannot get namespaces (group \"\", version v1) named kube-system: %w", err)
	}
	if namespace.Metadata.UID == "" {
		return "", errors.New("cannot get namespaces (group \"\", version v1) named kube-system: it has no UID")
	}
	return namespace.Metadata.UID, nil
}

// Aggregated reports for each version of an API group whether the API server forwards requests for it to another
// server, as its APIServices state. It returns nil if they are not visible.
func (c *Client) Aggregated(ctx context.Context) (map[schema.GroupVersion]bool, error) {
	var list struct {
		Kind  string       `json:"kind"`
		Items []apiService `json:"items"`
	}
	err := c.getJSON(ctx, get{path: apiServicesPath, accept: acceptJSON}, &list)
	switch {
	case isInvisible(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot list apiservices (group \"apiregistration.k8s.io\", version v1): %w", err)
	case list.Kind != "APIServiceList":
		return nil, nil
	}
	aggregated := make(map[schema.GroupVersion]bool, len(list.Items))
	for _, s := range list.Items {
		aggregated[schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}] = s.isAggregated()
	}
	return aggregated, nil
}

// ServedByAggregation reports the same for one version of a group, which takes less rights. It returns false if that is
// not visible.
func (c *Client) ServedByAggregation(ctx context.Context, group, version string) (bool, error) {
	if group == "" {
		return false, nil
	}
	name := version + "." + group
	var s apiService
	err := c.getJSON(ctx, get{path: append(slices.Clone(apiServicesPath), name), accept: acceptJSON}, &s)
	switch {
	case isInvisible(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot get apiservices (group \"apiregistration.k8s.io\", version v1) named %s: %w", name, err)
	}
	return s.isAggregated(), nil
}

var apiServicesPath = []string{"apis", "apiregistration.k8s.io", "v1", "apiservices"}

// apiService is the part of an APIService that is used here.
type apiService struct {
	Spec struct {
		Group   string          `json:"group"`
		Version string          `json:"version"`
		Service json.RawMessage `json:"service"`
	} `json:"spec"`
}

func (s *apiService) isAggregated() bool {
	service := string(s.Spec.Service)
	return service != "" && service != "null"
}

// isInvisible reports whether an answer means that the client may not see APIServices, or that there are none.
func isInvisible(err error) bool {
	var foreign *watchlist.ForeignAnswerError
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || errors.As(err, &foreign)
}
