package e2e

import (
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// grantIn grants a user the right to list and watch ConfigMaps in one namespace.
func grantIn(t *testing.T, c *harness.Cluster, user, namespace string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}},
	}
	if _, err := c.Client.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Without the right to read all namespaces, the selected ones are read one by one: those that exist and those that are created,
// if namespaces can be watched, and else those that are named. The missing right is reported, and a restart goes on.
func TestSelectedNamespacesOneByOne(t *testing.T) {
	t.Parallel()
	const each = 5
	selects := scope.ParseNamespaces("shop,team-*").Match
	for name, mayWatch := range map[string]bool{"namespaces can be watched": true, "namespaces cannot be watched": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const user = "system:serviceaccount:default:narrow"
			c := harness.StartCluster(t, controlplane.Options{})
			account, err := c.ServiceAccountCredentials(t.Context(), "default", "narrow")
			if err != nil {
				t.Fatal(err)
			}
			for _, namespace := range []string{"shop", "team-a", "other"} {
				createNamespace(t, c, namespace, nil, each)
				grantIn(t, c, user, namespace)
			}
			read := func(namespace string) bool { return namespace == "shop" }
			if mayWatch {
				grantOne(t, c, user, "", "namespaces")
				read = selects
			}
			r := harness.StartReceiver(t, kubeconfig(c.KubeconfigVia(t, account.Config, c.Address()))+
				`resources: [{name: configmaps, namespaces: [shop, "team-*"]}]`, nil)
			text := "reading the selected ones one by one"
			if !mayWatch {
				text = "cannot read the selected namespaces"
			}
			line := r.Log.Await(t, zapcore.WarnLevel, text, catchUp)
			if !strings.Contains(line, `grant list and watch on configmaps (API group "") in all namespaces by a ClusterRole`) &&
				!strings.Contains(line, `grant list and watch on configmaps (API group \"\") in all namespaces by a ClusterRole`) {
				t.Errorf("the message does not name the right: %s", line)
			}
			r.Records.AwaitFold(t, "configmaps", c.ListIn(t, configMaps, read).State, catchUp)
			createNamespace(t, c, "team-b", nil, each)
			grantIn(t, c, user, "team-b")
			for _, namespace := range []string{"shop", "team-a", "other"} {
				changeConfigMaps(t, c, namespace, "first", each)
			}
			r.Records.AwaitFold(t, "configmaps", c.ListIn(t, configMaps, read).State, 2*catchUp)
			if mayWatch {
				deleteNamespace(t, c, "team-b")
				r.Records.AwaitFold(t, "configmaps", c.ListIn(t, configMaps, read).State, catchUp)
			}
			requireOnlyIn(t, r.Records.All(), "configmaps", read)
			requireOnceAndInOrder(t, harness.Objects(r.Records.All(), "configmaps"))
		})
	}
}
