package kubeclient

import (
	"encoding/base64"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/pipenet"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

const kubeconfigText = `
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: one, user: token}}
- {name: two, context: {cluster: two, user: exec}}
clusters:
- {name: one, cluster: {server: "https://one.example.com:6443", insecure-skip-tls-verify: true}}
- {name: two, cluster: {server: "https://two.example.com", certificate-authority-data: $CA, proxy-url: "http://$PROXY", disable-compression: true}}
users:
- {name: token, user: {token: abc, as: jane, as-groups: [g1, g2]}}
- name: exec
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      interactiveMode: IfAvailable
      command: /bin/sh
      args:
      - -c
      - |
        echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-plugin"}}'
`

func writeKubeconfig(t *testing.T, text string) string {
	t.Helper()
	text = strings.NewReplacer("$CA", "Y2E=", "$PROXY", "127.0.0.1:3128").Replace(text)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestKubeconfig(t *testing.T) {
	file := writeKubeconfig(t, kubeconfigText)
	cfg, err := RESTConfig(Options{AuthType: AuthKubeConfig, Kubeconfig: file, QPS: 7, Burst: 9, UserAgent: "me/1"})
	require.NoError(t, err)
	assert.Equal(t, "https://one.example.com:6443", cfg.Host)
	assert.Equal(t, "abc", cfg.BearerToken)
	assert.Equal(t, "jane", cfg.Impersonate.UserName)
	assert.Equal(t, []string{"g1", "g2"}, cfg.Impersonate.Groups)
	assert.InDelta(t, 7, cfg.QPS, 0)
	assert.Equal(t, 9, cfg.Burst)
	assert.Equal(t, "me/1", cfg.UserAgent)
	assert.True(t, cfg.DisableCompression)
	assert.Zero(t, cfg.Timeout)

	cfg, err = RESTConfig(Options{AuthType: AuthKubeConfig, Kubeconfig: file, Context: "two", Compression: true})
	require.NoError(t, err)
	assert.Equal(t, "https://two.example.com", cfg.Host)
	assert.False(t, cfg.DisableCompression)
	assert.True(t, cfg.ExecProvider.StdinUnavailable)
}

func TestKubeconfigIsFoundLikeKubectl(t *testing.T) {
	file := writeKubeconfig(t, kubeconfigText)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none")+string(filepath.ListSeparator)+file)
	cfg, err := RESTConfig(Options{AuthType: AuthKubeConfig})
	require.NoError(t, err)
	assert.Equal(t, "https://one.example.com:6443", cfg.Host)

	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", filepath.Dir(file))
	cfg, err = RESTConfig(Options{AuthType: AuthKubeConfig, Kubeconfig: "~/kubeconfig"})
	require.NoError(t, err)
	assert.Equal(t, "https://one.example.com:6443", cfg.Host)
}

// As with kubectl, several files are merged, and the first one wins.
func TestMergedKubeconfigs(t *testing.T) {
	contexts := writeKubeconfig(t, "apiVersion: v1\nkind: Config\ncurrent-context: one\ncontexts:\n- {name: one, context: {cluster: two, user: token}}\n")
	t.Setenv("KUBECONFIG", contexts+string(filepath.ListSeparator)+writeKubeconfig(t, kubeconfigText))
	cfg, err := RESTConfig(Options{AuthType: AuthKubeConfig})
	require.NoError(t, err)
	assert.Equal(t, "https://two.example.com", cfg.Host)
	assert.Equal(t, "abc", cfg.BearerToken)
}

func TestKubeconfigMistakes(t *testing.T) {
	// Even in a pod, a kubeconfig without a cluster is a mistake.
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	t.Setenv("KUBECONFIG", "")
	file := writeKubeconfig(t, kubeconfigText)
	file2 := writeKubeconfig(t, strings.Replace(kubeconfigText, "user: exec", "user: nobody", 1))
	tests := map[string]struct {
		options Options
		want    string
	}{
		"no file": {
			Options{Kubeconfig: "/nowhere/config"},
			"cannot load kubeconfig: stat /nowhere/config: no such file or directory",
		},
		"no YAML": {
			Options{Kubeconfig: writeKubeconfig(t, "{")},
			"cannot load kubeconfig: error loading config file",
		},
		"empty": {
			Options{Kubeconfig: writeKubeconfig(t, "")},
			"set kubeconfig or $KUBECONFIG to its path",
		},
		"other context": {
			Options{Kubeconfig: file, Context: "three"},
			`context: kubeconfig ` + file + ` has no context "three"; write one of: one, two`,
		},
		"no context": {
			Options{Kubeconfig: writeKubeconfig(t, strings.Replace(kubeconfigText, "current-context: one", "", 1))},
			`has no current context; write one of: one, two`,
		},
		"no cluster": {
			Options{Kubeconfig: writeKubeconfig(t, strings.Replace(kubeconfigText, "cluster: one,", "cluster: four,", 1))},
			`names the cluster "four", which does not exist; the file has: one, two`,
		},
		"context without cluster": {
			Options{Kubeconfig: writeKubeconfig(t, strings.Replace(kubeconfigText, "cluster: one, ", "", 1))},
			`context: context "one" of kubeconfig `,
		},
		"cluster without server": {
			Options{Kubeconfig: writeKubeconfig(t, strings.Replace(kubeconfigText, `server: "https://one.example.com:6443", `, "", 1))},
			`context: cluster "one" in kubeconfig `,
		},
		"no user": {
			Options{Kubeconfig: file2, Context: "two"},
			`context: context "two" of kubeconfig ` + file2 + ` names the user "nobody", which does not exist; the file has: exec, token`,
		},
		"several files": {
			Options{Kubeconfig: "/nowhere/a:/nowhere/b"},
			`/nowhere/a:/nowhere/b is a list of files; leave kubeconfig out and set the environment variable $KUBECONFIG to it`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.options.AuthType = AuthKubeConfig
			_, err := RESTConfig(tt.options)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestWithoutCredentials(t *testing.T) {
	cfg, err := RESTConfig(Options{AuthType: AuthNone, APIServer: "http://127.0.0.1:8001"})
	require.NoError(t, err)
	assert.Equal(t, "http://127.0.0.1:8001", cfg.Host)

	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err = RESTConfig(Options{AuthType: AuthNone})
	require.ErrorContains(t, err, "set api_server to its URL")
	_, err = RESTConfig(Options{AuthType: AuthServiceAccount})
	require.ErrorContains(t, err, "cannot use the pod's service account: unable to load in-cluster configuration")
	require.ErrorContains(t, err, "outside a cluster set auth_type to kubeConfig or none")

	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	cfg, err = RESTConfig(Options{AuthType: AuthNone})
	require.NoError(t, err)
	assert.Equal(t, "https://[fd00::1]:443", cfg.Host)

	cfg, err = RESTConfig(Options{AuthType: AuthNone, APIServer: "https://api.test", TLS: TLS{
		CAFile: "ca", CertFile: "cert", KeyFile: "key", ServerName: "name", InsecureSkipVerify: true,
	}})
	require.NoError(t, err)
	assert.Equal(t, rest.TLSClientConfig{CAFile: "ca", CertFile: "cert", KeyFile: "key", ServerName: "name", Insecure: true}, cfg.TLSClientConfig)

	_, err = RESTConfig(Options{AuthType: "tls"})
	require.EqualError(t, err, `auth_type: "tls" is not one of serviceAccount, kubeConfig, none`)
}

// Credentials, the user agent and the proxy of a kubeconfig reach the wire, over fresh connections too.
func TestKubeconfigOnTheWire(t *testing.T) {
	requests := make(chan *http.Request, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r }))
	t.Cleanup(server.Close)
	var tunnels atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, http.MethodConnect, r.Method)
		assert.Equal(t, "example.com:443", r.Host)
		tunnels.Add(1)
		tunnel(t, w, server.Listener.Addr().String())
	}))
	t.Cleanup(proxy.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	text := strings.NewReplacer(
		"https://two.example.com", "https://example.com", // the name in httptest's certificate
		"$CA", base64.StdEncoding.EncodeToString(ca),
		"$PROXY", proxy.Listener.Addr().String(),
	).Replace(kubeconfigText)
	cfg, err := RESTConfig(Options{
		AuthType: AuthKubeConfig, Kubeconfig: writeKubeconfig(t, text), Context: "two",
		QPS: 1000, Burst: 1000, UserAgent: "me/1",
	})
	require.NoError(t, err)
	cfg.Impersonate.UserName = "jane"
	client := newTestClient(t, cfg)
	for i, fresh := range []bool{false, true} {
		body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, FreshConnection: fresh})
		require.NoError(t, err)
		require.NoError(t, body.Close())
		r := <-requests
		assert.Equal(t, "Bearer from-plugin", r.Header.Get("Authorization"))
		assert.Equal(t, "me/1", r.Header.Get("User-Agent"))
		assert.Equal(t, "jane", r.Header.Get("Impersonate-User"))
		assert.EqualValues(t, i+1, tunnels.Load())
	}
}

// tunnel answers a CONNECT request and forwards bytes until one side ends.
func tunnel(t *testing.T, w http.ResponseWriter, address string) {
	client, _, err := http.NewResponseController(w).Hijack()
	if !assert.NoError(t, err) {
		return
	}
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if !assert.NoError(t, err) {
		return
	}
	defer server.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}

// The kubelet renews a pod's token: the next request sends the new one. A file that is briefly empty or missing does
// not remove it.
func TestRenewedToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	synctest.Test(t, func(t *testing.T) {
		var got string
		network := pipenet.New()
		stop := network.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Authorization")
		}))
		defer stop()
		require.NoError(t, os.WriteFile(file, []byte("one"), 0o600))
		client, err := New(&rest.Config{
			Host: "http://api.test", BearerToken: "one", BearerTokenFile: file, QPS: 1000, Burst: 1000, Dial: network.Dial,
			Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
		})
		require.NoError(t, err)
		defer client.Close()
		open := func() {
			body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
			require.NoError(t, err)
			_, err = io.ReadAll(body)
			require.NoError(t, err)
			require.NoError(t, body.Close())
		}
		open()
		assert.Equal(t, "Bearer one", got)
		require.NoError(t, os.WriteFile(file, []byte("two\n"), 0o600))
		open()
		assert.Equal(t, "Bearer two", got)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		open()
		assert.Equal(t, "Bearer two", got)
		require.NoError(t, os.Remove(file))
		open()
		assert.Equal(t, "Bearer two", got)
	})
}
