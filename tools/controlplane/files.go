package controlplane

import (
	"fmt"
	"os"
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
	server, err := c.ca.server()
	if err != nil {
		return err
	}
	serviceAccount, err := newKeyPEM()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		caFile:             c.ca.certPEM,
		serverCertFile:     server.certPEM,
		serverKeyFile:      server.keyPEM,
		serviceAccountFile: serviceAccount,
		auditPolicyFile:    []byte(auditPolicy),
	} {
		if err := os.WriteFile(c.path(name), content, 0o600); err != nil {
			return fmt.Errorf("cannot write a file of kube-apiserver: %w", err)
		}
	}
	return nil
}
