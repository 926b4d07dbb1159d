package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"go.uber.org/zap/zapcore"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// The token expires, and later its file has another one. The receiver continues where it stopped, without a restart. A
// real API server issues no token for less than ten minutes, so the test removes the token's account, which has the
// same effect.
func TestBearerTokenRotatedOnDisk(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{AuditLog: true})
	proxy := harness.StartProxy(t, c.Address())
	file := filepath.Join(t.TempDir(), "token")
	writeToken := func() {
		t.Helper()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: watcherName}}
		if _, err := c.Client.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token, err := c.Client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), watcherName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		replaceFile(t, file, []byte(token.Status.Token))
	}
	writeToken()
	createWatchRole(t, c)
	grantWatch(t, c)
	config := anonymously(c)
	config.BearerTokenFile = file
	rotation := startRotation(t, c, proxy, config)

	if err := c.Client.CoreV1().ServiceAccounts("default").Delete(t.Context(), watcherName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitUnauthorized(t, c, file)
	rotation.refuse(t)
	writeToken()
	rotation.requireComplete(t)
}

// The files get another certificate, of another user, and the previous user loses its rights.
func TestClientCertificateRotated(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{AuditLog: true})
	proxy := harness.StartProxy(t, c.Address())
	folder := t.TempDir()
	config := anonymously(c)
	config.CertFile, config.KeyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	become := func(user string) {
		t.Helper()
		credentials, err := c.UserCredentials(user)
		if err != nil {
			t.Fatal(err)
		}
		replaceFile(t, config.CertFile, credentials.Config.CertData)
		replaceFile(t, config.KeyFile, credentials.Config.KeyData)
	}
	createWatchRole(t, c)
	become("before")
	grantWatchTo(t, c, "before")
	rotation := startRotation(t, c, proxy, config)

	grantWatchTo(t, c, "after")
	revokeWatchOf(t, c, "before")
	rotation.refuse(t)
	become("after")
	rotation.requireComplete(t)
	if n := answers(t, c, "after", http.StatusOK); n == 0 {
		t.Error("the API server allowed no watch with the new certificate")
	}
}

// rotation is a receiver whose credentials are replaced while the pods change.
type rotation struct {
	cluster  *harness.Cluster
	proxy    *harness.Proxy
	receiver *harness.Receiver
	truth    *harness.Truth
	from     string
}

func startRotation(t *testing.T, c *harness.Cluster, proxy *harness.Proxy, config *rest.Config) *rotation {
	t.Helper()
	for _, prefix := range []string{"kept", "changed", "deleted"} {
		c.CreatePods(t, prefix, 10, harness.SmallPod)
	}
	r := &rotation{cluster: c, proxy: proxy, truth: harness.ConnectEtcd(t, c).Watch(t, "/registry/pods/")}
	r.receiver = harness.StartReceiver(t, kubeconfig(c.KubeconfigVia(t, config, proxy.Address()))+"resources: [{name: pods}]", nil)
	r.from = r.receiver.Records.AwaitSnapshot(t, "pods", catchUp)
	return r
}

// refuse waits until the receiver has been refused, and changes pods in the meantime.
func (r *rotation) refuse(t *testing.T) {
	t.Helper()
	// Credentials are checked when a stream is opened.
	r.proxy.Cut()
	r.proxy.Restore(t)
	r.receiver.Log.Await(t, zapcore.WarnLevel, "no right", catchUp)
	r.cluster.DeletePods(t, "deleted", 10)
	r.cluster.ChangePods(t, "changed", 10)
	r.cluster.CreatePods(t, "added", 10, harness.SmallPod)
}

// requireComplete requires every change once, in order and live, since the API server still had the history.
func (r *rotation) requireComplete(t *testing.T) {
	t.Helper()
	requireEveryEvent(t, r.cluster, &r.receiver.Records, r.truth, r.from)
	if again := r.receiver.Log.Lines(zapcore.InfoLevel, "reading resource again"); len(again) != 1 {
		t.Errorf("%d lines report the recovery, want one: %q", len(again), again)
	}
}

// anonymously returns a configuration without credentials.
func anonymously(c *harness.Cluster) *rest.Config { return rest.AnonymousClientConfig(c.RESTConfig()) }

// replaceFile replaces a file atomically, as kubelet and certificate managers do.
func replaceFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// awaitUnauthorized waits until the API server, which caches tokens for some seconds, no longer accepts the one in the
// file.
func awaitUnauthorized(t *testing.T, c *harness.Cluster, file string) {
	t.Helper()
	config := anonymously(c)
	config.BearerTokenFile = file
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	harness.Poll(t, catchUp, "the token to be refused", func() string {
		response, err := client.Get("https://" + c.Address() + "/api")
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close() //nolint:errcheck // it is not read
		if response.StatusCode != http.StatusUnauthorized {
			return fmt.Sprintf("the answer is %d", response.StatusCode)
		}
		return ""
	})
}
