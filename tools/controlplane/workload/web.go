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
	}, create(byHelm))
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
	}, create(byControllers))
	if err != nil {
		return fmt.Errorf("cannot create replicaset %s: %w", webName, err)
	}
	for range webReplicas {
		if err := w.addWebPod(ctx); err != nil {
			return err
		}
	}
	return w.reportWeb(ctx)
}

// scaleUp does what `kubectl scale` does, and then what controllers do.
func (w *Workload) scaleUp(ctx context.Context) error {
	const replicas = webReplicas + 1
	_, err := w.clients.AppsV1().Deployments(Namespace).Patch(ctx, webName, types.MergePatchType, replicasPatch(replicas), patch(byKubectl), "scale")
	if err != nil {
		return fmt.Errorf("cannot scale deployment %s: %w", webName, err)
	}
	if err := w.scaled(ctx, replicas); err != nil {
		return err
	}
	if err := w.addWebPod(ctx); err != nil {
		return err
	}
	return w.reportWeb(ctx)
}

// scaleDown does what the next `helm upgrade` does to a Deployment that was scaled by hand.
func (w *Workload) scaleDown(ctx context.Context) error {
	_, err := w.clients.AppsV1().Deployments(Namespace).Patch(ctx, webName, types.MergePatchType, replicasPatch(webReplicas), patch(byHelm))
	if err != nil {
		return fmt.Errorf("cannot scale deployment %s: %w", webName, err)
	}
	if err := w.scaled(ctx, webReplicas); err != nil {
		return err
	}
	// An earlier step may have failed, so there may be any number of pods.
	for len(w.web.pods) > webReplicas {
		if err := w.endPod(ctx, w.web.pods[0]); err != nil {
			return err
		}
		w.web.pods = w.web.pods[1:]
	}
	return w.reportWeb(ctx)
}

func replicasPatch(replicas int) []byte {
	return fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
}

// scaled does what the controller of Deployments does after its Deployment was scaled.
func (w *Workload) scaled(ctx context.Context, replicas int) error {
	name := w.web.replicaSet.Name
	_, err := w.clients.AppsV1().ReplicaSets(Namespace).Patch(ctx, name, types.MergePatchType, replicasPatch(replicas), patch(byControllers))
	if err != nil {
		return fmt.Errorf("cannot scale replicaset %s: %w", name, err)
	}
	w.Log("scaled deployment %s/%s to %d", Namespace, webName, replicas)
	return nil
}

// reportWeb does what the controllers do when pods have come or gone: they count them.
func (w *Workload) reportWeb(ctx context.Context) error {
	n := len(w.web.pods)
	apps := w.clients.AppsV1()
	counts := fmt.Appendf(nil, `{"status":{"replicas":%[1]d,"readyReplicas":%[1]d,"availableReplicas":%[1]d}}`, n)
	name := w.web.replicaSet.Name
	if _, err := apps.ReplicaSets(Namespace).Patch(ctx, name, types.MergePatchType, counts, patch(byControllers), "status"); err != nil {
		return fmt.Errorf("cannot count the pods of replicaset %s: %w", name, err)
	}
	counts = fmt.Appendf(nil, `{"status":{"replicas":%[1]d,"updatedReplicas":%[1]d,"readyReplicas":%[1]d,"availableReplicas":%[1]d}}`, n)
	if _, err := apps.Deployments(Namespace).Patch(ctx, webName, types.MergePatchType, counts, patch(byControllers), "status"); err != nil {
		return fmt.Errorf("cannot count the pods of deployment %s: %w", webName, err)
	}
	return nil
}

func (w *Workload) addWebPod(ctx context.Context) error {
	set := w.web.replicaSet
	name := set.Name + "-" + rand.String(5)
	err := w.startPod(ctx, byControllers, &corev1.Pod{
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
	change := fmt.Appendf(nil, `{"metadata":{"labels":{"canary":"round-%d"}}}`, w.round+1)
	if _, err := w.clients.CoreV1().Pods(Namespace).Patch(ctx, name, types.MergePatchType, change, patch(byLabel)); err != nil {
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
	if pod, err = w.clients.CoreV1().Pods(Namespace).UpdateStatus(ctx, pod, update(byKubelet)); err != nil {
		return fmt.Errorf("cannot restart a container of pod %s: %w", name, err)
	}
	w.Log("a container of pod %s/%s ran out of memory and was restarted", Namespace, name)
	return w.event(ctx, pod, byKubelet, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container web")
}
