package kubeclient

import (
	"net/http"
	"os"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// withTokenFile makes a client read cfg's token file for each request. client-go reads the file once a minute: a client
// whose token is refused keeps sending it, waits longer after each refusal, and is blind for minutes after the token
// was renewed. Here requests are few and the file is small.
func withTokenFile(cfg *rest.Config) *rest.Config {
	if cfg.BearerTokenFile == "" {
		return cfg
	}
	path, token := cfg.BearerTokenFile, cfg.BearerToken
	cfg = rest.CopyConfig(cfg)
	cfg.BearerTokenFile, cfg.BearerToken = "", ""
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &tokenFile{path: path, next: next, token: token}
	})
	return cfg
}

type tokenFile struct {
	path string
	next http.RoundTripper

	mu    sync.Mutex
	token string // the last one that could be read
}

// RoundTrip implements http.RoundTripper.
func (f *tokenFile) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+f.current())
	return f.next.RoundTrip(req)
}

// current falls back to the previous token, since the file may be missing or empty while it is replaced.
func (f *tokenFile) current() string {
	content, err := os.ReadFile(f.path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if token := strings.TrimSpace(string(content)); err == nil && token != "" {
		f.token = token
	}
	return f.token
}
