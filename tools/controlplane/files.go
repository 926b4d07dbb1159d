package controlplane

import (
	"fmt"
	"os"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/certs"
)

// Names in the control plane's folder.
const (
	caFile             = "ca.crt"
	serverCertFile     = "server.crt"
	serverKeyFile      = "server.key"
	serviceAccountFile = "service-account.key"
	auditPolicyFile    = "audit-policy.yaml"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - level: Metadata
`

// writeServerFiles writes what the API server reads at its start.
func (c *ControlPlane) writeServerFiles() error {
	server, err := c.ca.Server("kube-apiserver", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	serviceAccount, err := certs.NewKeyPEM()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		caFile:             c.ca.PEM(),
		serverCertFile:     server.Cert,
		serverKeyFile:      server.Key,
		serviceAccountFile: serviceAccount,
		auditPolicyFile:    []byte(auditPolicy),
	} {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return fmt.Errorf("cannot write a file of kube-apiserver: %w", err)
		}
	}
	return nil
}
