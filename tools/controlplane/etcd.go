package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
)

// StartEtcd starts etcd again, on the same data and address, after StopEtcd or KillEtcd. ctx bounds only the start.
func (c *ControlPlane) StartEtcd(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.etcd != nil && c.etcd.Running() {
		return fmt.Errorf("cannot start etcd: it is already running, as process %d", c.etcd.PID())
	}
	p, err := child.Start(exec.Command(c.binary("etcd"), c.etcdArgs()...), c.options.Log)
	if err != nil {
		return err
	}
	if err := p.AwaitReady(ctx, http.DefaultTransport.(*http.Transport).Clone(), c.EtcdEndpoint()+"/health"); err != nil {
		_ = p.Kill()
		return fmt.Errorf("cannot start etcd: %w", err)
	}
	c.etcd = p
	return nil
}

// EtcdDataDir returns the folder of etcd's data. It may be replaced while etcd does not run.
func (c *ControlPlane) EtcdDataDir() string { return c.path("etcd") }

func (c *ControlPlane) etcdArgs() []string {
	// A single member has no peers, so its peer address needs no known port.
	const peer = "http://127.0.0.1:0"
	args := []string{
		"--name=default",
		"--data-dir=" + c.EtcdDataDir(),
		"--listen-client-urls=" + c.EtcdEndpoint(),
		"--advertise-client-urls=" + c.EtcdEndpoint(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		// The data lives as long as the process; waiting for the disk would only slow it down.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	}
	return append(args, c.options.EtcdArgs...)
}
