package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	namespace = "shop"
	name      = "web"
	nodes     = 3
	replicas  = 3
	scaledTo  = 5
	image     = "example.com/web:1.0"
	newImage  = "example.com/web:2.0"
)

// chapter is a part of the story: what a person did, and what came of it.
type chapter struct {
	title string
	// from is the version of the cluster before it.
	from int64
}

// rollout is a person who works with a Deployment as with kubectl: with its requests, and in the name of its field managers.
type rollout struct {
	http    *http.Client
	clients kubernetes.Interface
}

func newRollout(config *rest.Config) (*rollout, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client for the story: %w", err)
	}
	clients, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client for the story: %w", err)
	}
	return &rollout{httpClient, clients}, nil
}

func (r *rollout) close() { r.http.CloseIdleConnections() }

// prepare creates the namespace and the nodes, and waits until pods can be assigned to them.
func (r *rollout) prepare(ctx context.Context) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := r.clients.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot create namespace %s: %w", namespace, err)
	}
	for n := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", n+1)}}
		if _, err := r.clients.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("cannot create node %s: %w", node.Name, err)
		}
	}
	say("waiting for the nodes ...")
	return await(ctx, "the nodes to be ready", func() (string, error) {
		list, err := r.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			node := &list.Items[i]
			if len(node.Spec.Taints) > 0 || len(node.Status.Allocatable) == 0 {
				return fmt.Sprintf("node %s has the taints %v and can allocate %v", node.Name, node.Spec.Taints, node.Status.Allocatable), nil
			}
		}
		return "", nil
	})
}

// happen makes the story happen. It returns the chapters in order.
func (r *rollout) happen(ctx context.Context) ([]chapter, error) {
	var chapters []chapter
	for _, step := range []struct {
		title string
		do    func(context.Context) error
		done  func(context.Context) (string, error)
	}{
		{fmt.Sprintf("kubectl create deployment %s --image=%s --replicas=%d", name, image, replicas), r.create, r.available(replicas)},
		{fmt.Sprintf("kubectl set image deployment/%s %s=%s", name, name, newImage), r.setImage, r.available(replicas)},
		{fmt.Sprintf("kubectl scale deployment/%s --replicas=%d", name, scaledTo), r.scale, r.available(scaledTo)},
		{fmt.Sprintf("kubectl delete deployment/%s", name), r.remove, r.gone},
	} {
		list, err := r.clients.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("cannot list deployments: %w", err)
		}
		from, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot use the version of a list of deployments: %w", err)
		}
		chapters = append(chapters, chapter{step.title, from})
		say("like %s ...", step.title)
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("cannot do what `%s` does: %w", step.title, err)
		}
		if err := await(ctx, "the effect of "+step.title, func() (string, error) { return step.done(ctx) }); err != nil {
			return nil, err
		}
	}
	return chapters, nil
}

func (r *rollout) create(ctx context.Context) error {
	labels := map[string]string{"app": name}
	_, err := r.clients.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image}}},
			},
		},
	}, metav1.CreateOptions{FieldManager: "kubectl-create"})
	return err
}

func (r *rollout) setImage(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, newImage)
	_, err := r.clients.AppsV1().Deployments(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-set"})
	return err
}

func (r *rollout) scale(ctx context.Context) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, scaledTo)
	_, err := r.clients.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl"}, "scale")
	return err
}

func (r *rollout) remove(ctx context.Context) error {
	return r.clients.AppsV1().Deployments(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
}

// available returns a condition: the Deployment has this many pods of its newest template, all are available, and no others
// are left.
func (r *rollout) available(want int32) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		deployment, err := r.clients.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		pods, err := r.clients.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		if s := &deployment.Status; s.ObservedGeneration < deployment.Generation || s.Replicas != want || s.UpdatedReplicas != want ||
			s.AvailableReplicas != want || len(pods.Items) != int(want) {
			return fmt.Sprintf("%d pods, of %d replicas %d are updated and %d available", len(pods.Items), s.Replicas, s.UpdatedReplicas, s.AvailableReplicas), nil
		}
		return "", nil
	}
}

// gone is a condition: the Deployment and everything that it owned is gone.
func (r *rollout) gone(ctx context.Context) (string, error) {
	if _, err := r.clients.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return "the deployment exists", err
	}
	sets, err := r.clients.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	pods, err := r.clients.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	if len(sets.Items)+len(pods.Items) > 0 {
		return fmt.Sprintf("%d replicasets and %d pods exist", len(sets.Items), len(pods.Items)), nil
	}
	return "", nil
}

// missing returns what the records lack at the end of the story: the deletion of an object, or the last state of an Event.
func (r *rollout) missing(ctx context.Context, all records) (string, error) {
	alive := map[string]string{}
	seen := map[string]bool{}
	for _, record := range all {
		uid := record.attribute("k8s.object.uid")
		switch {
		case record.EventName == "k8s.event":
			seen[record.attribute("k8s.event.uid")+" "+record.attribute("k8s.event.resource_version")] = true
		case record.EventName == "k8s.object.deleted":
			delete(alive, uid)
		case uid != "":
			alive[uid] = record.summary()
		}
	}
	for _, summary := range alive {
		return "the deletion after: " + summary, nil
	}
	events, err := r.clients.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range events.Items {
		if event := &events.Items[i]; !seen[string(event.UID)+" "+event.ResourceVersion] {
			return "the Event " + event.Name, nil
		}
	}
	return "", nil
}
