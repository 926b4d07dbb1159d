package workload

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The field managers of the changes: the names by which the programs call themselves that make such changes in a real
// cluster. They are what records say about who changed an object.
const (
	byApply          = "kubectl-client-side-apply"
	byEdit           = "kubectl-edit"
	byLabel          = "kubectl-label"
	byKubectl        = "kubectl" // also kubectl scale and cordon
	byHelm           = "helm"
	byControllers    = "kube-controller-manager"
	byScheduler      = "kube-scheduler"
	byKubelet        = "kubelet"
	bySecretOperator = "external-secrets"
	byShop           = "shop-backend" // the application, which writes its custom resources
)

func create(manager string) metav1.CreateOptions { return metav1.CreateOptions{FieldManager: manager} }

func update(manager string) metav1.UpdateOptions { return metav1.UpdateOptions{FieldManager: manager} }

func patch(manager string) metav1.PatchOptions { return metav1.PatchOptions{FieldManager: manager} }
