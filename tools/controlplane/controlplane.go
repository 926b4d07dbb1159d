// Package controlplane starts a real etcd and a real kube-apiserver on loopback, for tests and demonstrations. There
// are no nodes and no controllers: only clients create and change objects. It needs no root, uses free ports, keeps its
// data in a temporary folder, and leaves nothing behind.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/certs"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
)

// Options of Start. The zero value starts a control plane from $KUBEBUILDER_ASSETS.
type Options struct {
	// Binaries is the folder that holds etcd and kube-apiserver. Empty: $KUBEBUILDER_ASSETS.
	Binaries string

	// FeatureGates of the API server that differ from its defaults.
	FeatureGates map[string]bool

	// AuditLog makes the API server write one JSON line for each request and stage, metadata only.
	AuditLog bool

	// APIServerArgs and EtcdArgs come after our own flags and override them.
	APIServerArgs []string
	EtcdArgs      []string

	// Log receives the output of both processes. If nil, only its end is kept, for error messages.
	Log io.Writer
}

// ControlPlane is an etcd and a kube-apiserver. Its methods may be called from any goroutine.
type ControlPlane struct {
	options  Options
	folder   string
	ca       *certs.Authority
	etcdPort int
	apiPort  int

	admin      *rest.Config
	kubeconfig string

	mu        sync.Mutex // held while a process is started or ended
	etcd      *child.Child
	apiserver *child.Child
}

// stopGrace is how long Stop waits for a process to end. An API server with open watches would take a minute, and its
// last output does not matter.
const stopGrace = 2 * time.Second

// Start starts both and returns when the API server is ready. ctx bounds only the start.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Binaries == "" {
		o.Binaries = os.Getenv("KUBEBUILDER_ASSETS")
	}
	if err := checkBinaries(o.Binaries); err != nil {
		return nil, err
	}
	if o.Log != nil {
		o.Log = &lockedWriter{next: o.Log}
	}
	folder, err := os.MkdirTemp("", "controlplane-")
	if err != nil {
		return nil, fmt.Errorf("cannot create the control plane's folder: %w", err)
	}
	c := &ControlPlane{options: o, folder: folder}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	var err error
	if c.etcdPort, err = child.FreePort(); err != nil {
		return err
	}
	if c.apiPort, err = child.FreePort(); err != nil {
		return err
	}
	if c.ca, err = certs.NewAuthority("controlplane"); err != nil {
		return err
	}
	if err := c.writeServerFiles(); err != nil {
		return err
	}
	admin, err := c.UserCredentials("admin", "system:masters")
	if err != nil {
		return err
	}
	c.admin, c.kubeconfig = admin.Config, admin.Kubeconfig

	if err := c.StartEtcd(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// RESTConfig returns a copy of the configuration of a client with all rights and no rate limit.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig returns the path of a kubeconfig file with the rights of RESTConfig.
func (c *ControlPlane) Kubeconfig() string { return c.kubeconfig }

// Address returns host:port of the API server. It stays the same across restarts.
func (c *ControlPlane) Address() string { return fmt.Sprintf("127.0.0.1:%d", c.apiPort) }

// EtcdEndpoint returns the URL of etcd, without TLS. It stays the same across restarts.
func (c *ControlPlane) EtcdEndpoint() string { return fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort) }

// AuditLog returns the path of the API server's audit log, with one JSON object per line. Only with Options.AuditLog.
func (c *ControlPlane) AuditLog() string { return c.path("audit.log") }

// EtcdPID returns the process id of etcd, or 0 if it was not started or was ended by us.
func (c *ControlPlane) EtcdPID() int { return c.pid(&c.etcd) }

// APIServerPID does the same for the API server.
func (c *ControlPlane) APIServerPID() int { return c.pid(&c.apiserver) }

func (c *ControlPlane) pid(which **child.Child) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *which == nil {
		return 0
	}
	return (*which).PID()
}

// StopAPIServer ends the API server like an administrator, with SIGTERM, and kills it if ctx ends first. With open
// watches the API server takes about a minute to end.
func (c *ControlPlane) StopAPIServer(ctx context.Context) error {
	return c.end(&c.apiserver, func(p *child.Child) error { return p.Stop(ctx, syscall.SIGTERM) })
}

// KillAPIServer ends the API server like a crash.
func (c *ControlPlane) KillAPIServer() error { return c.end(&c.apiserver, (*child.Child).Kill) }

// StopEtcd ends etcd with SIGTERM, and kills it if ctx ends first.
func (c *ControlPlane) StopEtcd(ctx context.Context) error {
	return c.end(&c.etcd, func(p *child.Child) error { return p.Stop(ctx, syscall.SIGTERM) })
}

// KillEtcd ends etcd like a crash. Its data may be damaged, because it does not wait for the disk.
func (c *ControlPlane) KillEtcd() error { return c.end(&c.etcd, (*child.Child).Kill) }

// end ends a process if there is one. How it ended does not matter.
func (c *ControlPlane) end(which **child.Child, how func(*child.Child) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := *which
	if p == nil {
		return nil
	}
	if err := how(p); p.Running() {
		return err
	}
	*which = nil
	return nil
}

// Stop ends both processes, the API server first, waits for them and removes the folder. It may be called again.
func (c *ControlPlane) Stop() error {
	grace := func(stop func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		return stop(ctx)
	}
	err := errors.Join(grace(c.StopAPIServer), grace(c.StopEtcd))
	if rm := os.RemoveAll(c.folder); rm != nil {
		err = errors.Join(err, fmt.Errorf("cannot remove the control plane's folder: %w", rm))
	}
	return err
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.folder, name) }

func (c *ControlPlane) binary(name string) string { return filepath.Join(c.options.Binaries, name) }

func checkBinaries(folder string) error {
	const hint = "run `make control-plane` and set KUBEBUILDER_ASSETS to the folder that it prints"
	if folder == "" {
		return errors.New("no folder with etcd and kube-apiserver is given: " + hint)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("cannot find %s: %w: %s", name, err, hint)
		}
	}
	return nil
}

// lockedWriter is a writer shared by two processes.
type lockedWriter struct {
	mu   sync.Mutex
	next io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.next.Write(p)
}
