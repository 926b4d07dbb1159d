package workload

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Carts are custom resources.
var (
	crds  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	carts = schema.GroupVersionResource{Group: "sample.example.com", Version: "v1", Resource: "carts"}
)

var cartNames = []string{"alice", "bob"}

type object = map[string]any

func (w *Workload) applyCarts(ctx context.Context) error {
	definition := &unstructured.Unstructured{Object: object{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   object{"name": carts.GroupResource().String()},
		"spec": object{
			"group": carts.Group,
			"scope": "Namespaced",
			"names": object{"plural": carts.Resource, "singular": "cart", "kind": "Cart", "listKind": "CartList"},
			"versions": []any{object{
				"name": carts.Version, "served": true, "storage": true,
				"schema": object{"openAPIV3Schema": object{
					"type": "object",
					"properties": object{"spec": object{
						"type":       "object",
						"properties": object{"items": object{"type": "integer"}, "currency": object{"type": "string"}},
					}},
				}},
			}},
		},
	}}
	if _, err := w.dynamic.Resource(crds).Create(ctx, definition, create(byApply)); err != nil {
		return fmt.Errorf("cannot create the resource %s: %w", carts.Resource, err)
	}
	for _, name := range cartNames {
		cart := &unstructured.Unstructured{Object: object{
			"apiVersion": carts.GroupVersion().String(),
			"kind":       "Cart",
			"metadata":   object{"name": name},
			"spec":       object{"items": int64(1), "currency": "EUR"},
		}}
		// The API server serves a new resource only some time after its definition.
		var last error
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
			_, last = w.dynamic.Resource(carts).Namespace(Namespace).Create(ctx, cart, create(byApply))
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("cannot create cart %s: %w: %w", name, err, last)
		}
	}
	return nil
}

func (w *Workload) changeCart(ctx context.Context) error {
	name := cartNames[w.round%len(cartNames)]
	items := w.round/len(cartNames) + 2
	change := fmt.Appendf(nil, `{"spec":{"items":%d}}`, items)
	if _, err := w.dynamic.Resource(carts).Namespace(Namespace).Patch(ctx, name, types.MergePatchType, change, patch(byShop)); err != nil {
		return fmt.Errorf("cannot change cart %s: %w", name, err)
	}
	w.Log("put item %d into cart %s/%s", items, Namespace, name)
	return nil
}
