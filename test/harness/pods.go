package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// SmallPod returns a pod of about 1.5 KB that is never scheduled.
func SmallPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64), // there is no kubelet to end it
			Containers:                    []corev1.Container{{Name: "c", Image: "registry.example.com/web:1"}},
		},
	}
}

// writers is the number of concurrent requests for many objects.
const writers = 16

// EachOf calls do for each of n names, many at a time.
func EachOf(t testing.TB, prefix string, n int, do func(ctx context.Context, name string) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	numbers := make(chan int)
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for i := range numbers {
				if err := do(ctx, fmt.Sprintf("%s-%05d", prefix, i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		numbers <- i
	}
	close(numbers)
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
}

// CreatePods creates pods named prefix-00000 and so on in the namespace default.
func (c *Cluster) CreatePods(t testing.TB, prefix string, n int, pod func(name string) *corev1.Pod) {
	t.Helper()
	EachOf(t, prefix, n, func(ctx context.Context, name string) error {
		_, err := c.Client.CoreV1().Pods("default").Create(ctx, pod(name), metav1.CreateOptions{})
		return err
	})
}

// ChangePods changes a label of such pods.
func (c *Cluster) ChangePods(t testing.TB, prefix string, n int) {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
	EachOf(t, prefix, n, func(ctx context.Context, name string) error {
		_, err := c.Client.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// DeletePods deletes such pods.
func (c *Cluster) DeletePods(t testing.TB, prefix string, n int) {
	t.Helper()
	EachOf(t, prefix, n, func(ctx context.Context, name string) error {
		return c.Client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// Prefix returns the common prefix of names created by these functions.
func Prefix(name string) string {
	prefix, _, _ := strings.Cut(name, "-")
	return prefix
}

// WatchPodsFrom begins to watch the pods from a resourceVersion, and returns the server's error if that fails.
func (c *Cluster) WatchPodsFrom(t testing.TB, rv string) error {
	t.Helper()
	watch, err := c.Client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rv})
	if err != nil {
		return err
	}
	defer watch.Stop()
	first, ok := <-watch.ResultChan()
	if !ok {
		return errors.New("the server ended the watch at once")
	}
	return apierrors.FromObject(first.Object)
}

// LargePod returns a pod of about 8 KB as in a busy cluster: several containers with environment, probes, resources and
// mounts; a third of it is managedFields.
func LargePod(name string) *corev1.Pod {
	pod := SmallPod(name)
	pod.Labels = map[string]string{
		"app.kubernetes.io/name": "checkout", "app.kubernetes.io/instance": name, "app.kubernetes.io/version": "2.14.3",
		"app.kubernetes.io/component": "api", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "6d4cf56db6",
	}
	pod.Annotations = map[string]string{
		"prometheus.io/scrape": "true", "prometheus.io/port": "9102", "prometheus.io/path": "/metrics",
		"sidecar.example.com/config": strings.Repeat(name+" ", 20),
	}
	probe := &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}},
		InitialDelaySeconds: 5, PeriodSeconds: 10,
	}
	pod.Spec.Containers = nil
	for number, container := range []string{"app", "proxy"} {
		c := corev1.Container{
			Name: container, Image: "registry.example.com/shop/" + container + "@sha256:" + strings.Repeat("0a1b2c3d", 8),
			Args:  []string{"--listen=:8080", "--log-format=json", "--shutdown-grace=20s"},
			Ports: []corev1.ContainerPort{{Name: container, ContainerPort: int32(8080 + number)}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			},
			LivenessProbe: probe, ReadinessProbe: probe,
		}
		for i := range 6 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i), Value: fmt.Sprintf("%s-value-%02d", name, i)})
		}
		for _, volume := range []string{"config", "cache", "tmp", "certificates"} {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/var/lib/" + volume})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "checkout"}}}},
		{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: "certificates", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "checkout-tls"}}},
	}
	return pod
}
