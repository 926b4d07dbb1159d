package corpus

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// node returns a node with fifty images.
func node(r *source) object {
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metadata(r, map[string]string{
		"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": nameMark,
		"topology.kubernetes.io/zone": "zone-" + r.hex(1), "node.kubernetes.io/instance-type": "large",
	}, map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"})}
	n.Namespace = ""
	n.Spec.PodCIDR = r.address() + "/24"
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n.Status = corev1.NodeStatus{
		Capacity: resources, Allocatable: resources,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: r.address()}, {Type: corev1.NodeHostName, Address: nameMark}},
		NodeInfo:  corev1.NodeSystemInfo{MachineID: r.hex(32), KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64"},
	}
	for _, condition := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: condition, Status: corev1.ConditionFalse, LastHeartbeatTime: created, LastTransitionTime: created, Reason: "KubeletHas", Message: stateNote})
	}
	for range 50 {
		name := r.word()
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{r.image(name), "registry.example.com/" + name + "@sha256:" + r.hex(64)}, SizeBytes: r.Int64N(1e9)})
	}
	managed(n, "v1", manager{name: "kubelet", subresource: "status", parts: []string{"metadata", "status"}})
	return n
}

// deployment returns a deployment whose pod template has two containers.
func deployment(r *source) object {
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"},
		ObjectMeta: metadata(r, nil, map[string]string{"deployment.kubernetes.io/revision": "4"})}
	replicas, history, surge := int32(3), int32(10), intstr.FromString("25%")
	labels := map[string]string{"app.kubernetes.io/instance": nameMark}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &replicas, RevisionHistoryLimit: &history, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec(r, medium)},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &surge}},
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}
	for _, condition := range []appsv1.DeploymentConditionType{appsv1.DeploymentAvailable, appsv1.DeploymentProgressing} {
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: condition, Status: corev1.ConditionTrue,
			LastUpdateTime: created, LastTransitionTime: created, Reason: "NewReplicaSetAvailable", Message: stateNote})
	}
	managed(d, "apps/v1",
		manager{name: "helm", parts: []string{"metadata", "spec"}},
		manager{name: "kube-controller-manager", subresource: "status", parts: []string{"status"}})
	return d
}

func event(r *source) object {
	e := &corev1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}, ObjectMeta: metadata(r, nil, nil)}
	e.Labels = nil
	e.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Namespace: namespaceMark, Name: "web-" + r.hex(10),
		UID: "0f0e2a33-7a9d-4a5e-8a53-f0" + "00" + "12345678", APIVersion: "v1", ResourceVersion: "1234"}
	e.Reason, e.Type = "BackOff", corev1.EventTypeWarning
	e.Message = "Back-off restarting failed container " + r.word() + " in pod " + nameMark + ": " + stateNote
	e.Source = corev1.EventSource{Component: "kubelet", Host: fmt.Sprintf("node-%03d", r.IntN(500))}
	e.FirstTimestamp, e.LastTimestamp, e.Count = created, created, 1+r.Int32N(90)
	e.ReportingController = "kubelet"
	managed(e, "v1", manager{name: "kubelet", parts: []string{"count", "firstTimestamp", "lastTimestamp", "involvedObject", "message", "reason", "source", "type"}})
	return e
}

// rollout returns a custom object with a deep spec.
func rollout(r *source, kind string, depth int) object {
	meta := metadata(r, nil, map[string]string{"rollouts.example.com/note": status(r, 150)})
	labels := map[string]any{}
	for key, value := range meta.Labels {
		labels[key] = value
	}
	var steps, conditions []any
	for i := range depth {
		steps = append(steps, map[string]any{
			"name": fmt.Sprintf("step-%02d", i), "weight": int64(i * 8),
			"analysis": map[string]any{"metrics": []any{
				map[string]any{"name": "errors", "threshold": 0.05, "query": map[string]any{"provider": map[string]any{"address": "http://metrics." + r.word()}, "expression": "rate(http_errors[5m])"}},
				map[string]any{"name": "latency", "threshold": int64(r.IntN(900)), "query": map[string]any{"provider": map[string]any{"address": "http://metrics." + r.word()}, "expression": "p99(http_seconds)"}},
			}},
			"pause": map[string]any{"duration": "5m", "until": nil, "manual": i%3 == 0},
		})
	}
	for i := range 4 {
		conditions = append(conditions, map[string]any{"type": fmt.Sprintf("Condition%d", i), "status": "True",
			"lastTransitionTime": "2026-05-04T09:30:00Z", "reason": "AsExpected", "message": "everything is as " + r.word() + " expects it"})
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bench.example.com/v1", "kind": kind,
		"metadata": map[string]any{
			"name": nameMark, "namespace": namespaceMark, "uid": uidMark, "resourceVersion": versionMark, "generation": int64(3),
			"creationTimestamp": "2026-05-04T09:30:00Z", "labels": labels,
			"annotations": map[string]any{"rollouts.example.com/note": meta.Annotations["rollouts.example.com/note"]},
		},
		"spec":   map[string]any{"replicas": int64(5), "strategy": map[string]any{"canary": map[string]any{"steps": steps}}, "workload": map[string]any{"kind": "Deployment", "name": r.word()}},
		"status": map[string]any{"phase": "Healthy", "message": stateNote, "conditions": conditions, "stable": r.hex(10)},
	}}
	managed(u, "bench.example.com/v1",
		manager{name: "argo", parts: []string{"metadata", "spec"}},
		manager{name: "controller", subresource: "status", parts: []string{"status"}})
	return u
}
