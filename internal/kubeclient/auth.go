package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// How a client authenticates to the API server.
const (
	AuthServiceAccount = "serviceAccount" // with the pod's service account
	AuthKubeConfig     = "kubeConfig"     // with a kubeconfig file
	AuthNone           = "none"           // without credentials, for example through kubectl proxy
)

// serviceAccountCA is where a pod finds the certificate authority of its cluster.
// https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
const serviceAccountCA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// TLS configures how to verify the API server, and which client certificate to present. The zero value trusts the
// system's authorities and presents none.
type TLS struct {
	CAFile             string // certificates of the authorities to trust, PEM
	CertFile           string // client certificate and its key, PEM; both or neither
	KeyFile            string
	ServerName         string // "" is the host of the URL
	InsecureSkipVerify bool   // trust any server
}

// Options configure how to reach the API server and how to send requests to it.
type Options struct {
	AuthType   string // one of the Auth constants
	Kubeconfig string // with AuthKubeConfig; "" follows $KUBECONFIG and ~/.kube/config
	Context    string // with AuthKubeConfig; "" is the current context
	APIServer  string // with AuthNone; "" is the cluster that the pod runs in
	TLS        TLS    // with AuthNone

	QPS         float32 // requests a second
	Burst       int     // requests at once
	UserAgent   string
	Compression bool // let the API server compress its answers

	// NoShardSelector leaves it to the reader to pass over the objects of other shards.
	NoShardSelector bool

	// Dial replaces the opening of TCP connections, in tests.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// RESTConfig finds the API server and the credentials. It reads files and the environment and does not use
// the network.
func RESTConfig(o Options) (*rest.Config, error) {
	cfg, err := authConfig(o)
	if err != nil {
		return nil, err
	}
	return o.applyTo(cfg), nil
}

// applyTo adds the request options to a config that has the server and the credentials.
func (o Options) applyTo(cfg *rest.Config) *rest.Config {
	cfg.Timeout = 0 // it would bound the body of a watch
	cfg.QPS = o.QPS
	cfg.Burst = o.Burst
	cfg.UserAgent = o.UserAgent
	cfg.DisableCompression = !o.Compression
	if o.Dial != nil {
		cfg.Dial = o.Dial
	}
	if cfg.ExecProvider != nil {
		cfg.ExecProvider.StdinUnavailable = true
		cfg.ExecProvider.StdinUnavailableMessage = "the collector cannot ask for credentials"
	}
	return cfg
}

func authConfig(o Options) (*rest.Config, error) {
	switch o.AuthType {
	case AuthServiceAccount:
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("cannot use the pod's service account: %w; outside a cluster set auth_type to kubeConfig or none", err)
		}
		return cfg, nil
	case AuthKubeConfig:
		k, err := loadKubeconfig(o.Kubeconfig, o.Context)
		if err != nil {
			return nil, err
		}
		return k.restConfig()
	case AuthNone:
		return noAuth(o)
	default:
		return nil, fmt.Errorf("auth_type: %q is not one of serviceAccount, kubeConfig, none", o.AuthType)
	}
}

// expandHome replaces a leading ~/ with the home directory, as a shell does.
func expandHome(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(home, rest)
}

func noAuth(o Options) (*rest.Config, error) {
	tlsConfig := rest.TLSClientConfig{
		CAFile:     o.TLS.CAFile,
		CertFile:   o.TLS.CertFile,
		KeyFile:    o.TLS.KeyFile,
		ServerName: o.TLS.ServerName,
		Insecure:   o.TLS.InsecureSkipVerify,
	}
	if o.APIServer != "" {
		return &rest.Config{Host: o.APIServer, TLSClientConfig: tlsConfig}, nil
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("cannot find the API server: not in a pod (no $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT); set api_server to its URL")
	}
	if _, err := os.Stat(serviceAccountCA); err == nil && tlsConfig.CAFile == "" && !tlsConfig.Insecure {
		tlsConfig.CAFile = serviceAccountCA
	}
	return &rest.Config{Host: "https://" + net.JoinHostPort(host, port), TLSClientConfig: tlsConfig}, nil
}

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
