package chaos

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

const (
	accountName      = "collector"
	accountValidity  = int64(24 * 60 * 60) // seconds
	clusterUIDRights = "cluster-uid"
)

// credentials returns those of a service account that may only read the configured resources and, as one of several
// replicas, compete for a Lease. They trust the API server and the front.
func (r *run) credentials() *rest.Config {
	t := r.t
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: accountName}}
	if _, err := r.cluster.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, o := range all {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{o.resource.Group}, Resources: []string{o.resource.Resource}, Verbs: []string{"list", "watch"},
		})
	}
	if r.isReplicated() {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"},
		})
	}
	r.grant("collector", rules...)
	validity := accountValidity
	token, err := r.cluster.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), accountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &validity}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &rest.Config{BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: r.front.CAs(r.cluster)}}
}

// editClusterUID grants or revokes the Collector's right to read the UID of the cluster.
func (r *run) editClusterUID() {
	if r.clusterUID {
		if err := r.cluster.Client.RbacV1().ClusterRoleBindings().Delete(r.t.Context(), roleOf(clusterUIDRights), metav1.DeleteOptions{}); err != nil {
			r.t.Fatal(err)
		}
		r.clusterUID = false
		return
	}
	r.grant(clusterUIDRights, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"},
	})
	r.clusterUID = true
}

// knownUID returns the UID of the cluster if the Collector may know it.
func (r *run) knownUID() string {
	if !r.clusterUID {
		return ""
	}
	system, err := r.cluster.Client.CoreV1().Namespaces().Get(r.t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		r.t.Fatalf("cannot get the UID of the cluster: %v", err)
	}
	return string(system.UID)
}

// grant grants rights to the Collector, which may already have them.
func (r *run) grant(name string, rules ...rbacv1.PolicyRule) {
	t, rbac := r.t, r.cluster.Client.RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: roleOf(name)}, Rules: rules}
	if _, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: accountName}},
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func roleOf(rights string) string { return "chaos:" + rights }

// createNamespaces creates the namespaces that do not exist from the start.
func (r *run) createNamespaces() {
	for _, name := range []string{otherNamespace, stillNamespace} {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := r.cluster.Client.CoreV1().Namespaces().Create(r.t.Context(), object, metav1.CreateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
	harness.Poll(r.t, startTimeout, "the namespace default", func() string {
		if _, err := r.cluster.Client.CoreV1().Namespaces().Get(r.t.Context(), namespace, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}
