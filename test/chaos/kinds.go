package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

type object = map[string]any

// objects is one resource that the writer changes and the Collector reads.
type objects struct {
	resource   schema.GroupVersionResource // with the version that is served from the start
	kind       string
	prefix     string   // of its keys in etcd
	configured string   // name in the Collector's configuration
	namespaces []string // none: it is cluster-scoped
	slots      int      // number of names
	weight     int      // how often it is changed

	// quiet is where changes are rare: a namespace of its own or, without a weight, everywhere.
	quiet string
	// moved is the current version, if it has moved.
	moved atomic.Pointer[string]

	content func(*rand.Rand) object // of a new object
	change  func(*rand.Rand) object // a merge patch
	status  func(*rand.Rand) object // a merge patch of the subresource; nil if there is none
	// heartbeat is a merge patch of the status that changes nothing of substance, at least not again; nil if there is none.
	heartbeat func(*rand.Rand) object
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gadgets     = schema.GroupVersionResource{Group: "chaos.example.com", Version: firstVersion, Resource: "gadgets"}
)

const (
	namespace      = "default"
	otherNamespace = "other"
	stillNamespace = "still" // with rare changes
)

// everywhere marks a cluster-scoped resource that is rarely changed.
const everywhere = "*"

// chosenBy is a label of all objects that are read with a selector.
const (
	chosenKey   = "chosen"
	chosenValue = "yes"
)

var all = []*objects{
	{
		resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, kind: "Pod",
		prefix: "/registry/pods/", configured: "pods", namespaces: []string{namespace}, slots: 500, weight: 6,
		content: func(*rand.Rand) object {
			return object{"spec": object{
				"terminationGracePeriodSeconds": int64(0), // there is no kubelet to end it
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
		prefix: "/registry/deployments/", configured: "deployments.apps", namespaces: []string{namespace, otherNamespace}, slots: 150, weight: 3,
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
		heartbeat: func(r *rand.Rand) object { return object{"status": object{"observedGeneration": r.Int64N(1000)}} },
	},
	{
		resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, kind: "ConfigMap",
		prefix: "/registry/configmaps/", configured: "configmaps", namespaces: []string{namespace}, slots: 300, weight: 4,
		content: func(r *rand.Rand) object { return object{"data": object{"text": text(r, r.IntN(4000))}} },
		change:  func(r *rand.Rand) object { return object{"data": object{"text": text(r, r.IntN(4000))}} },
	},
	{
		resource: gadgets, kind: "Gadget",
		prefix: "/registry/chaos.example.com/gadgets/", configured: "gadgets.chaos.example.com", namespaces: []string{namespace}, slots: 200, weight: 3,
		content: func(r *rand.Rand) object { return object{"spec": object{"size": r.Int64N(100), "text": text(r, 200)}} },
		change:  func(r *rand.Rand) object { return object{"spec": object{"size": r.Int64(), "text": text(r, 200)}} },
		status:  func(r *rand.Rand) object { return object{"status": object{"seen": r.Int64()}} },
	},
	{
		// Most are written once or twice and then expire, several at one revision.
		resource: schema.GroupVersionResource{Version: "v1", Resource: "events"}, kind: "Event",
		prefix: "/registry/events/", configured: "events", namespaces: []string{namespace}, quiet: stillNamespace, slots: 3000, weight: 4,
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
		heartbeat: func(r *rand.Rand) object {
			at := time.Now().UTC().Add(-time.Duration(r.IntN(1000)) * time.Second).Format(time.RFC3339)
			return object{"status": object{"conditions": []any{object{"type": "Ready", "status": "True", "lastHeartbeatTime": at}}}}
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
	{
		// Two versions of it are always served.
		resource: schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}, kind: "HorizontalPodAutoscaler",
		prefix: "/registry/horizontalpodautoscalers/", configured: "horizontalpodautoscalers.autoscaling", namespaces: []string{namespace}, slots: 60, weight: 2,
		content: func(r *rand.Rand) object {
			return object{"spec": object{
				"scaleTargetRef": object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment-1"},
				"minReplicas":    int64(1), "maxReplicas": 1 + r.Int64N(100),
			}}
		},
		change: func(r *rand.Rand) object { return object{"spec": object{"maxReplicas": 1 + r.Int64N(100)}} },
	},
	{
		resource: schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}, kind: "RuntimeClass",
		prefix: "/registry/runtimeclasses/", configured: "runtimeclasses.node.k8s.io", slots: 10, weight: 0, quiet: everywhere,
		content: func(*rand.Rand) object { return object{"handler": "chaos"} },
		change:  func(r *rand.Rand) object { return annotation(r) },
	},
}

// objectsOf returns the objects of a resource by its full name.
func objectsOf(name string) *objects {
	for _, o := range all {
		if o.resource.GroupResource().String() == name {
			return o
		}
	}
	panic("no writer for " + name)
}

func (o *objects) name(slot int) string { return fmt.Sprintf("%s-%d", strings.ToLower(o.kind), slot) }

// groups is the number of groups of objects that are deleted together.
const groups = 40

// group returns the label by which several objects are deleted together.
func group(slot int) string { return fmt.Sprint(slot % groups) }

// namespace returns the namespace of the object in a slot; "" if it has none. Objects that are deleted together share
// it.
func (o *objects) namespace(slot int) string {
	if len(o.namespaces) == 0 {
		return ""
	}
	return o.namespaces[slot%groups%len(o.namespaces)]
}

// served returns the resource in its current version.
func (o *objects) served() schema.GroupVersionResource {
	served := o.resource
	if version := o.moved.Load(); version != nil {
		served.Version = *version
	}
	return served
}

// in returns a client of the objects of a namespace; "" for cluster-scoped ones.
func (o *objects) in(client dynamic.Interface, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return client.Resource(o.served())
	}
	return client.Resource(o.served()).Namespace(namespace)
}

func (o *objects) object(slot int, random *rand.Rand) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: o.content(random)}
	u.SetAPIVersion(o.served().GroupVersion().String())
	u.SetKind(o.kind)
	u.SetName(o.name(slot))
	u.SetLabels(map[string]string{"group": group(slot), chosenKey: chosenValue})
	u.SetNamespace(o.namespace(slot))
	return u
}

func annotation(r *rand.Rand) object {
	return object{"metadata": object{
		"labels":      object{"round": fmt.Sprint(r.IntN(1000))},
		"annotations": object{"example.com/note": text(r, r.IntN(300))},
	}}
}

// forgetManagers is a merge patch that removes managedFields, and so changes nothing of substance.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields
func forgetManagers() object {
	return object{"metadata": object{"managedFields": []any{object{}}}}
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

// The versions of the custom resource: v1alpha1, then v1, v2 and so on. Each move replaces the version with the next
// one.
const firstVersion = "v1alpha1"

func versionAfter(moves int) string {
	if moves == 0 {
		return firstVersion
	}
	return fmt.Sprintf("v%d", moves)
}

// definition returns the CRD of the custom resource.
func definition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": definitions.GroupVersion().String(), "kind": "CustomResourceDefinition",
		"metadata": object{"name": gadgets.GroupResource().String()},
		"spec": object{
			"group": gadgets.Group, "scope": "Namespaced",
			"names":    object{"plural": gadgets.Resource, "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
			"versions": versions(0, false),
		},
	}}
}

// versions returns the versions of the definition after some moves: only the last one is served, or the next one too.
func versions(moves int, both bool) []any {
	last := moves
	if both {
		last++
	}
	var all []any
	for n := range last + 1 {
		all = append(all, object{
			"name": versionAfter(n), "served": n >= moves, "storage": n == moves,
			"subresources": object{"status": object{}},
			"schema": object{"openAPIV3Schema": object{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
			}},
		})
	}
	return all
}

// edit returns a merge patch that changes the definition's spec, after which the API server begins a new watch history.
func edit(n int) object {
	return object{"spec": object{"names": object{"shortNames": []any{fmt.Sprintf("g%d", n)}}}}
}

var deleteNow = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
