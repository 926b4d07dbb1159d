package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startPod creates a pod in the name of the manager and does the work of the scheduler and the kubelet.
func (w *Workload) startPod(ctx context.Context, manager string, pod *corev1.Pod) error {
	pods := w.clients.CoreV1().Pods(Namespace)
	created, err := pods.Create(ctx, pod, create(manager))
	if err != nil {
		return fmt.Errorf("cannot create pod %s: %w", pod.Name, err)
	}
	node := nodeNames[0]
	err = pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: created.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, create(byScheduler))
	if err != nil {
		return fmt.Errorf("cannot assign pod %s: %w", pod.Name, err)
	}
	message := fmt.Sprintf("Successfully assigned %s/%s to %s", Namespace, created.Name, node)
	if err := w.event(ctx, created, byScheduler, corev1.EventTypeNormal, "Scheduled", message); err != nil {
		return err
	}
	if created, err = pods.Get(ctx, created.Name, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("cannot start pod %s: %w", pod.Name, err)
	}
	now := metav1.Now()
	container := created.Spec.Containers[0]
	created.Status.Phase = corev1.PodRunning
	created.Status.StartTime = &now
	created.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now,
	}}
	created.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: container.Name, Image: container.Image, Ready: true, Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
	if created, err = pods.UpdateStatus(ctx, created, update(byKubelet)); err != nil {
		return fmt.Errorf("cannot start pod %s: %w", pod.Name, err)
	}
	w.Log("started pod %s/%s on %s", Namespace, created.Name, node)
	return w.event(ctx, created, byKubelet, corev1.EventTypeNormal, "Started", "Started container "+container.Name)
}

// endPod deletes a pod like a user, which only marks it, and then like the kubelet after its containers have ended.
func (w *Workload) endPod(ctx context.Context, name string) error {
	pods := w.clients.CoreV1().Pods(Namespace)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("cannot delete pod %s: %w", name, err)
	}
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		return fmt.Errorf("cannot delete pod %s: %w", name, err)
	}
	w.Log("deleted pod %s/%s", Namespace, name)
	return nil
}

func (w *Workload) event(ctx context.Context, pod *corev1.Pod, manager, kind, reason, message string) error {
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: pod.Name + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		Type: kind, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: manager},
	}
	if _, err := w.clients.CoreV1().Events(pod.Namespace).Create(ctx, event, create(manager)); err != nil {
		return fmt.Errorf("cannot create an event of pod %s: %w", pod.Name, err)
	}
	return nil
}
