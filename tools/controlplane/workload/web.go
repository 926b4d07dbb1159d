package workload

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

// webDeployment is the deployment that is scaled up and down.
type webDeployment struct {
	replicaSet *appsv1.ReplicaSet
	pods       []string // the oldest first
}

const (
	webName     = "web"
	webReplicas = 2
	webHash     = "6d4cf56db6"
)

func (w *Workload) applyWeb(ctx context.Context) error {
	labels := map[string]string{"app": "web"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{
		Name:  "web",
		Image: "example.com/web:1.0",
		// A literal value, as people write it despite better advice.
		Env: []corev1.EnvVar{{Name: "API_TOKEN", Value: "sample-token"}, {
			Name: "DATABASE_PASSWORD",
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: secretName}, Key: "password",
			}},
		}},
	}}}
	deployment, err := w.clients.AppsV1().Deployments(Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: webName, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(webReplicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create deployment %s: %w", webName, err)
	}
	hashed := map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: webHash}
	w.web.replicaSet, err = w.clients.AppsV1().ReplicaSets(Namespace).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            webName + "-" + webHash,
			Labels:          hashed,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(webReplicas)),
			Selector: &metav1.LabelSelector{MatchLabels: hashed},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: hashed}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create replicaset %s: %w", webName, err)
	}
	for range webReplicas {
		if err := w.addWebPod(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *Workload) scaleUp(ctx context.Context) error {
	if err := w.scale(ctx, webReplicas+1); err != nil {
		return err
	}
	return w.addWebPod(ctx)
}

func (w *Workload) scaleDown(ctx context.Context) error {
	if err := w.scale(ctx, webReplicas); err != nil {
		return err
	}
	// An earlier step may have failed, so there may be any number of pods.
	for len(w.web.pods) > webReplicas {
		if err := w.endPod(ctx, w.web.pods[0]); err != nil {
			return err
		}
		w.web.pods = w.web.pods[1:]
	}
	return nil
}

// scale does what `kubectl scale` does, and then what the controller of Deployments does.
func (w *Workload) scale(ctx context.Context, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	apps := w.clients.AppsV1()
	byUser := metav1.PatchOptions{FieldManager: "kubectl"}
	if _, err := apps.Deployments(Namespace).Patch(ctx, webName, types.MergePatchType, patch, byUser, "scale"); err != nil {
		return fmt.Errorf("cannot scale deployment %s: %w", webName, err)
	}
	byController := metav1.PatchOptions{FieldManager: "kube-controller-manager"}
	if _, err := apps.ReplicaSets(Namespace).Patch(ctx, w.web.replicaSet.Name, types.MergePatchType, patch, byController); err != nil {
		return fmt.Errorf("cannot scale replicaset %s: %w", w.web.replicaSet.Name, err)
	}
	w.Log("scaled deployment %s/%s to %d", Namespace, webName, replicas)
	return nil
}

func (w *Workload) addWebPod(ctx context.Context) error {
	set := w.web.replicaSet
	name := set.Name + "-" + rand.String(5)
	err := w.startPod(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			Labels:          set.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	})
	if err != nil {
		return err
	}
	w.web.pods = append(w.web.pods, name)
	return nil
}

// labelPod marks the youngest pod.
func (w *Workload) labelPod(ctx context.Context) error {
	name := w.web.pods[len(w.web.pods)-1]
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"canary":"round-%d"}}}`, w.round+1)
	if _, err := w.clients.CoreV1().Pods(Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("cannot label pod %s: %w", name, err)
	}
	w.Log("labeled pod %s/%s", Namespace, name)
	return nil
}

// failPod restarts the container of the oldest pod.
func (w *Workload) failPod(ctx context.Context) error {
	name := w.web.pods[0]
	pod, err := w.clients.CoreV1().Pods(Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot restart a container of pod %s: %w", name, err)
	}
	status := &pod.Status.ContainerStatuses[0]
	status.RestartCount++
	status.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "OOMKilled", StartedAt: pod.CreationTimestamp, FinishedAt: metav1.Now(),
	}}
	if pod, err = w.clients.CoreV1().Pods(Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("cannot restart a container of pod %s: %w", name, err)
	}
	w.Log("a container of pod %s/%s ran out of memory and was restarted", Namespace, name)
	return w.event(ctx, pod, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container web")
}
