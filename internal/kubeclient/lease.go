package kubeclient

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Leases reads and writes one Lease, with the rights to create, get and update it.
type Leases struct {
	Client          *Client
	Namespace, Name string
}

// Lease is what a Lease says of its holder. What else it holds is kept when it is written.
type Lease struct {
	Holder      string // "": nobody
	Duration    time.Duration
	Acquired    time.Time
	Renewed     time.Time
	Transitions int
	Annotations map[string]string // to write: those to set
	// Version is the resourceVersion with which it was read.
	Version string

	object map[string]any // as it was read; nil: it does not exist
}

var leasesPath = []string{"apis", "coordination.k8s.io", "v1", "namespaces"}

func (l Leases) path(name ...string) []string {
	return append(append(leasesPath[:len(leasesPath):len(leasesPath)], l.Namespace, "leases"), name...)
}

// Get reads the Lease. The error is an *apierrors.StatusError with reason NotFound if it does not exist.
func (l Leases) Get(ctx context.Context) (Lease, error) {
	return l.request(ctx, "get", get{path: l.path(l.Name)})
}

// Put writes a Lease that was returned by this client, or creates one that was not. It fails with reason Conflict or
// AlreadyExists if somebody else has written it since.
func (l Leases) Put(ctx context.Context, lease Lease) (Lease, error) {
	object := map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": l.Name, "namespace": l.Namespace},
	}
	g, verb := get{method: http.MethodPost, path: l.path()}, "create"
	if lease.object != nil {
		object = maps.Clone(lease.object)
		g, verb = get{method: http.MethodPut, path: l.path(l.Name)}, "update"
	}
	if len(lease.Annotations) > 0 {
		object["metadata"] = withAnnotations(object["metadata"], lease.Annotations)
	}
	spec := map[string]any{}
	if before, ok := object["spec"].(map[string]any); ok {
		maps.Copy(spec, before)
	}
	spec["holderIdentity"] = lease.Holder
	spec["leaseDurationSeconds"] = max(1, int(lease.Duration/time.Second))
	spec["leaseTransitions"] = lease.Transitions
	spec["acquireTime"], spec["renewTime"] = lease.Acquired.UTC().Format(metav1.RFC3339Micro), lease.Renewed.UTC().Format(metav1.RFC3339Micro)
	object["spec"] = spec
	var err error
	if g.content, err = json.Marshal(object); err != nil {
		return Lease{}, err
	}
	return l.request(ctx, verb, g)
}

// request returns the Lease of an answer.
func (l Leases) request(ctx context.Context, verb string, g get) (Lease, error) {
	g.accept, g.resume = acceptJSON, true
	lease, err := l.answer(ctx, g)
	if err != nil {
		return Lease{}, fmt.Errorf("cannot %s leases (group coordination.k8s.io, version v1) named %s in namespace %s: %w", verb, l.Name, l.Namespace, err)
	}
	return lease, nil
}

func (l Leases) answer(ctx context.Context, g get) (Lease, error) {
	answer, err := l.Client.getSmall(ctx, g)
	if err != nil {
		return Lease{}, err
	}
	var lease Lease
	var known struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Annotations     map[string]string `json:"annotations"`
			ResourceVersion string            `json:"resourceVersion"`
		} `json:"metadata"`
		Spec struct {
			HolderIdentity       string    `json:"holderIdentity"`
			LeaseDurationSeconds int       `json:"leaseDurationSeconds"`
			AcquireTime          time.Time `json:"acquireTime"`
			RenewTime            time.Time `json:"renewTime"`
			LeaseTransitions     int       `json:"leaseTransitions"`
		} `json:"spec"`
	}
	if json.Unmarshal(answer.content, &known) != nil || json.Unmarshal(answer.content, &lease.object) != nil || known.Kind != "Lease" {
		return Lease{}, answer.undecodable()
	}
	lease.Annotations, lease.Version = known.Metadata.Annotations, known.Metadata.ResourceVersion
	lease.Holder = known.Spec.HolderIdentity
	lease.Duration = time.Duration(known.Spec.LeaseDurationSeconds) * time.Second
	lease.Acquired, lease.Renewed, lease.Transitions = known.Spec.AcquireTime, known.Spec.RenewTime, known.Spec.LeaseTransitions
	return lease, nil
}

// withAnnotations returns a copy of an object's metadata with some annotations set.
func withAnnotations(metadata any, set map[string]string) map[string]any {
	all, annotations := map[string]any{}, map[string]any{}
	if before, ok := metadata.(map[string]any); ok {
		maps.Copy(all, before)
	}
	if before, ok := all["annotations"].(map[string]any); ok {
		maps.Copy(annotations, before)
	}
	for key, value := range set {
		annotations[key] = value
	}
	all["annotations"] = annotations
	return all
}
