package kubeclient

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// identity returns a self-signed certificate for 127.0.0.1.
func identity(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	return identityUntil(t, name, time.Now().Add(time.Hour))
}

// expiredIdentity returns one that was valid until 2026-01-02.
func expiredIdentity(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	return identityUntil(t, name, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
}

func identityUntil(t *testing.T, name string, until time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotAfter:              until,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// serveAs starts a server with a certificate. It answers with the name of the client's certificate.
func serveAs(t *testing.T, cert, key []byte) net.Addr {
	t.Helper()
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"type":"`+r.TLS.PeerCertificates[0].Subject.CommonName+"\"}\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr()
}

// When certificate files are renewed, the next requests use the new ones and open responses stay.
func TestRenewedCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	caFile, certFile, keyFile := filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	install := func(ca, cert, key []byte) {
		require.NoError(t, os.WriteFile(caFile, ca, 0o600))
		require.NoError(t, os.WriteFile(certFile, cert, 0o600))
		require.NoError(t, os.WriteFile(keyFile, key, 0o600))
	}
	serverCert1, serverKey1 := identity(t, "server1")
	serverCert2, serverKey2 := identity(t, "server2")
	clientCert1, clientKey1 := identity(t, "client1")
	clientCert2, clientKey2 := identity(t, "client2")
	server1, server2 := serveAs(t, serverCert1, serverKey1), serveAs(t, serverCert2, serverKey2)

	install(serverCert1, clientCert1, clientKey1)
	server := server1
	client := newTestClient(t, &rest.Config{
		Host:            "https://127.0.0.1:6443",
		TLSClientConfig: rest.TLSClientConfig{CAFile: caFile, CertFile: certFile, KeyFile: keyFile},
		QPS:             1000,
		Burst:           1000,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.String())
		},
	})
	open := func(fresh bool) (io.ReadCloser, string) {
		body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, FreshConnection: fresh})
		require.NoError(t, err)
		line, err := bufio.NewReader(body).ReadString('\n')
		require.NoError(t, err)
		return body, line
	}
	first, line := open(false)
	assert.Equal(t, `{"type":"client1"}`+"\n", line)

	shared := client.session.connections.sharedTransport()
	assert.Same(t, shared, client.session.connections.sharedTransport(), "nothing has changed")
	server = server2
	install(serverCert2, clientCert2, clientKey2)
	fresh, line := open(true)
	assert.Equal(t, `{"type":"client2"}`+"\n", line, "a fresh connection uses the current files")
	second, line := open(false)
	assert.Equal(t, `{"type":"client2"}`+"\n", line, "and so does the next request")
	assert.NotSame(t, shared, client.session.connections.sharedTransport())

	ended := make(chan error, 1)
	go func() {
		_, err := first.Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		assert.Fail(t, "the open response ended", err)
	case <-time.After(50 * time.Millisecond):
	}
	client.Close()
	require.Error(t, <-ended)
	for _, body := range []io.Closer{first, fresh, second} {
		require.NoError(t, body.Close())
	}
}

// A file that is missing or half written does not replace a working one.
func TestBadCertificateFiles(t *testing.T) {
	caFile := filepath.Join(t.TempDir(), "ca")
	cert, _ := identity(t, "server")
	require.NoError(t, os.WriteFile(caFile, cert, 0o600))
	c, err := newConnections(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: caFile}}, connrotation.NewConnectionTracker(), &openCounts{})
	require.NoError(t, err)
	working := c.shared
	require.NoError(t, os.WriteFile(caFile, []byte("-----BEGIN"), 0o600))
	assert.Same(t, working, c.sharedTransport())
	require.NoError(t, os.Remove(caFile))
	assert.Same(t, working, c.sharedTransport())
	other, _ := identity(t, "other")
	require.NoError(t, os.WriteFile(caFile, other, 0o600))
	assert.NotSame(t, working, c.sharedTransport())

	_, err = New(&rest.Config{Host: "https://127.0.0.1", TLSClientConfig: rest.TLSClientConfig{CAFile: caFile + ".none"}})
	require.ErrorContains(t, err, "no such file")
}

// countingConn returns what has arrived, and counts its reads.
type countingConn struct {
	net.Conn
	arrived bytes.Buffer
	reads   int
}

func (c *countingConn) Read(p []byte) (int, error) {
	c.reads++
	return c.arrived.Read(p)
}

func TestReadingAheadReadsEverythingAvailable(t *testing.T) {
	const records, size = 30, 2000
	sent := bytes.Repeat([]byte("k"), records*size)
	inner := &countingConn{arrived: *bytes.NewBuffer(sent)}
	conn, err := readingAhead(func(context.Context, string, string) (net.Conn, error) { return inner, nil })(t.Context(), "tcp", "")
	require.NoError(t, err)

	got, record := []byte(nil), make([]byte, size)
	for range records {
		_, err := io.ReadFull(conn, record)
		require.NoError(t, err)
		got = append(got, record...)
	}
	assert.Equal(t, sent, got)
	assert.Equal(t, 1, inner.reads)
}

func TestReadingAheadReturnsDialErrors(t *testing.T) {
	_, err := readingAhead(func(context.Context, string, string) (net.Conn, error) { return nil, io.ErrClosedPipe })(t.Context(), "tcp", "")
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// Connections and watches are counted from the beginning of their answer until they are closed.
func TestOpenIsCounted(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		client := newTestClient(t, start(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		var bodies []io.Closer
		for range 3 {
			body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, ResourceVersion: "1"})
			require.NoError(t, err)
			bodies = append(bodies, body)
		}
		assert.EqualValues(t, 3, client.Streams())
		assert.Positive(t, client.Connections())
		for _, body := range bodies {
			_ = body.Close()
			_ = body.Close()
		}
		assert.Zero(t, client.Streams())
		client.Close()
		assert.Eventually(t, func() bool { return client.Connections() == 0 }, 10*time.Second, 10*time.Millisecond)
	})
}
