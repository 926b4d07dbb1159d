package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A migration is a pod and a configmap that are created, finish and are deleted.

func (w *Workload) migrationName() string { return fmt.Sprintf("migration-%d", w.round+1) }

func (w *Workload) runMigration(ctx context.Context) error {
	name := w.migrationName()
	script := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{"migrate.sql": "ALTER TABLE orders ADD COLUMN note text;"},
	}
	if _, err := w.clients.CoreV1().ConfigMaps(Namespace).Create(ctx, script, create(byHelm)); err != nil {
		return fmt.Errorf("cannot create configmap %s: %w", name, err)
	}
	w.Log("created configmap %s/%s", Namespace, name)
	return w.startPod(ctx, byHelm, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "migration"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "migrate", Image: "example.com/migrate:1.0"}},
		},
	})
}

func (w *Workload) finishMigration(ctx context.Context) error {
	name := w.migrationName()
	if err := w.endPod(ctx, name); err != nil {
		return err
	}
	if err := w.clients.CoreV1().ConfigMaps(Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("cannot delete configmap %s: %w", name, err)
	}
	w.Log("deleted configmap %s/%s", Namespace, name)
	return nil
}
