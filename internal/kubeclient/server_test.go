package kubeclient

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// pods are read in all namespaces.
var (
	pods   = scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}}
	podAPI = scope.API{Version: "v1", Kind: "Pod", Namespaced: true}
)

// eachProtocol runs a test with a server for HTTP/1.1 and one for HTTP/2, both with TLS.
func eachProtocol(t *testing.T, test func(t *testing.T, start func(http.HandlerFunc) *rest.Config)) {
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) {
			test(t, func(handler http.HandlerFunc) *rest.Config {
				server := httptest.NewUnstartedServer(handler)
				server.EnableHTTP2 = http2
				server.StartTLS()
				t.Cleanup(server.Close)
				return &rest.Config{
					Host: server.URL,
					TLSClientConfig: rest.TLSClientConfig{
						CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
					},
					QPS:                1000,
					Burst:              1000,
					DisableCompression: true,
				}
			})
		})
	}
}

func newTestClient(t *testing.T, cfg *rest.Config, options ...Option) *Client {
	t.Helper()
	client, err := New(cfg, options...)
	require.NoError(t, err)
	t.Cleanup(client.Close) // before the server's cleanup, which waits for its connections
	return client
}

// serve starts a server and returns a client for it.
func serve(t *testing.T, handler http.HandlerFunc, options ...Option) *Client {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newTestClient(t, &rest.Config{Host: server.URL, QPS: 1000, Burst: 1000}, options...)
}
