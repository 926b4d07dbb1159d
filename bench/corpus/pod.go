package corpus

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// podSize is the size of a pod.
type podSize struct {
	containers, env, mounts int
	probes                  bool
	annotation              int // bytes
}

var (
	small  = podSize{containers: 1}
	medium = podSize{containers: 2, env: 3, mounts: 1, annotation: 300}
	large  = podSize{containers: 5, env: 5, mounts: 1, annotation: 1500, probes: true}
)

// pod returns a running pod of a Deployment.
func pod(r *source, size podSize) object {
	hash := r.hex(10)
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metadata(r, map[string]string{"pod-template-hash": hash}, nil),
	}
	if size == small {
		p.Labels = map[string]string{"app": r.word(), "pod-template-hash": hash}
	}
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-" + hash, UID: types.UID("6b1f5c0e-0f5c-4a55-9d4b-" + uidTail(r)),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}}
	if size.annotation > 0 {
		p.Annotations = map[string]string{
			"prometheus.io/scrape": "true", "prometheus.io/port": "9102", "prometheus.io/path": "/metrics",
			"kubectl.kubernetes.io/restartedAt": "2026-05-04T09:29:58Z",
			"sidecar.example.com/status":        status(r, size.annotation),
		}
	}
	p.Spec = podSpec(r, size)
	p.Spec.NodeName = fmt.Sprintf("node-%03d.example.com", r.IntN(500))
	p.Status = podStatus(r, &p.Spec)
	p.Status.Message = stateNote
	if size == small {
		managed(p, "v1", manager{name: "kube-controller-manager", parts: []string{"metadata", "spec"}})
		return p
	}
	managed(p, "v1",
		manager{name: "kube-controller-manager", parts: []string{"metadata", "spec"}},
		manager{name: "kubelet", subresource: "status", parts: []string{"status"}})
	return p
}

func uidTail(r *source) string { return r.hex(12) }

// status returns an annotation with JSON, as written by sidecar injectors.
func status(r *source, size int) string {
	var b strings.Builder
	b.WriteString(`{"initContainers":["init"],"containers":["proxy"]`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,"%s%d":"%s"`, r.word(), i, r.hex(8))
	}
	b.WriteString("}")
	return b.String()
}

func podSpec(r *source, size podSize) corev1.PodSpec {
	grace, tolerate, uid, yes := int64(30), int64(300), int64(1000), true
	spec := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: &grace,
		DNSPolicy:                     corev1.DNSClusterFirst,
		ServiceAccountName:            "default",
		SecurityContext:               &corev1.PodSecurityContext{},
		SchedulerName:                 "default-scheduler",
	}
	for c := range size.containers {
		name := []string{"app", "proxy", "exporter", "agent", "cache"}[c]
		container := corev1.Container{
			Name: name, Image: r.image(name), ImagePullPolicy: corev1.PullIfNotPresent,
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}
		if size.env > 0 {
			container.Args = []string{"--listen=:8080", "--log-format=json", "--shutdown-grace=20s"}
			container.Ports = []corev1.ContainerPort{{Name: fmt.Sprintf("http-%d", c), ContainerPort: int32(8080 + c), Protocol: corev1.ProtocolTCP}}
			container.Resources = corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			}
			if size.probes {
				container.SecurityContext = &corev1.SecurityContext{RunAsUser: &uid, RunAsNonRoot: &yes}
			}
		}
		for i := range size.env {
			env := corev1.EnvVar{Name: fmt.Sprintf("%s_SETTING_%02d", strings.ToUpper(name), i), Value: "http://" + r.word() + "." + r.word() + ".svc:8080/" + r.hex(24)}
			if i%6 == 5 {
				env.Value = ""
				env.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}
			}
			container.Env = append(container.Env, env)
		}
		if size.probes {
			probe := &corev1.Probe{
				ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080), Scheme: "HTTP"}},
				InitialDelaySeconds: 5, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
			}
			container.LivenessProbe = probe
		}
		for m := range size.mounts {
			volume := []string{"config", "cache", "tmp", "certificates"}[m]
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/var/lib/" + volume})
		}
		if size == small {
			container.TerminationMessagePath, container.TerminationMessagePolicy = "", ""
			spec.Containers = append(spec.Containers, container)
			continue
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: "kube-api-access", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"})
		spec.Containers = append(spec.Containers, container)
	}
	for m := range size.mounts {
		spec.Volumes = append(spec.Volumes, []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: r.word()}}}},
			{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			{Name: "certificates", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: r.word() + "-tls"}}},
		}[m])
	}
	if size == small {
		return spec
	}
	expires := int64(3607)
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expires, Path: "token"}},
		}}}})
	if size.probes {
		for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &tolerate})
		}
	}
	return spec
}

func podStatus(r *source, spec *corev1.PodSpec) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: r.address(), PodIP: r.address(), StartTime: &created, QOSClass: corev1.PodQOSBurstable,
	}
	for _, condition := range []corev1.PodConditionType{
		corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	}[:min(4, 3*len(spec.Containers)-2)] {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: created})
	}
	started := true
	for i := range spec.Containers {
		c := &spec.Containers[i]
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: created}}, Ready: true,
			RestartCount: r.Int32N(3), Image: c.Image, ImageID: c.Image + "@sha256:" + r.hex(64), ContainerID: "containerd://" + r.hex(64),
			Started: &started,
		})
	}
	return status
}

// NewPod returns a pod of about 8 KB as a client creates it.
func NewPod(seed uint64, name string) *corev1.Pod {
	r := newSource(seed, uint64(len(name)))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Labels = map[string]string{
		"app.kubernetes.io/name": r.word(), "app.kubernetes.io/instance": name, "app.kubernetes.io/version": r.version(),
		"app.kubernetes.io/managed-by": "Helm", "pod-template-hash": r.hex(10),
	}
	p.Annotations = map[string]string{"prometheus.io/scrape": "true", "sidecar.example.com/status": status(r, 700)}
	size := medium
	size.env = 9
	p.Spec = podSpec(r, size)
	p.Spec.TerminationGracePeriodSeconds = new(int64) // there is no kubelet to end it
	return p
}
