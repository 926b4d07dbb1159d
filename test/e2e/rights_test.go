package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// watcher is the receiver's service account in TestWatchOnlyServiceAccount.
const (
	watcherName = "collector"
	watcherUser = "system:serviceaccount:default:" + watcherName
)

func TestWatchOnlyServiceAccount(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{AuditLog: true})
	proxy := harness.StartProxy(t, c.Address())
	account, err := c.ServiceAccountCredentials(t.Context(), "default", watcherName)
	if err != nil {
		t.Fatal(err)
	}
	createWatchRole(t, c)
	grantWatch(t, c)
	for _, prefix := range []string{"kept", "changed", "deleted"} {
		c.CreatePods(t, prefix, 10, harness.SmallPod)
	}

	r := harness.StartReceiver(t, kubeconfig(c.KubeconfigVia(t, account.Config, proxy.Address()))+"resources: [{name: pods}]", nil)
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	c.CreatePods(t, "live", 1, harness.SmallPod)
	r.Records.AwaitObject(t, "pods", "live-00000", "ADDED", catchUp)

	// The API server checks rights only when a stream is opened.
	revokeWatch(t, c)
	proxy.Cut()
	proxy.Restore(t)
	r.Log.Await(t, zapcore.WarnLevel, "no right", catchUp)
	c.DeletePods(t, "deleted", 10)
	c.ChangePods(t, "changed", 10)
	c.CreatePods(t, "added", 10, harness.SmallPod)
	harness.Poll(t, 2*catchUp, "the receiver to try again", func() string {
		if n := answers(t, c, watcherUser, 403); n < 2 {
			return fmt.Sprintf("it was refused %d times", n)
		}
		return ""
	})
	grantWatch(t, c)
	r.Records.AwaitFold(t, "pods", c.List(t, harness.Pods).State, 2*catchUp)
	requireOnceAndInOrder(t, harness.Objects(r.Records.All(), "pods"))

	warnings := r.Log.Lines(zapcore.WarnLevel, "")
	if len(warnings) != 1 {
		t.Errorf("%d warnings, want one: %q", len(warnings), warnings)
	}
	for _, want := range []string{"watch", "pods", `API group ""`, watcherUser, `{apiGroups: [""], resources: ["pods"], verbs: [watch, list]}`} {
		if len(warnings) > 0 && !strings.Contains(warnings[0], want) {
			t.Errorf("the warning does not name %s: %s", want, warnings[0])
		}
	}
	if again := r.Log.Lines(zapcore.InfoLevel, "reading resource again"); len(again) != 1 {
		t.Errorf("%d lines report that the rights are back, want one: %q", len(again), again)
	}
	for _, request := range c.RequestsOf(t, watcherUser) {
		if request.Verb == "list" || request.ObjectRef.Resource == "pods" && request.Verb != "watch" {
			t.Errorf("the receiver asked for more than it has the right to: %+v", request)
		}
	}
}

// answers returns how often a user's watch of pods was answered with a status.
func answers(t *testing.T, c *harness.Cluster, user string, code int) int {
	t.Helper()
	n := 0
	for _, request := range c.RequestsOf(t, user) {
		if request.ObjectRef.Resource == "pods" && answered(request, code) {
			n++
		}
	}
	return n
}

// answered reports whether a request was answered with a status. An open watch is not complete, but its answer has
// begun.
func answered(request harness.Request, code int) bool {
	stage := "ResponseComplete"
	if code == http.StatusOK {
		stage = "ResponseStarted"
	}
	return request.Stage == stage && request.ResponseStatus.Code == code
}

const watchRole = "watch-pods"

func createWatchRole(t *testing.T, c *harness.Cluster) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: watchRole},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"watch"}}},
	}
	if _, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func grantWatch(t *testing.T, c *harness.Cluster) {
	t.Helper()
	grantWatchTo(t, c, watcherUser)
}

func grantWatchTo(t *testing.T, c *harness.Cluster, user string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: bindingOf(user)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: watchRole},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
	}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRight(t, c, user, true)
}

func revokeWatch(t *testing.T, c *harness.Cluster) {
	t.Helper()
	revokeWatchOf(t, c, watcherUser)
}

func revokeWatchOf(t *testing.T, c *harness.Cluster, user string) {
	t.Helper()
	if err := c.Client.RbacV1().ClusterRoleBindings().Delete(t.Context(), bindingOf(user), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRight(t, c, user, false)
}

func bindingOf(user string) string { return watchRole + ":" + user }

// awaitRight waits until the API server's authorizer has learned of a change of a binding.
func awaitRight(t *testing.T, c *harness.Cluster, user string, want bool) {
	t.Helper()
	harness.Poll(t, 10*time.Second, "the authorizer to follow the binding", func() string {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "watch", Version: "v1", Resource: "pods"},
		}}
		review, err := c.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != want {
			return fmt.Sprintf("allowed: %t", review.Status.Allowed)
		}
		return ""
	})
}
