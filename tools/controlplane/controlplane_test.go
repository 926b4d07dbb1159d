package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// start starts a control plane for one test. Its folder is inside the test's, so that leftovers are noticed.
func start(t *testing.T, o Options) *ControlPlane {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func clients(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpClient.CloseIdleConnections)
	set, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestStartAndStop(t *testing.T) {
	c := start(t, Options{})
	admin := clients(t, c.RESTConfig())

	version, err := admin.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	// The folder of the binaries is named after their version, unless it is the user's own.
	if want := filepath.Base(os.Getenv("KUBEBUILDER_ASSETS")); strings.HasPrefix(want, "v1.") && version.GitVersion != want {
		t.Errorf("the API server's version is %s, want %s", version.GitVersion, want)
	}
	namespaces, err := admin.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(namespaces.Items, func(n corev1.Namespace) bool { return n.Name == "kube-system" }) {
		t.Errorf("there is no namespace kube-system among %d", len(namespaces.Items))
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if _, err := admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Errorf("cannot create a pod without a controller manager: %v", err)
	}

	pids := []int{c.EtcdPID(), c.APIServerPID()}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

func TestAPIServerRestarts(t *testing.T) {
	c := start(t, Options{})
	admin := clients(t, c.RESTConfig())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	address := c.Address()

	for name, end := range map[string]func() error{
		"killed": c.KillAPIServer,
		"stopped": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			return c.StopAPIServer(ctx)
		},
		"with etcd": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := c.KillAPIServer(); err != nil {
				return err
			}
			if err := c.StopEtcd(ctx); err != nil {
				return err
			}
			return c.StartEtcd(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
				t.Error("the API server still answers")
			}
			if err := c.StartAPIServer(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := admin.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
			if c.Address() != address {
				t.Errorf("the address changed from %s to %s", address, c.Address())
			}
		})
	}
	if err := c.StartAPIServer(t.Context()); err == nil {
		t.Error("a second API server was started on the same address")
	}
}

func TestCredentials(t *testing.T) {
	c := start(t, Options{})
	admin := clients(t, c.RESTConfig())
	account, err := c.ServiceAccountCredentials(t.Context(), "default", "collector")
	if err != nil {
		t.Fatal(err)
	}
	user, err := c.UserCredentials("jane", "developers")
	if err != nil {
		t.Fatal(err)
	}
	// Not the cluster role "view", which a controller would have to fill.
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}},
	}
	if _, err := admin.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []struct {
		name        string
		credentials Credentials
		rbac        rbacv1.Subject
	}{
		{"service account", account, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "collector"}},
		{"user", user, rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "developers"}},
	} {
		t.Run(subject.name, func(t *testing.T) {
			set := clients(t, subject.credentials.Config)
			list := func() error {
				_, err := set.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
				return err
			}
			if err := list(); !apierrors.IsForbidden(err) {
				t.Fatalf("without rights: %v", err)
			}
			binding := &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
				Subjects:   []rbacv1.Subject{subject.rbac},
			}
			if _, err := admin.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(10 * time.Second)
			for err := list(); err != nil; err = list() {
				if time.Now().After(deadline) {
					t.Fatalf("with rights: %v", err)
				}
				time.Sleep(50 * time.Millisecond)
			}
			if err := usable(t, subject.credentials.Kubeconfig); err != nil {
				t.Error(err)
			}
		})
	}
}

// usable asks the API server about the rights of a kubeconfig file's user.
func usable(t *testing.T, kubeconfig string) error {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "list", Resource: "pods"},
	}}
	review, err = clients(t, config).AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err == nil && !review.Status.Allowed {
		t.Errorf("the owner of %s may not list pods: %s", kubeconfig, review.Status.Reason)
	}
	return err
}

func TestFeatureGatesAndAuditLog(t *testing.T) {
	c := start(t, Options{FeatureGates: map[string]bool{"WatchList": false}, AuditLog: true})
	admin := clients(t, c.RESTConfig())
	err := admin.CoreV1().RESTClient().Get().AbsPath("/api/v1/pods").
		Param("watch", "1").Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan").
		Param("allowWatchBookmarks", "true").Param("timeoutSeconds", "1").
		Do(t.Context()).Error()
	if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code != http.StatusUnprocessableEntity {
		t.Errorf("a watch list without the feature gate: %v", err)
	}

	content, err := os.ReadFile(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<20)
	seen := false
	for lines.Scan() {
		var entry struct {
			Level, Verb, RequestURI string
			User                    struct{ Username string }
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			t.Fatalf("%v in %s", err, lines.Bytes())
		}
		if entry.Level == "Metadata" && entry.Verb == "watch" && entry.User.Username == "admin" && strings.Contains(entry.RequestURI, "sendInitialEvents") {
			seen = true
		}
	}
	if !seen {
		t.Errorf("the audit log does not contain the watch: %s", content)
	}
}

func TestStartFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, test := range []struct {
		name string
		o    Options
		want string
	}{
		{"no binaries", Options{Binaries: t.TempDir()}, "make control-plane"},
		{"a flag that etcd does not know", Options{EtcdArgs: []string{"--no-such-flag"}}, "no-such-flag"},
		{"a flag that kube-apiserver does not know", Options{APIServerArgs: []string{"--no-such-flag"}}, "no-such-flag"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Start(t.Context(), test.o)
			if err == nil {
				t.Fatal("started", c.Stop())
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error does not contain %q: %v", test.want, err)
			}
		})
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestLog(t *testing.T) {
	var log bytes.Buffer
	c := start(t, Options{Log: &log})
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "kube-apiserver") && !strings.Contains(log.String(), "apiserver") {
		t.Errorf("nothing of the API server in the log:\n%s", log.String())
	}
}
