package controlplane

import (
	"context"
	"fmt"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Credentials authenticate a user, as a client configuration and as a kubeconfig file with the same content. They give
// no rights: those come from RBAC, except for the group system:masters.
type Credentials struct {
	Config     *rest.Config
	Kubeconfig string // path
}

// UserCredentials creates a client certificate for the user in the groups.
func (c *ControlPlane) UserCredentials(user string, groups ...string) (Credentials, error) {
	pair, err := c.ca.Client(user, groups)
	if err != nil {
		return Credentials{}, err
	}
	config := c.anonymous()
	config.CertData, config.KeyData = pair.Cert, pair.Key
	return c.credentials(config)
}

// ServiceAccountCredentials creates a token for the service account, which is created if it does not exist. Its
// namespace must exist. In RBAC it is the subject {Kind: ServiceAccount, Namespace: namespace, Name: name}.
func (c *ControlPlane) ServiceAccountCredentials(ctx context.Context, namespace, name string) (Credentials, error) {
	fail := func(err error) (Credentials, error) {
		return Credentials{}, fmt.Errorf("cannot create a token for service account %s/%s: %w", namespace, name, err)
	}
	httpClient, err := rest.HTTPClientFor(c.admin)
	if err != nil {
		return fail(err)
	}
	defer httpClient.CloseIdleConnections()
	clients, err := kubernetes.NewForConfigAndClient(c.admin, httpClient)
	if err != nil {
		return fail(err)
	}
	accounts := clients.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fail(err)
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return fail(err)
	}
	config := c.anonymous()
	config.BearerToken = token.Status.Token
	return c.credentials(config)
}

// WriteKubeconfig writes config as a kubeconfig file and returns its path: for example a copy of a Credentials' Config
// whose Host is that of a proxy. The file is removed with the control plane.
func (c *ControlPlane) WriteKubeconfig(config *rest.Config) (string, error) {
	const name = "controlplane"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   config.Host,
			CertificateAuthorityData: config.CAData,
			InsecureSkipTLSVerify:    config.Insecure,
			TLSServerName:            config.ServerName,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: config.CertData,
			ClientKeyData:         config.KeyData,
			ClientCertificate:     config.CertFile,
			ClientKey:             config.KeyFile,
			Token:                 config.BearerToken,
			TokenFile:             config.BearerTokenFile,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return "", fmt.Errorf("cannot write a kubeconfig file: %w", err)
	}
	file, err := os.CreateTemp(c.folder, "*.kubeconfig")
	if err != nil {
		return "", fmt.Errorf("cannot write a kubeconfig file: %w", err)
	}
	_, err = file.Write(content)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", fmt.Errorf("cannot write a kubeconfig file: %w", err)
	}
	return file.Name(), nil
}

func (c *ControlPlane) credentials(config *rest.Config) (Credentials, error) {
	path, err := c.WriteKubeconfig(config)
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{Config: config, Kubeconfig: path}, nil
}

// anonymous returns a configuration without credentials. The client's own rate limit is off, because nothing here is
// shared.
func (c *ControlPlane) anonymous() *rest.Config {
	return &rest.Config{
		Host:            "https://" + c.Address(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.PEM()},
		QPS:             -1,
	}
}
