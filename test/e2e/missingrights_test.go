package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// grant gives the receiver's service account rights in the cluster, or in a namespace.
func grant(t *testing.T, c *harness.Cluster, name, namespace string, rules []rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: watcherUser}}
	var err, bound error
	if namespace == "" {
		_, err = c.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		_, bound = c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: subjects,
		}, metav1.CreateOptions{})
	} else {
		_, err = c.Client.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		_, bound = c.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: subjects,
		}, metav1.CreateOptions{})
	}
	if err != nil || bound != nil {
		t.Fatal(err, bound)
	}
}

func core(verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: resources, Verbs: verbs}
}

// startUnprivileged starts a cluster, and creates the receiver's service account with the rights of rules.
func startUnprivileged(t *testing.T, rules ...rbacv1.PolicyRule) (*harness.Cluster, controlplane.Credentials) {
	t.Helper()
	c := harness.StartCluster(t, controlplane.Options{AuditLog: true})
	account, err := c.ServiceAccountCredentials(t.Context(), "default", watcherName)
	if err != nil {
		t.Fatal(err)
	}
	grant(t, c, "before", "", rules)
	harness.Poll(t, catchUp, "the rights to take effect", func() string {
		may, err := review(t, account.Config, rules[0].Verbs[0], rules[0].Resources[0])
		if err != nil || !may {
			return fmt.Sprint(may, err)
		}
		return ""
	})
	return c, account
}

// review asks whether the client of a configuration has a right.
func review(t *testing.T, config *rest.Config, verb, resource string) (bool, error) {
	t.Helper()
	client, err := authorizationclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// reviewsOf returns how many reviews of the receiver's service account were answered.
func reviewsOf(t *testing.T, c *harness.Cluster) int {
	t.Helper()
	n := 0
	for _, request := range c.RequestsOf(t, watcherUser) {
		if request.ObjectRef.Resource == "selfsubjectaccessreviews" && answered(request, http.StatusCreated) {
			n++
		}
	}
	return n
}

// rulesIn returns the rules in a log entry for a role.
func rulesIn(t *testing.T, line, role string) []rbacv1.PolicyRule {
	t.Helper()
	found := regexp.MustCompile(regexp.QuoteMeta(role)+`: rules: (\[\{.*?\]\}\])`).FindAllStringSubmatch(line, -1)
	var all []rbacv1.PolicyRule
	for _, text := range found {
		var rules []rbacv1.PolicyRule
		if err := yaml.Unmarshal([]byte(text[1]), &rules); err != nil {
			t.Fatalf("%s: %v", text[1], err)
		}
		all = append(all, rules...)
	}
	if len(all) == 0 {
		t.Fatalf("the entry has no rules for the %s: %s", role, line)
	}
	return all
}

// One entry names every right that is missing. With exactly these, everything is read.
func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	c, account := startUnprivileged(t, core([]string{"list"}, "pods"), core([]string{"watch"}, "services"), core([]string{"watch", "list"}, "nodes"))
	before := reviewsOf(t, c)
	r := harness.StartReceiver(t, kubeconfig(account.Kubeconfig)+
		"resources: [{name: pods}, {name: services}, {name: nodes}, {name: configmaps, namespaces: [default]}, {name: deployments}]", nil)
	r.Records.AwaitSnapshot(t, "services", catchUp)
	r.Records.AwaitSnapshot(t, "nodes", catchUp)
	line := r.Log.Await(t, zapcore.WarnLevel, "rights are missing to read resources", catchUp)
	for _, want := range []string{
		"resources:[pods configmaps in namespace default deployments.apps]",
		`{apiGroups: [""], resources: ["pods"], verbs: [watch]}`,
		`{apiGroups: ["apps"], resources: ["deployments"], verbs: [watch, list]}`,
		`{apiGroups: [""], resources: ["services"], verbs: [list]}`,
		`{apiGroups: [""], resources: ["namespaces"], resourceNames: ["kube-system"], verbs: [get]}`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("the entry does not contain %s: %s", want, line)
		}
	}
	for _, not := range []string{`["nodes"]`, `["secrets"]`} {
		if strings.Contains(line, not) {
			t.Errorf("the entry contains %s: %s", not, line)
		}
	}
	grant(t, c, "after", "", rulesIn(t, line, "ClusterRole"))
	grant(t, c, "after", "default", rulesIn(t, line, "Role in namespace default"))
	for _, resource := range []string{"pods", "configmaps", "deployments.apps"} {
		r.Records.AwaitSnapshot(t, resource, 2*catchUp)
	}
	if lines := r.Log.Lines(zapcore.InfoLevel, "rights are missing"); len(lines) != 1 {
		t.Errorf("%d entries, want one: %q", len(lines), lines)
	}
	// Two of each resource and one of the namespace, and two after each of three refusals.
	if reviews, most := reviewsOf(t, c)-before, 5*2+1+3*2; reviews < 5*2+1 || reviews > most {
		t.Errorf("%d reviews, want up to %d", reviews, most)
	}
}

// A refused resource names the verb that is missing, and not the one that is not.
func TestMissingVerbIsNamed(t *testing.T) {
	t.Parallel()
	c, account := startUnprivileged(t, core([]string{"list"}, "pods"))
	r := harness.StartReceiver(t, kubeconfig(account.Kubeconfig)+"resources: [{name: pods}]", nil)
	line := r.Log.Await(t, zapcore.WarnLevel, "no right to read resource", catchUp)
	const rule = `{apiGroups: [""], resources: ["pods"], verbs: [watch]}`
	if want := "add this rule to the collector's ClusterRole: - " + rule; !strings.Contains(line, want) {
		t.Errorf("the warning does not contain %s: %s", want, line)
	}
	var rules []rbacv1.PolicyRule
	if err := yaml.Unmarshal([]byte("["+rule+"]"), &rules); err != nil {
		t.Fatal(err)
	}
	grant(t, c, "after", "", rules)
	r.Records.AwaitSnapshot(t, "pods", 2*catchUp)
	r.Log.Await(t, zapcore.InfoLevel, "rights are missing that the receiver can do without", catchUp) // the UID of the cluster
	if warnings := r.Log.Lines(zapcore.WarnLevel, ""); len(warnings) != 1 {
		t.Errorf("%d warnings, want one: %q", len(warnings), warnings)
	}
}

// A cluster in which nobody may ask about rights is read all the same, and the remedy names all verbs.
func TestRightsThatMayNotBeAskedAbout(t *testing.T) {
	t.Parallel()
	c, account := startUnprivileged(t, core([]string{"watch"}, "pods"), core([]string{"list"}, "services"))
	if err := c.Client.RbacV1().ClusterRoleBindings().Delete(t.Context(), "system:basic-user", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Poll(t, catchUp, "reviews to be refused", func() string {
		if _, err := review(t, account.Config, "watch", "pods"); !apierrors.IsForbidden(err) {
			return fmt.Sprint("the answer is ", err)
		}
		return ""
	})
	r := harness.StartReceiver(t, kubeconfig(account.Kubeconfig)+"resources: [{name: pods}, {name: services}]", nil)
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	line := r.Log.Await(t, zapcore.WarnLevel, "no right to read resource", catchUp)
	if want := `{apiGroups: [""], resources: ["services"], verbs: [watch, list]}`; !strings.Contains(line, want) {
		t.Errorf("the warning does not contain %s: %s", want, line)
	}
	r.Log.Await(t, zapcore.InfoLevel, "cannot find out which rights are missing", catchUp)
	if lines := r.Log.Lines(zapcore.InfoLevel, "rights are missing to read"); len(lines) != 0 {
		t.Errorf("entries without an answer: %q", lines)
	}
}
