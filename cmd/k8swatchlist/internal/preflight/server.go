package preflight

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
)

// Cluster is a [Server].
type Cluster struct {
	*kubeclient.Client
	version        *discovery.DiscoveryClient
	authentication *authenticationclient.AuthenticationV1Client
}

// Connect returns the API server of a config, without a request. The caller closes it.
func Connect(config *rest.Config) (*Cluster, error) {
	var c Cluster
	var err error
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json" // which every server and proxy knows
	if c.version, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	if c.authentication, err = authenticationclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	c.Client, err = kubeclient.New(config)
	return &c, err
}

// Version implements [Server].
func (c *Cluster) Version(ctx context.Context) (string, error) {
	version, err := c.version.ServerVersionWithContext(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot get the version of the API server: %w", err)
	}
	return version.GitVersion, nil
}

// User implements [Server].
func (c *Cluster) User(ctx context.Context) (string, error) {
	review, err := c.authentication.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("cannot create selfsubjectreviews (group authentication.k8s.io): %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

var minorVersion = regexp.MustCompile(`^v1\.([0-9]+)\.`)

// streamsInitialState reports whether an API server of a version has WatchList by default: 1.32, and from 1.34 on.
// https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/
func streamsInitialState(version string) bool {
	match := minorVersion.FindStringSubmatch(version)
	if match == nil {
		return false
	}
	minor, err := strconv.Atoi(match[1])
	return err == nil && (minor == 32 || minor >= 34)
}
