package certs

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// A server accepts the clients of its authority and sees who they are; neither side accepts another authority.
func TestServerAndClient(t *testing.T) {
	t.Parallel()
	ours, other := newAuthority(t), newAuthority(t)
	pair, err := ours.Server("server", "server.example.com")
	if err != nil {
		t.Fatal(err)
	}
	config, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, pool(ours)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		if subject.CommonName != "jane" || !slices.Equal(subject.Organization, []string{"readers"}) {
			t.Errorf("the client is %s", subject)
		}
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.TLS = config
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)

	for name, test := range map[string]struct {
		trusts, signed *Authority
		serverName     string
		accepted       bool
	}{
		"by address":              {ours, ours, "", true},
		"by name":                 {ours, ours, "server.example.com", true},
		"by another name":         {ours, ours, "other.example.com", false},
		"client trusts another":   {other, ours, "", false},
		"client signed by others": {ours, other, "", false},
	} {
		pair, err := test.signed.Client("jane", []string{"readers"})
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
			RootCAs: pool(test.trusts), Certificates: []tls.Certificate{certificate}, ServerName: test.serverName,
		}}
		response, err := (&http.Client{Transport: transport}).Get(server.URL)
		if accepted := err == nil; accepted != test.accepted {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if response.Proto != "HTTP/2.0" {
				t.Errorf("%s: the server speaks %s", name, response.Proto)
			}
			_ = response.Body.Close()
		}
		transport.CloseIdleConnections()
	}
}

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func pool(a *Authority) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(a.PEM())
	return p
}
