package kubeclient

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// session is an API server and its credentials, as read at one time. The certificate and token files that they refer to
// may change later.
type session struct {
	cfg         *rest.Config
	base        *url.URL // scheme, host and the path before /api and /apis
	connections *connections
	http        *http.Client
}

func newSession(cfg *rest.Config, tracker *connrotation.ConnectionTracker, open *openCounts) (*session, error) {
	base, err := baseURL(cfg)
	if err != nil {
		return nil, err
	}
	connections, err := newConnections(cfg, tracker, open)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare connections to %s: %w", base.Host, err)
	}
	wrapped, err := rest.HTTPWrappersForConfig(withTokenFile(cfg), connections)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare credentials for %s: %w", base.Host, err)
	}
	return &session{
		cfg:         cfg,
		base:        base,
		connections: connections,
		http: &http.Client{
			Transport: wrapped,
			// The API server does not redirect. Anything that does must not get the credentials.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func baseURL(cfg *rest.Config) (*url.URL, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare TLS for %s: %w", cfg.Host, err)
	}
	base, _, err := rest.DefaultServerURL(cfg.Host, "", schema.GroupVersion{}, tlsConfig != nil)
	if err != nil {
		return nil, fmt.Errorf("cannot use API server %q: %w", cfg.Host, err)
	}
	return base, nil
}

// refreshes reports whether a 401 makes the next request use new credentials: client-go then runs an exec plugin again.
func (s *session) refreshes() bool { return s.cfg.ExecProvider != nil }

// refused adds the time of expiry to an error that may be due to an expired client certificate.
func (s *session) refused(err error, now time.Time) error {
	content := s.cfg.CertData
	if len(content) == 0 && s.cfg.CertFile != "" {
		content, _ = os.ReadFile(s.cfg.CertFile) // an unreadable file has its own error
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return err
	}
	certificate, parseErr := x509.ParseCertificate(block.Bytes)
	if parseErr != nil || now.Before(certificate.NotAfter) {
		return err
	}
	return fmt.Errorf("%w; the client certificate expired at %s: renew it", err, certificate.NotAfter.UTC().Format(time.RFC3339))
}

// refusedByTLS reports whether the server ended the TLS handshake, as it does if it rejects our certificate. crypto/tls
// does not export the type of these errors.
func refusedByTLS(err error) bool { return strings.Contains(err.Error(), "remote error: tls: ") }

// Fingerprint distinguishes API servers without a request. It is a hash of the URL and of the current content of the
// certificate authority's file, or "" if that cannot be read. A cluster that was recreated under the same URL nearly
// always has another authority. Without an authority, as behind kubectl proxy, it looks the same.
func (c *Client) Fingerprint() string {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	authority := s.cfg.CAData
	if len(authority) == 0 && s.cfg.CAFile != "" {
		var err error
		if authority, err = os.ReadFile(s.cfg.CAFile); err != nil {
			return ""
		}
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", s.base)
	hash.Write(authority)
	return hex.EncodeToString(hash.Sum(nil)[:16])
}
