package kubeclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// acceptDiscovery asks for aggregated discovery (Kubernetes 1.26), and takes what older servers have.
// https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
const acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList," +
	"application/json"

// groupDiscovery is the part of apidiscovery.k8s.io/v2 that is of use here.
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

// errStale is the reason of a group whose server cannot be reached, whose resources are those of some time
// ago or missing.
var errStale = errors.New("the API server behind it cannot be reached")

// Discover asks the server which resources it serves. A group that cannot be discovered hides no other.
func (c *Client) Discover(ctx context.Context) (*Served, error) {
	served := &Served{}
	for _, root := range []string{"api", "apis"} {
		if err := c.discoverRoot(ctx, root, served); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("cannot discover the resources under /%s: %w", root, err)
		}
	}
	return served, nil
}

// discoverRoot reads /api, which is the core group, or /apis.
func (c *Client) discoverRoot(ctx context.Context, root string, served *Served) error {
	var document struct {
		Kind string `json:"kind"`

		Items []groupDiscovery `json:"items"` // of an APIGroupDiscoveryList

		Versions []string          `json:"versions"` // of APIVersions, the old answer of /api
		Groups   []metav1.APIGroup `json:"groups"`   // of an APIGroupList, the old answer of /apis
	}
	if err := c.getJSON(ctx, get{path: []string{root}, accept: acceptDiscovery}, &document); err != nil {
		return err
	}
	switch document.Kind {
	case "APIGroupDiscoveryList":
		for _, group := range document.Items {
			addGroup(group, served)
		}
		return nil
	case "APIVersions":
		return c.discoverVersions(ctx, "", document.Versions, served)
	case "APIGroupList":
		for _, group := range document.Groups {
			if err := c.discoverVersions(ctx, group.Name, preferredFirst(group), served); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("the server answered with a %q instead of a list of API groups", document.Kind)
	}
}

func addGroup(group groupDiscovery, served *Served) {
	for _, version := range group.Versions { // the server gives the preferred one first
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

// discoverVersions asks for each version of a group on its own, as servers before Kubernetes 1.26 want it.
func (c *Client) discoverVersions(ctx context.Context, group string, versions []string, served *Served) error {
	for _, version := range versions {
		path := []string{"apis", group, version}
		if group == "" {
			path = []string{"api", version}
		}
		var list metav1.APIResourceList
		if err := c.getJSON(ctx, get{path: path, accept: acceptJSON}, &list); err != nil {
			if ctx.Err() != nil {
				return err
			}
			served.fail(schema.GroupVersion{Group: group, Version: version}, err)
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") { // a subresource
				continue
			}
			served.add(Resource{
				Group:      group,
				Version:    version,
				Plural:     r.Name,
				Kind:       r.Kind,
				Namespaced: r.Namespaced,
				Verbs:      r.Verbs,
			})
		}
	}
	return nil
}

// ClusterUID is the UID of the namespace kube-system, by which a cluster is known.
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

// ServedByAggregation reports whether the API server passes requests for a version of a group on to another
// server. It is false where that cannot be seen.
func (c *Client) ServedByAggregation(ctx context.Context, group, version string) (bool, error) {
	if group == "" {
		return false, nil
	}
	name := version + "." + group
	var apiService struct {
		Spec struct {
			Service json.RawMessage `json:"service"`
		} `json:"spec"`
	}
	err := c.getJSON(ctx, get{
		path:   []string{"apis", "apiregistration.k8s.io", "v1", "apiservices", name},
		accept: acceptJSON,
	}, &apiService)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot get apiservices (group \"apiregistration.k8s.io\", version v1) named %s: %w", name, err)
	}
	service := string(apiService.Spec.Service)
	return service != "" && service != "null", nil
}
