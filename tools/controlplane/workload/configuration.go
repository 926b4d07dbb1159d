package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Namespace holds most of the sample objects.
const Namespace = "shop"

const (
	configName  = "web-config"
	secretName  = "database"
	serviceName = "web"
)

func (w *Workload) applyNamespaces(ctx context.Context) error {
	for _, name := range []string{Namespace, "pay"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name}}}
		if _, err := w.clients.CoreV1().Namespaces().Create(ctx, ns, create(byApply)); err != nil {
			return fmt.Errorf("cannot create namespace %s: %w", name, err)
		}
	}
	return nil
}

// applyConfiguration creates what pods use: a configmap, a secret, whose value must not appear anywhere else, and a
// service.
func (w *Workload) applyConfiguration(ctx context.Context) error {
	core := w.clients.CoreV1()
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: configName, Labels: map[string]string{"app": "web"}},
		Data:       map[string]string{"banner": "welcome", "page-size": "20"},
	}
	if _, err := core.ConfigMaps(Namespace).Create(ctx, config, create(byApply)); err != nil {
		return fmt.Errorf("cannot create configmap %s: %w", configName, err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName},
		StringData: map[string]string{"username": "shop", "password": "sample-password-0"},
	}
	if _, err := core.Secrets(Namespace).Create(ctx, secret, create(byApply)); err != nil {
		return fmt.Errorf("cannot create secret %s: %w", secretName, err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName, Labels: map[string]string{"app": "web"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	if _, err := core.Services(Namespace).Create(ctx, service, create(byApply)); err != nil {
		return fmt.Errorf("cannot create service %s: %w", serviceName, err)
	}
	return nil
}

func (w *Workload) changeConfiguration(ctx context.Context) error {
	change := fmt.Appendf(nil, `{"data":{"banner":"offer of the day %d"}}`, w.round+1)
	if _, err := w.clients.CoreV1().ConfigMaps(Namespace).Patch(ctx, configName, types.MergePatchType, change, patch(byEdit)); err != nil {
		return fmt.Errorf("cannot change configmap %s: %w", configName, err)
	}
	w.Log("changed configmap %s/%s", Namespace, configName)
	return nil
}

func (w *Workload) rotateSecret(ctx context.Context) error {
	change := fmt.Appendf(nil, `{"stringData":{"password":"sample-password-%d"}}`, w.round+1)
	if _, err := w.clients.CoreV1().Secrets(Namespace).Patch(ctx, secretName, types.MergePatchType, change, patch(bySecretOperator)); err != nil {
		return fmt.Errorf("cannot rotate secret %s: %w", secretName, err)
	}
	w.Log("rotated secret %s/%s", Namespace, secretName)
	return nil
}

// changeService adds a port, and removes it the next time.
func (w *Workload) changeService(ctx context.Context) error {
	ports := `{"name":"http","port":80,"targetPort":8080}`
	if w.round%2 == 0 {
		ports += `,{"name":"metrics","port":9090,"targetPort":9090}`
	}
	change := []byte(`{"spec":{"ports":[` + ports + `]}}`)
	if _, err := w.clients.CoreV1().Services(Namespace).Patch(ctx, serviceName, types.MergePatchType, change, patch(byApply)); err != nil {
		return fmt.Errorf("cannot change service %s: %w", serviceName, err)
	}
	w.Log("changed the ports of service %s/%s", Namespace, serviceName)
	return nil
}
