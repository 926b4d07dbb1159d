package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type object = map[string]any

// objects is one resource that the writer changes and the collector reads.
type objects struct {
	resource   schema.GroupVersionResource
	kind       string
	prefix     string // of its keys in etcd
	configured string // name in the collector's configuration
	namespaced bool
	slots      int // how many names there are
	weight     int // how often it is changed

	content func(*rand.Rand) object // of a new object
	change  func(*rand.Rand) object // a merge patch
	status  func(*rand.Rand) object // a merge patch of the subresource; nil where there is none
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gadgets     = schema.GroupVersionResource{Group: "chaos.example.com", Version: "v1", Resource: "gadgets"}
)

const namespace = "default"

var all = []*objects{
	{
		resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, kind: "Pod",
		prefix: "/registry/pods/", configured: "pods", namespaced: true, slots: 500, weight: 6,
		content: func(*rand.Rand) object {
			return object{"spec": object{
				"terminationGracePeriodSeconds": int64(0), // nobody would end it
				"containers":                    []any{object{"name": "c", "image": "registry.example.com/web:1"}},
			}}
		},
		change: func(r *rand.Rand) object { return annotation(r) },
		status: func(r *rand.Rand) object {
			return object{"status": object{"phase": pick(r, "Pending", "Running", "Failed"), "message": text(r, 40)}}
		},
	},
	{
		resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, kind: "Deployment",
		prefix: "/registry/deployments/", configured: "deployments", namespaced: true, slots: 150, weight: 3,
		content: func(*rand.Rand) object {
			return object{"spec": object{
				"selector": object{"matchLabels": object{"app": "web"}},
				"template": object{
					"metadata": object{"labels": object{"app": "web"}},
					"spec":     object{"containers": []any{object{"name": "c", "image": "registry.example.com/web:1"}}},
				},
			}}
		},
		change: func(r *rand.Rand) object { return object{"spec": object{"replicas": r.Int64N(100)}} },
		status: func(r *rand.Rand) object {
			return object{"status": object{"observedGeneration": r.Int64N(1000), "replicas": r.Int64N(100)}}
		},
	},
	{
		resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, kind: "ConfigMap",
		prefix: "/registry/configmaps/", configured: "configmaps", namespaced: true, slots: 300, weight: 4,
		content: func(r *rand.Rand) object { return object{"data": object{"text": text(r, r.IntN(4000))}} },
		change:  func(r *rand.Rand) object { return object{"data": object{"text": text(r, r.IntN(4000))}} },
	},
	{
		resource: gadgets, kind: "Gadget",
		prefix: "/registry/chaos.example.com/gadgets/", configured: "gadgets.chaos.example.com", namespaced: true, slots: 200, weight: 3,
		content: func(r *rand.Rand) object { return object{"spec": object{"size": r.Int64N(100), "text": text(r, 200)}} },
		change:  func(r *rand.Rand) object { return object{"spec": object{"size": r.Int64(), "text": text(r, 200)}} },
		status:  func(r *rand.Rand) object { return object{"status": object{"seen": r.Int64()}} },
	},
	{
		// Most of them are written once or twice and then expire, several at one revision.
		resource: schema.GroupVersionResource{Version: "v1", Resource: "events"}, kind: "Event",
		prefix: "/registry/events/", configured: "events", namespaced: true, slots: 3000, weight: 4,
		content: func(r *rand.Rand) object {
			now := time.Now().UTC().Format(time.RFC3339)
			return object{
				"involvedObject": object{"kind": "Pod", "namespace": namespace, "name": "pod-1"},
				"type":           pick(r, "Normal", "Warning"), "reason": "Chaos", "message": text(r, 80),
				"firstTimestamp": now, "lastTimestamp": now, "count": int64(1),
			}
		},
		change: func(r *rand.Rand) object { return object{"count": r.Int64N(1 << 30), "message": text(r, 80)} },
	},
	{
		resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, kind: "Node",
		prefix: "/registry/minions/", configured: "nodes", slots: 60, weight: 2,
		content: func(*rand.Rand) object { return object{} },
		change:  func(r *rand.Rand) object { return object{"spec": object{"unschedulable": r.IntN(2) == 0}} },
		status: func(r *rand.Rand) object {
			return object{"status": object{"nodeInfo": object{"kernelVersion": text(r, 10)}}}
		},
	},
	{
		resource: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, kind: "ClusterRole",
		prefix: "/registry/clusterroles/", configured: "clusterroles", slots: 60, weight: 1,
		content: func(*rand.Rand) object { return object{"rules": []any{}} },
		change: func(r *rand.Rand) object {
			return object{"rules": []any{object{
				"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}, "resourceNames": []any{text(r, 20)},
			}}}
		},
	},
}

func (o *objects) name(slot int) string { return fmt.Sprintf("%s-%d", strings.ToLower(o.kind), slot) }

// group is the label by which several objects are deleted at once.
func group(slot int) string { return fmt.Sprint(slot % 40) }

func (o *objects) object(slot int, random *rand.Rand) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: o.content(random)}
	u.SetAPIVersion(o.resource.GroupVersion().String())
	u.SetKind(o.kind)
	u.SetName(o.name(slot))
	u.SetLabels(map[string]string{"group": group(slot)})
	if o.namespaced {
		u.SetNamespace(namespace)
	}
	return u
}

func annotation(r *rand.Rand) object {
	return object{"metadata": object{
		"labels":      object{"round": fmt.Sprint(r.IntN(1000))},
		"annotations": object{"example.com/note": text(r, r.IntN(300))},
	}}
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func text(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

// definition is the CRD of the custom resource.
func definition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": definitions.GroupVersion().String(), "kind": "CustomResourceDefinition",
		"metadata": object{"name": gadgets.GroupResource().String()},
		"spec": object{
			"group": gadgets.Group, "scope": "Namespaced",
			"names": object{"plural": gadgets.Resource, "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
			"versions": []any{object{
				"name": gadgets.Version, "served": true, "storage": true,
				"subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}},
			}},
		},
	}}
}

// edit is a merge patch that changes the definition's spec, upon which the API server begins a new watch history.
func edit(n int) object {
	return object{"spec": object{"names": object{"shortNames": []any{fmt.Sprintf("g%d", n)}}}}
}

var deleteNow = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
