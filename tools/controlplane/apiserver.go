package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/child"
)

// StartAPIServer starts the API server again, on the same address, with the same credentials and the same etcd,
// after StopAPIServer or KillAPIServer. ctx bounds only the start.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiserver != nil && c.apiserver.Running() {
		return fmt.Errorf("cannot start kube-apiserver: it is already running, as process %d", c.apiserver.PID())
	}
	tls, err := rest.TLSConfigFor(c.admin)
	if err != nil {
		return fmt.Errorf("cannot start kube-apiserver: %w", err)
	}
	p, err := child.Start(exec.Command(c.binary("kube-apiserver"), c.apiServerArgs()...), c.options.Log)
	if err != nil {
		return err
	}
	if err := p.AwaitReady(ctx, &http.Transport{TLSClientConfig: tls}, "https://"+c.Address()+"/readyz"); err != nil {
		_ = p.Kill()
		return fmt.Errorf("cannot start kube-apiserver: %w", err)
	}
	c.apiserver = p
	return nil
}

func (c *ControlPlane) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=" + c.EtcdEndpoint(),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.apiPort),
		// Endpoints of the service kubernetes may not be on loopback, so they are not maintained.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/16",
		"--tls-cert-file=" + c.path(serverCertFile),
		"--tls-private-key-file=" + c.path(serverKeyFile),
		"--client-ca-file=" + c.path(caFile),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.path(serviceAccountFile),
		"--service-account-signing-key-file=" + c.path(serviceAccountFile),
		"--authorization-mode=RBAC",
		// It refuses every pod until a controller has created the namespace's service account.
		"--disable-admission-plugins=ServiceAccount",
	}
	if c.options.AuditLog {
		args = append(args,
			"--audit-policy-file="+c.path(auditPolicyFile),
			"--audit-log-path="+c.AuditLog(),
			"--audit-log-format=json",
		)
	}
	if len(c.options.FeatureGates) > 0 {
		var gates []string
		for name, on := range c.options.FeatureGates {
			gates = append(gates, fmt.Sprintf("%s=%t", name, on))
		}
		slices.Sort(gates)
		args = append(args, "--feature-gates="+strings.Join(gates, ","))
	}
	return append(args, c.options.APIServerArgs...)
}
