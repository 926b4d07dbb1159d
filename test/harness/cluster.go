package harness

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// Cluster is a control plane for one test, with clients that may do everything.
type Cluster struct {
	*controlplane.ControlPlane
	Client  kubernetes.Interface
	Dynamic dynamic.Interface

	metadata metadata.Interface
}

const startTimeout = 2 * time.Minute // with other tests and builds on the same cores

// StartCluster starts a control plane that ends with the test.
func StartCluster(t testing.TB, o controlplane.Options) *Cluster {
	t.Helper()
	c := &Cluster{}
	o.Binaries = binaries(t)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	var err error
	if c.ControlPlane, err = controlplane.Start(ctx, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	c.connect(t)
	return c
}

func (c *Cluster) connect(t testing.TB) {
	t.Helper()
	config := c.RESTConfig()
	config.WarningHandler = rest.NoWarnings{}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpClient.CloseIdleConnections)
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		t.Fatal(err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(config), httpClient); err != nil {
		t.Fatal(err)
	}
	// Many objects are created, and protobuf costs both ends less.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = strings.Join([]string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}, ",")
	if c.Client, err = kubernetes.NewForConfigAndClient(config, httpClient); err != nil {
		t.Fatal(err)
	}
}

// RestartAPIServer kills the API server and starts it again. It then has no earlier history.
func (c *Cluster) RestartAPIServer(t testing.TB) {
	t.Helper()
	if err := c.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	c.BringUpAPIServer(t)
}

// BringUpAPIServer starts the API server after it was killed.
func (c *Cluster) BringUpAPIServer(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := c.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
}

// KubeconfigVia writes a kubeconfig file for the holder of config that leads to another address, such as a proxy's.
func (c *Cluster) KubeconfigVia(t testing.TB, config *rest.Config, address string) string {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Host = "https://" + address
	path, err := c.WriteKubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
