package k8swatchlistreceiver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/featuregate"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// loadConfig loads a configuration file in the same way as the Collector.
func loadConfig(t *testing.T, file string) (*Config, error) {
	t.Helper()
	conf, err := confmaptest.LoadConf(file)
	require.NoError(t, err)
	cfg := NewFactory().CreateDefaultConfig()
	if err := conf.Unmarshal(&cfg); err != nil {
		return nil, err
	}
	return cfg.(*Config), confmap.Validate(cfg)
}

// The comments of a bad configuration list the expected errors, one per line.
func TestBadConfigs(t *testing.T) {
	files, err := filepath.Glob("testdata/config/bad/*.yaml")
	require.NoError(t, err)
	require.Greater(t, len(files), 25)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			_, err := loadConfig(t, file)
			require.Error(t, err)
			assert.Equal(t, wanted(t, file), errorLines(err))
		})
	}
}

func wanted(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(string(content)) {
		if want, ok := strings.CutPrefix(line, "# want: "); ok {
			lines = append(lines, strings.TrimSuffix(want, "\n"))
		}
	}
	require.NotEmpty(t, lines)
	return lines
}

// errorLines returns the lines of the error without confmap's headings, sorted where confmap returns them in random
// order.
func errorLines(err error) []string {
	const heading = "decoding failed due to the following error(s):\n\n"
	text := err.Error()
	if !strings.Contains(text, heading) {
		return strings.Split(text, "\n")
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "'' ", ""), heading, "")
	return slices.Sorted(slices.Values(strings.Split(text, "\n")))
}

func TestGoodConfigs(t *testing.T) {
	files, err := filepath.Glob("testdata/config/good/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			_, err := loadConfig(t, file)
			require.NoError(t, err)
		})
	}
}

func TestDefaultConfig(t *testing.T) {
	cfg, err := loadConfig(t, "testdata/config/good/minimal.yaml")
	require.NoError(t, err)
	want := &Config{
		AuthType:       "serviceAccount",
		KubeAPIQPS:     20,
		KubeAPIBurst:   40,
		Resources:      []ResourceConfig{{Name: "pods"}},
		Relist:         RelistConfig{Interval: 6 * time.Hour, Emit: "changes", RotateInterval: 30 * time.Minute},
		Shard:          ShardConfig{Total: 1, By: "uid", Server: "auto"},
		LeaderElection: LeaderElectionConfig{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
		Standby:        StandbyConfig{Mode: "warm", PublishInterval: time.Second},
		InitialState:   "emit",
		Checkpoint:     CheckpointConfig{Interval: time.Second, MaxChanges: 1000},
		Body:           "map",
		Format:         "watchlist",
		Events:         EventsConfig{Body: "message"},
		Entities:       EntitiesConfig{Format: "spec"},
		Redaction:      RedactionConfig{ConfigMaps: "fingerprint", Environment: "redact"},
		Suppress:       SuppressConfig{Noop: true},

		ObjectAttribute: "none", MaxRecordBytes: 1048576, DiffMaxBytes: 67108864, ResourceGrouping: "cluster",
		Queue: QueueConfig{MaxBytes: 16777216, DrainTimeout: 10 * time.Second},
		Batch: BatchConfig{MaxRecords: 500, MaxBytes: 524288, Timeout: 200 * time.Millisecond},

		Telemetry: TelemetryConfig{PerResourceLimit: 200},
	}
	assert.Equal(t, want, cfg)
	assert.Regexp(t, `^otelcol-k8s_watchlist/1\.2\.3 \(\w+/\w+\)$`, cfg.ClientOptions("1.2.3").UserAgent)
}

func TestEveryKey(t *testing.T) {
	cfg, err := loadConfig(t, "testdata/config/good/every_key.yaml")
	require.NoError(t, err)
	assert.Equal(t, kubeclient.Options{
		AuthType:    "kubeConfig",
		Kubeconfig:  "~/.kube/prod",
		Context:     "prod-eu-1",
		QPS:         20,
		Burst:       40,
		UserAgent:   "audit-collector/1.2",
		Compression: true,

		NoShardSelector: true,
	}, cfg.ClientOptions("1.2.3"))
	assert.Equal(t, ShardConfig{Total: 4, Index: 2, By: "namespace", Server: "off"}, cfg.Shard)
	assert.Equal(t, "prod-eu-1", cfg.ClusterName)
	assert.Equal(t, RelistConfig{Interval: 24 * time.Hour, Emit: "snapshot", RotateInterval: 10 * time.Minute}, cfg.Relist)
	assert.Equal(t, "file_storage/k8s", cfg.Storage.String())
	assert.Equal(t, LeaderElectionConfig{
		Enabled: true, LeaseName: "audit", LeaseNamespace: "observability", Identity: "replica-a",
		LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 5 * time.Second,
	}, cfg.LeaderElection)
	assert.Nil(t, cfg.K8sLeaderElector, "it excludes leader_election")
	assert.Equal(t, StandbyConfig{Mode: "cold", Progress: "observability/audit-positions", PublishInterval: 2 * time.Second, StepDownAfter: 5 * time.Minute}, cfg.Standby)
	assert.Equal(t, "skip", cfg.InitialState)
	assert.Equal(t, CheckpointConfig{Interval: 5 * time.Second, MaxChanges: 10000}, cfg.Checkpoint)
	assert.Equal(t, "summary", cfg.Body)
	assert.Equal(t, "json", cfg.ObjectAttribute)
	assert.Equal(t, 65536, cfg.MaxRecordBytes)
	assert.Equal(t, []string{"MODIFIED"}, cfg.ExcludeTypes)
	assert.Equal(t, "namespace", cfg.ResourceGrouping)
	assert.Equal(t, map[string]any{"service.name": "kubernetes", "shard": 3}, cfg.ResourceAttributes)
	assert.Equal(t, []string{"metadata.annotations.example.com/notes", "spec.template.spec.containers.*.env"}, cfg.Resources[3].DropFields)
	assert.Equal(t, []string{"spec", "status"}, cfg.Resources[3].KeepFields)
	assert.Equal(t, []string{"DELETED"}, cfg.Resources[3].ExcludeTypes)
	assert.Equal(t, "k8sobjects", cfg.Format)
	assert.True(t, cfg.StreamRecords)
	assert.Equal(t, "watchlist", cfg.Resources[3].Format)
	assert.Equal(t, EventsConfig{Body: "message", DedupInterval: 2 * time.Minute, Deleted: true}, cfg.Events)
	assert.True(t, cfg.PodIP)
	assert.Equal(t, RedactionConfig{
		ConfigMaps: "scan", Environment: "scan", FingerprintKey: "a-key-of-this-installation", MaskKeys: []string{"licenseText", "*_pin"},
		Keep: []RedactionKeepConfig{{
			Resource: "configmaps", Namespaces: []string{"monitoring"}, Names: []string{"grafana-dashboard-*"}, Paths: []string{"data.*"},
		}},
	}, cfg.Redaction)
	assert.Equal(t, SuppressConfig{Noop: true, Ignore: []SuppressIgnoreConfig{{
		Resource: "deployments", Paths: []string{"metadata.annotations.example.com/seen", "status.conditions.*.lastUpdateTime"},
	}}}, cfg.Suppress)
	assert.Equal(t, QueueConfig{MaxBytes: 33554432}, cfg.Queue)
	assert.Equal(t, BatchConfig{MaxRecords: 1000, MaxBytes: 1048576}, cfg.Batch)

	const rbac = "rbac.authorization.k8s.io"
	specs := []catalog.Spec{
		{GroupResource: schema.GroupResource{Group: rbac, Resource: "roles"}, GroupKnown: true, Key: "resources[0] (rbac)"},
		{GroupResource: schema.GroupResource{Group: rbac, Resource: "rolebindings"}, GroupKnown: true, Key: "resources[0] (rbac)"},
		{GroupResource: schema.GroupResource{Group: rbac, Resource: "clusterroles"}, GroupKnown: true, Key: "resources[0] (rbac)"},
		{GroupResource: schema.GroupResource{Group: rbac, Resource: "clusterrolebindings"}, GroupKnown: true, Key: "resources[0] (rbac)"},
		{GroupResource: schema.GroupResource{Resource: "endpoints"}, GroupKnown: true, Key: "resources[1] (endpoints)"},
		{GroupResource: schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, GroupKnown: true, Key: "resources[1] (endpoints)"},
		{
			GroupResource: schema.GroupResource{Resource: "pods"}, GroupKnown: true, Version: "v1", Namespaces: []string{"pay", "shop"},
			LabelSelector: "team in (web, api),!canary", FieldSelector: "status.phase!=Succeeded,spec.nodeName=n1",
			Key: "resources[2]",
		},
		{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, GroupKnown: true, Key: "resources[3]"},
		{GroupResource: schema.GroupResource{Resource: "events"}, GroupKnown: true, Namespaces: []string{"kube-system"}, Key: "resources[4]"},
		{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true, Version: "v1alpha1", Key: "resources[5]"},
		{
			Pattern:    catalog.ParsePattern("*.cert-manager.io").Excluding([]string{"*requests.cert-manager.io", "rbac"}, true),
			Namespaces: []string{"shop", "team-*"}, ExcludeNamespaces: []string{"team-test", "team-x-*"}, NamespaceLabels: "env=prod", Key: "resources[6]",
		},
	}
	for i := range specs {
		specs[i].Shard = shard.Shard{Index: 2, Total: 4, By: shard.Namespace}
	}
	assert.Equal(t, specs, cfg.Specs())
}

func TestEntitiesShortForm(t *testing.T) {
	cfg, err := loadConfig(t, "testdata/config/good/entities.yaml")
	require.NoError(t, err)
	assert.Equal(t, EntitiesConfig{Enabled: true, Format: "spec"}, cfg.Entities)
}

func TestShortForm(t *testing.T) {
	cfg, err := loadConfig(t, "testdata/config/good/short_form.yaml")
	require.NoError(t, err)
	assert.Equal(t, []ResourceConfig{
		{Name: "pods"}, {Name: "deployments.apps"}, {Name: "rbac"}, {Name: "services", Namespaces: []string{"shop"}},
	}, cfg.Resources)
}

func TestTLSWithoutCredentials(t *testing.T) {
	cfg, err := loadConfig(t, "testdata/config/good/tls.yaml")
	require.NoError(t, err)
	assert.Equal(t, kubeclient.TLS{
		CAFile: "/etc/ca.pem", CertFile: "/etc/cert.pem", KeyFile: "/etc/key.pem", ServerName: "kubernetes",
	}, cfg.ClientOptions("1.2.3").TLS)
}

// The bare name of a built-in resource means that resource, as with kubectl, whatever else is installed.
func TestBareBuiltinNames(t *testing.T) {
	for name, want := range map[string]string{
		"jobs": "jobs.batch", "networkpolicies": "networkpolicies.networking.k8s.io", "configmaps": "configmaps",
		"roles": "roles.rbac.authorization.k8s.io", "events": "events", "leases": "leases.coordination.k8s.io",
		"ipaddresses": "ipaddresses.networking.k8s.io", "jobs.batch.volcano.sh": "jobs.batch.volcano.sh",
	} {
		cfg := &Config{Resources: []ResourceConfig{{Name: name}}}
		assert.Equal(t, []catalog.Spec{{GroupResource: schema.ParseGroupResource(want), GroupKnown: true, Key: "resources[0]"}}, cfg.Specs())
	}
	cfg := &Config{Resources: []ResourceConfig{{Name: "widgets"}}}
	assert.Equal(t, []catalog.Spec{{GroupResource: schema.GroupResource{Resource: "widgets"}, Key: "resources[0]"}}, cfg.Specs(),
		"only the server knows its group")
}

func TestPresets(t *testing.T) {
	for name, want := range map[string][]string{
		"nodes":             {"nodes"},
		"pods":              {"pods"},
		"namespaces":        {"namespaces"},
		"persistentvolumes": {"persistentvolumes"},
		"services":          {"services"},
		"deployments":       {"deployments.apps"},
		"ingresses":         {"ingresses.networking.k8s.io"},
		"endpoints":         {"endpoints", "endpointslices.discovery.k8s.io"},
		"rbac": {
			"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
			"clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
		},
	} {
		var got []string
		r := ResourceConfig{Name: name}
		for _, s := range r.specs(0) {
			assert.True(t, s.GroupKnown)
			got = append(got, s.Name())
		}
		assert.Equal(t, want, got)
	}
	assert.Len(t, catalog.PresetNames(), 9)
}

// The feature gate allows tests to replace streams every few seconds.
func TestShortRelist(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Resources = []ResourceConfig{{Name: "pods"}}
	cfg.Relist = RelistConfig{Interval: 2 * time.Second, Emit: "snapshot", RotateInterval: time.Second}
	require.Error(t, cfg.Validate())

	gate := shortRelistGate
	require.NoError(t, featuregate.GlobalRegistry().Set(gate.ID(), true))
	t.Cleanup(func() { require.NoError(t, featuregate.GlobalRegistry().Set(gate.ID(), false)) })
	require.NoError(t, cfg.Validate())

	cfg.Relist.Interval, cfg.Relist.RotateInterval = -time.Second, -time.Second
	require.ErrorContains(t, cfg.Validate(), "relist.interval: -1s is less than 1h")
	require.ErrorContains(t, cfg.Validate(), "relist.rotate_interval: -1s is less than 1m")
}
