package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// How a client shows the API server who it is.
const (
	AuthServiceAccount = "serviceAccount" // as the pod's service account
	AuthKubeConfig     = "kubeConfig"     // as a kubeconfig file says
	AuthNone           = "none"           // not at all, for example through kubectl proxy
)

// serviceAccountCA is where a pod finds the certificate authority of its cluster.
// https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
const serviceAccountCA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// Options say how to reach the API server, and with which manners.
type Options struct {
	AuthType   string // one of the Auth constants
	Kubeconfig string // with AuthKubeConfig; "" follows $KUBECONFIG and ~/.kube/config
	Context    string // with AuthKubeConfig; "" is the current context
	APIServer  string // with AuthNone; "" is the cluster that the pod runs in

	QPS         float32 // requests a second
	Burst       int     // requests at once
	UserAgent   string
	Compression bool // let the API server compress its answers

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
	return cfg, nil
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
		return kubeconfig(o)
	case AuthNone:
		return noAuth(o)
	default:
		return nil, fmt.Errorf("auth_type: %q is not one of serviceAccount, kubeConfig, none", o.AuthType)
	}
}

func kubeconfig(o Options) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = expandHome(o.Kubeconfig)
	rules.MigrationRules = nil // they write files
	rules.WarnIfAllMissing = false
	files := strings.Join(rules.GetLoadingPrecedence(), ", ")
	raw, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("cannot load kubeconfig: %w", err)
	}
	if clientcmdapi.IsConfigEmpty(raw) {
		return nil, fmt.Errorf("cannot load kubeconfig: found none in %s; set kubeconfig or $KUBECONFIG to its path", files)
	}
	if err := checkContext(o.Context, raw, files); err != nil {
		return nil, err
	}
	// Not the deferred loading config, which takes the pod's service account if the file names no cluster.
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*raw, o.Context, overrides, rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot use kubeconfig %s: %w", files, err)
	}
	return cfg, nil
}

func checkContext(name string, raw *clientcmdapi.Config, files string) error {
	known := strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
	switch {
	case name == "" && raw.CurrentContext == "":
		return fmt.Errorf("context: kubeconfig %s has no current context; write one of: %s", files, known)
	case name != "" && raw.Contexts[name] == nil:
		return fmt.Errorf("context: kubeconfig %s has no context %q; write one of: %s", files, name, known)
	default:
		return nil
	}
}

// expandHome makes a path that begins with ~/ what a shell makes of it.
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
	if o.APIServer != "" {
		return &rest.Config{Host: o.APIServer}, nil
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("cannot find the API server: not in a pod (no $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT); set api_server to its URL")
	}
	cfg := &rest.Config{Host: "https://" + net.JoinHostPort(host, port)}
	if _, err := os.Stat(serviceAccountCA); err == nil {
		cfg.CAFile = serviceAccountCA
	}
	return cfg, nil
}
