package kubeclient

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// oneContext returns a kubeconfig with the context c. cluster and user are YAML in one line.
func oneContext(cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {%s}}]
users: [{name: u, user: {%s}}]
`, cluster, user)
}

const insecure = "insecure-skip-tls-verify: true, server: "

// guard is an API server that accepts one token, and records the tokens that it receives.
type guard struct {
	mu    sync.Mutex
	token string
	shown []string
	// refused is called during a request that is refused.
	refused func()
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	g.mu.Lock()
	g.shown = append(g.shown, shown)
	in := shown == g.token
	g.mu.Unlock()
	if in {
		_, _ = io.WriteString(w, firstFrame)
		return
	}
	if g.refused != nil {
		g.refused()
	}
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, `{"kind":"Status","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
}

func (g *guard) takes(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token, g.shown = token, nil
}

// rewritten is a kubeconfig file, and a client that uses it.
type rewritten struct {
	file   string
	client *Client
	logs   *observer.ObservedLogs
}

func connect(t *testing.T, text string) *rewritten {
	t.Helper()
	r := &rewritten{file: filepath.Join(t.TempDir(), "kubeconfig")}
	r.write(t, text)
	core, logs := observer.New(zap.InfoLevel)
	r.logs = logs
	client, err := Connect(Options{AuthType: AuthKubeConfig, Kubeconfig: r.file, QPS: 1000, Burst: 1000}, WithLogger(zap.New(core)))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	r.client = client
	return r
}

func (r *rewritten) write(t *testing.T, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(r.file, []byte(text), 0o600))
}

func (r *rewritten) open(t *testing.T) error {
	t.Helper()
	body, err := r.client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
	if err != nil {
		return err
	}
	_, err = bufio.NewReader(body).ReadString('\n')
	require.NoError(t, err)
	return body.Close()
}

func (r *rewritten) messages() (messages []string) {
	for _, entry := range r.logs.TakeAll() {
		messages = append(messages, entry.Message)
	}
	return messages
}

const (
	renewedMessage = "kubeconfig has changed, using its credentials from now on"
	uselessMessage = "cannot use the changed kubeconfig, keeping the previous one"
	movedMessage   = "kubeconfig names another API server, using it from now on"
)

func TestTokenInsideARewrittenKubeconfig(t *testing.T) {
	g := &guard{token: "one"}
	server := httptest.NewTLSServer(g)
	t.Cleanup(server.Close)
	cluster := insecure + server.URL
	r := connect(t, oneContext(cluster, "token: one"))
	require.NoError(t, r.open(t))

	g.takes("two")
	r.write(t, oneContext(cluster, "token: two"))
	require.NoError(t, r.open(t))
	assert.Equal(t, []string{"two"}, g.shown, "the next request sends the new token")
	assert.Equal(t, []string{renewedMessage}, r.messages())

	// The file is renewed while a request with the old token is under way.
	g.takes("three")
	g.refused = func() { r.write(t, oneContext(cluster, "token: three")) }
	require.NoError(t, r.open(t), "the caller does not even notice")
	assert.Equal(t, []string{"two", "three"}, g.shown)
	g.refused = nil
	assert.Equal(t, []string{renewedMessage}, r.messages())

	g.takes("four")
	require.ErrorContains(t, r.open(t), "cannot watch pods (group \"\", version v1) in all namespaces: Unauthorized")
	assert.Equal(t, []string{"three"}, g.shown, "there are no other credentials")
}

// A file that is missing, half-written or incomplete does not replace the previous one, and is reported once.
func TestKubeconfigThatIsTemporarilyUnusable(t *testing.T) {
	g := &guard{token: "one"}
	server := httptest.NewTLSServer(g)
	t.Cleanup(server.Close)
	good := oneContext(insecure+server.URL, "token: one")
	r := connect(t, good)
	for name, text := range map[string]string{
		"empty":           "",
		"half":            good[:len(good)-20],
		"without user":    good[:strings.Index(good, "users:")],
		"without cluster": strings.Replace(good, "name: k,", "name: other,", 1),
		"bad CA":          oneContext("server: https://api.test, certificate-authority-data: bm9uZQ==", "token: two"),
	} {
		r.write(t, text)
		require.NoError(t, r.open(t), name)
		require.NoError(t, r.open(t), name)
		assert.Equal(t, []string{uselessMessage}, r.messages(), name)
	}
	require.NoError(t, os.Remove(r.file))
	require.NoError(t, r.open(t))
	r.messages()

	g.takes("two")
	r.write(t, oneContext(insecure+server.URL, "token: two"))
	require.NoError(t, r.open(t))
	assert.Equal(t, []string{renewedMessage}, r.messages())
}

// Changes for the use of kubectl do not affect us: another current context, other contexts.
func TestUnrelatedKubeconfigChanges(t *testing.T) {
	g, other := &guard{token: "one"}, &guard{token: "other"}
	server, otherServer := httptest.NewTLSServer(g), httptest.NewTLSServer(other)
	t.Cleanup(server.Close)
	t.Cleanup(otherServer.Close)
	ours := oneContext(insecure+server.URL, "token: one")
	both := strings.NewReplacer(
		"current-context: c", "current-context: d",
		"contexts: [", "contexts: [{name: d, context: {cluster: l, user: v}}, ",
		"clusters: [", "clusters: [{name: l, cluster: {"+insecure+otherServer.URL+"}}, ",
		"users: [", "users: [{name: v, user: {token: other}}, ",
	).Replace(ours)
	r := connect(t, ours)
	session := r.client.session
	r.write(t, both)
	require.NoError(t, r.open(t))
	assert.Same(t, session, r.client.session)
	assert.Empty(t, r.messages())
	assert.Equal(t, []string{"one"}, g.shown)

	// Our cluster has moved.
	r.write(t, strings.NewReplacer(server.URL, otherServer.URL, "token: one", "token: other").Replace(ours))
	require.NoError(t, r.open(t))
	assert.Equal(t, []string{"other"}, other.shown)
	assert.Equal(t, []string{movedMessage}, r.messages())

	// Our context has another name.
	g.takes("three")
	r.write(t, strings.NewReplacer("name: c,", "name: new,", "current-context: c", "current-context: new", "token: one", "token: three").Replace(ours))
	require.NoError(t, r.open(t))
	assert.Equal(t, []string{"three"}, g.shown)
}

func TestExecPluginOfAKubeconfig(t *testing.T) {
	g := &guard{token: "one"}
	server := httptest.NewTLSServer(g)
	t.Cleanup(server.Close)
	tokens := t.TempDir()
	plugin := func(file string) string {
		return oneContext(insecure+server.URL, `exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: IfAvailable, command: /bin/sh, args: [-c, 'printf "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}" $(cat `+filepath.Join(tokens, file)+`)']}`)
	}
	write := func(file, token string) {
		require.NoError(t, os.WriteFile(filepath.Join(tokens, file), []byte(token), 0o600))
	}
	write("a", "one")
	r := connect(t, plugin("a"))
	require.NoError(t, r.open(t))

	g.takes("two")
	write("a", "two")
	require.NoError(t, r.open(t), "a refusal makes the plugin run again, and the request be repeated")
	assert.Equal(t, []string{"one", "two"}, g.shown)

	g.takes("three")
	write("b", "three")
	r.write(t, plugin("b"))
	require.NoError(t, r.open(t), "another plugin")
	assert.Equal(t, []string{"three"}, g.shown)

	g.takes("four")
	require.Error(t, r.open(t))
	assert.Equal(t, []string{"three", "three"}, g.shown, "no more than twice")
}

// k3s renews its authority, and the client certificate, in the file.
func TestCertificatesInsideARewrittenKubeconfig(t *testing.T) {
	data := func(content []byte) string { return base64.StdEncoding.EncodeToString(content) }
	serverCert, serverKey := identity(t, "server")
	otherCert, otherKey := identity(t, "other server")
	first, firstKey := identity(t, "first")
	second, secondKey := identity(t, "second")

	var mu sync.Mutex
	pair := func(cert, key []byte) *tls.Certificate {
		p, err := tls.X509KeyPair(cert, key)
		require.NoError(t, err)
		return &p
	}
	current := pair(serverCert, serverKey)
	var shown string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		shown = r.TLS.PeerCertificates[0].Subject.CommonName
		_, _ = io.WriteString(w, firstFrame)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			return &tls.Config{ClientAuth: tls.RequireAnyClientCert, Certificates: []tls.Certificate{*current}}, nil
		},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	text := func(ca, cert, key []byte) string {
		return oneContext("server: "+server.URL+", certificate-authority-data: "+data(ca),
			"client-certificate-data: "+data(cert)+", client-key-data: "+data(key))
	}
	r := connect(t, text(serverCert, first, firstKey))
	require.NoError(t, r.open(t))
	assert.Equal(t, "first", shown)

	r.write(t, text(serverCert, second, secondKey))
	require.NoError(t, r.open(t))
	assert.Equal(t, "second", shown)

	mu.Lock()
	current = pair(otherCert, otherKey)
	mu.Unlock()
	r.client.session.connections.closeIdle()
	require.ErrorContains(t, r.open(t), "x509: certificate")
	r.write(t, text(otherCert, second, secondKey))
	require.NoError(t, r.open(t))
}

// An expired client certificate is refused like any other, with an unhelpful message.
func TestExpiredClientCertificate(t *testing.T) {
	expired, key := expiredIdentity(t, "old")
	text := func(server string) string {
		return oneContext(insecure+server, "client-certificate-data: "+base64.StdEncoding.EncodeToString(expired)+
			", client-key-data: "+base64.StdEncoding.EncodeToString(key))
	}
	const want = "the client certificate expired at 2026-01-02T03:04:05Z: renew it"

	unauthorized := httptest.NewTLSServer(&guard{token: "none"})
	t.Cleanup(unauthorized.Close)
	err := connect(t, text(unauthorized.URL)).open(t)
	require.ErrorContains(t, err, "Unauthorized; "+want)
	assert.True(t, apierrors.IsUnauthorized(err))

	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		strict := httptest.NewUnstartedServer(http.NotFoundHandler())
		strict.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: version, MaxVersion: version}
		strict.StartTLS()
		t.Cleanup(strict.Close)
		err = connect(t, text(strict.URL)).open(t)
		require.ErrorContains(t, err, "remote error: tls: ")
		require.ErrorContains(t, err, want)
	}

	forbidden := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(forbidden.Close)
	err = connect(t, text(forbidden.URL)).open(t)
	require.ErrorContains(t, err, "404")
	assert.NotContains(t, err.Error(), "expired")
}
