package k8swatchlistreceiver

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
)

func replicasConfig(t *testing.T, change func(*Config)) *Config {
	t.Helper()
	t.Setenv("POD_NAME", "otelcol-1")
	t.Setenv("POD_NAMESPACE", "observability")
	c := createDefaultConfig().(*Config)
	c.Resources = []ResourceConfig{{Name: "pods"}}
	change(c)
	require.NoError(t, c.Validate())
	return c
}

func TestElection(t *testing.T) {
	id := component.NewID(metadata.Type)
	c := replicasConfig(t, func(c *Config) { c.LeaderElection.Enabled = true })
	e, err := c.election(id)
	require.NoError(t, err)
	assert.Regexp(t, `^otelcol-1_[0-9a-f]{8}$`, e.identity)
	again, err := c.election(id)
	require.NoError(t, err)
	assert.NotEqual(t, e.identity, again.identity, "another process")
	e.identity = ""
	assert.Equal(t, &election{
		lease:         ElectionLease{"observability", "k8s-watchlist"},
		progress:      ElectionLease{"observability", "k8s-watchlist-progress"},
		leaseDuration: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second,
		publishInterval: time.Second,
	}, e)
	assert.Equal(t, []ElectionLease{{"", "k8s-watchlist"}, {"", "k8s-watchlist-progress"}}, c.ElectionLeases(id))

	e, err = replicasConfig(t, func(*Config) {}).election(id)
	require.NoError(t, err)
	assert.Nil(t, e, "there is one replica")
	assert.Empty(t, replicasConfig(t, func(*Config) {}).ElectionLeases(id))
}

func TestElectionAsConfigured(t *testing.T) {
	id := component.NewID(metadata.Type)
	c := replicasConfig(t, func(c *Config) {
		c.LeaderElection = LeaderElectionConfig{
			Enabled: true, LeaseName: "audit", LeaseNamespace: "logs", Identity: "blue",
			LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 5 * time.Second,
		}
		c.Standby = StandbyConfig{Mode: standbyCold, Progress: "other/positions", PublishInterval: 2 * time.Second}
		c.Shard = ShardConfig{Total: 2, Index: shardIndexAuto, By: "uid", Server: shardServerAuto}
	})
	e, err := c.election(id)
	require.NoError(t, err)
	assert.Regexp(t, `^blue_[0-9a-f]{8}$`, e.identity)
	e.identity = ""
	assert.Equal(t, &election{
		lease:         ElectionLease{"logs", "audit-1-of-2"},
		progress:      ElectionLease{"other", "positions-1-of-2"},
		division:      ElectionLease{"logs", "audit-shards"},
		divided:       "2 shards by uid",
		leaseDuration: 30 * time.Second, renewDeadline: 20 * time.Second, retryPeriod: 5 * time.Second,
		cold: true, publishInterval: 2 * time.Second,
	}, e)
	assert.Equal(t, []ElectionLease{
		{"logs", "audit-0-of-2"}, {"other", "positions-0-of-2"}, {"logs", "audit-1-of-2"}, {"other", "positions-1-of-2"},
		{"logs", "audit-shards"},
	}, c.ElectionLeases(id))
}

func TestElectionOfTheExtension(t *testing.T) {
	id := component.NewID(metadata.Type)
	extension := component.MustNewID("k8s_leader_elector")
	c := replicasConfig(t, func(c *Config) {
		c.K8sLeaderElector = &extension
		c.Standby.Progress = "logs/positions"
	})
	t.Setenv("POD_NAMESPACE", "")
	e, err := c.election(id)
	require.NoError(t, err, "the namespace of the pod does not matter")
	assert.Equal(t, ElectionLease{"logs", "positions"}, e.progress)
	assert.Equal(t, 10*time.Second, e.renewDeadline)
	assert.Equal(t, 10*time.Second/3, e.heartbeat)
	assert.Equal(t, []ElectionLease{{"logs", "positions"}}, c.ElectionLeases(id))

	_, err = e.callbacks(storageHost{})
	require.ErrorContains(t, err, "k8s_leader_elector: there is no extension k8s_leader_elector; define it under extensions and name it in service.extensions")
	_, err = e.callbacks(extensionHost{extension: nopExtension{}})
	require.ErrorContains(t, err, "k8s_leader_elector: the extension k8s_leader_elector is not a leader elector; use k8s_leader_elector")
	callbacks, err := e.callbacks(extensionHost{extension: &electorExtension{}})
	require.NoError(t, err)
	assert.NotNil(t, callbacks)
}

func TestNamespaceOfThePod(t *testing.T) {
	before := serviceAccountNamespace
	defer func() { serviceAccountNamespace = before }()
	serviceAccountNamespace = filepath.Join(t.TempDir(), "namespace")
	t.Setenv("POD_NAMESPACE", "")
	_, err := podNamespace()
	require.ErrorContains(t, err, "POD_NAMESPACE is not set, and there is no "+serviceAccountNamespace+"; write a namespace")
	require.NoError(t, os.WriteFile(serviceAccountNamespace, []byte("observability\n"), 0o600))
	namespace, err := podNamespace()
	require.NoError(t, err)
	assert.Equal(t, "observability", namespace)
	t.Setenv("POD_NAMESPACE", "logs")
	namespace, err = podNamespace()
	require.NoError(t, err)
	assert.Equal(t, "logs", namespace)
	t.Setenv("POD_NAMESPACE", "My Namespace")
	_, err = podNamespace()
	require.ErrorContains(t, err, "the environment variable POD_NAMESPACE does not help: ")
}

// Two receivers of a Collector never share a Lease.
func TestNamesOfLeases(t *testing.T) {
	long := strings.Repeat("a", 200)
	names := make(map[string]string)
	for name, want := range map[string]string{
		"":         `k8s-watchlist`,
		"b":        `k8s-watchlist-b`,
		"prod.eu":  `k8s-watchlist-prod.eu`,
		"prod/eu":  `k8s-watchlist-prod-eu-[0-9a-f]{8}`,
		"prod_eu":  `k8s-watchlist-prod-eu-[0-9a-f]{8}`,
		"Prod-eu":  `k8s-watchlist-prod-eu-[0-9a-f]{8}`,
		"ü":        `k8s-watchlist-[0-9a-f]{8}`,
		"b-":       `k8s-watchlist-b-[0-9a-f]{8}`,
		long:       `k8s-watchlist-a{150}-[0-9a-f]{8}`,
		long + "b": `k8s-watchlist-a{150}-[0-9a-f]{8}`,
	} {
		got := leaseNameOf(component.NewIDWithName(metadata.Type, name))
		assert.Regexp(t, "^"+want+"$", got)
		assert.Empty(t, validation.IsDNS1123Subdomain(got+shardSuffix(1023, 1024)+progressSuffix))
		if other, ok := names[got]; ok {
			t.Errorf("%q and %q share %s", name, other, got)
		}
		names[got] = name
	}
}

type extensionHost struct{ extension component.Component }

func (h extensionHost) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{component.MustNewID("k8s_leader_elector"): h.extension}
}

type nopExtension struct {
	component.StartFunc
	component.ShutdownFunc
}

type electorExtension struct{ nopExtension }

func (*electorExtension) SetCallBackFuncs(func(context.Context), func()) {}
