package redaction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// planter creates copies of the entries on the API server. The copies of a phase are in a namespace with the name of
// the phase; those of cluster-scoped objects have it at the end of their own names.
type planter struct {
	cluster      *harness.Cluster
	subresources map[schema.GroupVersionResource][]string
}

// writers is how many objects are written at once.
const writers = 8

// each calls a function with every entry, several at once.
func each(t *testing.T, entries []*entry, do func(context.Context, *entry) error) {
	t.Helper()
	var (
		next    = make(chan *entry)
		running sync.WaitGroup
		mu      sync.Mutex
		failed  []error
	)
	for range writers {
		running.Go(func() {
			for e := range next {
				if err := do(t.Context(), e); err != nil {
					mu.Lock()
					failed = append(failed, fmt.Errorf("%s %s: %w", harness.Name(e.resource), e.object.GetName(), err))
					mu.Unlock()
				}
			}
		})
	}
	for _, e := range entries {
		next <- e
	}
	close(next)
	running.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
}

func (p *planter) createNamespace(t *testing.T, phase string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: phase}}
	if _, err := p.cluster.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// create creates the copies of a phase, including the parts that only a subresource may set.
func (p *planter) create(t *testing.T, phase string, entries []*entry) {
	t.Helper()
	each(t, entries, func(ctx context.Context, e *entry) error {
		object, client := e.copy(phase), p.client(e, phase)
		ephemeral, isEphemeral, _ := unstructured.NestedSlice(object.Object, "spec", "ephemeralContainers")
		unstructured.RemoveNestedField(object.Object, "spec", "ephemeralContainers")
		created, err := client.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("cannot create it: %w", err)
		}
		if status, ok := object.Object["status"]; ok && slices.Contains(p.subresources[e.resource], "status") {
			if err := patch(ctx, client, created.GetName(), map[string]any{"status": status}, "status"); err != nil {
				return err
			}
		}
		if isEphemeral {
			change := map[string]any{"spec": map[string]any{"ephemeralContainers": ephemeral}}
			return patch(ctx, client, created.GetName(), change, "ephemeralcontainers")
		}
		return nil
	})
}

// change changes the copies of a phase.
func (p *planter) change(t *testing.T, phase string, entries []*entry) {
	t.Helper()
	each(t, entries, func(ctx context.Context, e *entry) error {
		annotations := map[string]any{"annotations": map[string]any{"example.com/changed": "yes"}}
		return patch(ctx, p.client(e, phase), e.copy(phase).GetName(), map[string]any{"metadata": annotations})
	})
}

// remove deletes the copies of a phase, at once, and waits until they are gone.
func (p *planter) remove(t *testing.T, phase string, entries []*entry) {
	t.Helper()
	each(t, entries, func(ctx context.Context, e *entry) error {
		client, name := p.client(e, phase), e.copy(phase).GetName()
		if e.resource.Resource == "persistentvolumes" { // no controller is there to take its finalizer away
			if err := patch(ctx, client, name, map[string]any{"metadata": map[string]any{"finalizers": nil}}); err != nil {
				return err
			}
		}
		options := *metav1.NewDeleteOptions(0)
		background := metav1.DeletePropagationBackground
		options.PropagationPolicy = &background
		if err := client.Delete(ctx, name, options); err != nil {
			return fmt.Errorf("cannot delete it: %w", err)
		}
		return nil
	})
	// A definition stays until the server has removed its objects.
	gone := 0
	harness.Poll(t, timeout, "the API server to remove what was deleted", func() string {
		for ; gone < len(entries); gone++ {
			e := entries[gone]
			name := e.copy(phase).GetName()
			if _, err := p.client(e, phase).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s %s is still there (%v)", harness.Name(e.resource), name, err)
			}
		}
		return ""
	})
}

// requireServed requires that the API server serves every sentinel of the copies of a phase, so that the collector has
// read it. A field that the server drops is no place for a secret.
func (p *planter) requireServed(t *testing.T, phase string, entries []*entry) {
	t.Helper()
	each(t, entries, func(ctx context.Context, e *entry) error {
		stored, err := p.client(e, phase).Get(ctx, e.copy(phase).GetName(), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cannot get it: %w", err)
		}
		if missing := missingFrom(sentinelsIn(t, stored.Object), e.sentinels); len(missing) > 0 {
			return fmt.Errorf("the API server dropped %q", missing)
		}
		return nil
	})
}

func missingFrom(all, wanted []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(s string) bool { return slices.Contains(all, s) })
}

func (p *planter) client(e *entry, phase string) dynamic.ResourceInterface {
	if e.object.GetNamespace() == "" {
		return p.cluster.Dynamic.Resource(e.resource)
	}
	return p.cluster.Dynamic.Resource(e.resource).Namespace(phase)
}

// copy returns the object of a phase as a client would create it.
func (e *entry) copy(phase string) *unstructured.Unstructured {
	object := e.object.DeepCopy()
	object.SetUID("")
	object.SetResourceVersion("")
	if object.GetNamespace() == "" {
		e.rename(object, phase)
		return object
	}
	object.SetNamespace(phase)
	for _, about := range []string{"involvedObject", "regarding"} { // an Event is where its object is
		if of, ok := object.Object[about].(map[string]any); ok {
			of["namespace"] = phase
		}
	}
	return object
}

// rename gives a cluster-scoped object the name of its copy of a phase. The names of some are derived from their
// content.
func (e *entry) rename(object *unstructured.Unstructured, phase string) {
	spec, _ := object.Object["spec"].(map[string]any)
	if group, ok := spec["group"].(string); ok {
		spec["group"] = phase + "." + group
	}
	switch object.GetKind() {
	case "CustomResourceDefinition":
		plural, _, _ := unstructured.NestedString(spec, "names", "plural")
		object.SetName(fmt.Sprintf("%s.%s", plural, spec["group"]))
	case "APIService":
		object.SetName(fmt.Sprintf("%s.%s", spec["version"], spec["group"]))
	default:
		object.SetName(object.GetName() + "-" + phase)
	}
}

func patch(ctx context.Context, client dynamic.ResourceInterface, name string, change map[string]any, subresource ...string) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if _, err := client.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, subresource...); err != nil {
		return fmt.Errorf("cannot patch it %v: %w", subresource, err)
	}
	return nil
}
