package collector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

const two = `
receivers:
  k8s_watchlist:
    resources: [pods]
  k8s_watchlist/second:
    cluster_name: ${env:NO_SUCH_VARIABLE}
    resources: [{name: rbac, namespaces: ["${env:SHOP}"]}, deployments]
  k8s_watchlist/unused: {resources: [nodes]}
  otlp: {protocols: {grpc: }}
`

const service = `
service:
  pipelines:
    logs: {receivers: [k8s_watchlist, otlp]}
    logs/two: {receivers: [k8s_watchlist/second]}
`

func load1(t *testing.T, text string, ids ...string) ([]string, []string, error) {
	t.Helper()
	core, lines := observer.New(zapcore.WarnLevel)
	receivers, err := Load(t.Context(), []string{"-"}, strings.NewReader(text), ids, zap.New(core))
	var found, warnings []string
	for _, r := range receivers {
		var names []string
		for _, spec := range r.Config.Specs() {
			names = append(names, strings.Join(append([]string{spec.Name()}, spec.Namespaces...), " in "))
		}
		found = append(found, r.ID.String()+": "+strings.Join(names, ", "))
	}
	for _, line := range lines.All() {
		warnings = append(warnings, line.Message)
	}
	return found, warnings, err
}

func TestLoad(t *testing.T) {
	t.Setenv("SHOP", "shop")
	text := strings.Replace(two, "name: rbac", "name: services", 1)
	found, warnings, err := load1(t, text+service)
	require.NoError(t, err)
	assert.Equal(t, []string{"k8s_watchlist: pods", "k8s_watchlist/second: services in shop, deployments.apps"}, found)
	assert.Len(t, warnings, 2, "an unset variable and an unused receiver: %v", warnings)

	found, _, err = load1(t, text)
	require.NoError(t, err)
	assert.Len(t, found, 3, "without a service all are returned")

	found, warnings, err = load1(t, text+service, "k8s_watchlist/unused")
	require.NoError(t, err)
	assert.Equal(t, []string{"k8s_watchlist/unused: nodes"}, found)
	assert.NotContains(t, strings.Join(warnings, " "), "no pipeline")
}

func TestLoadMergesLocations(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "collector.yaml")
	require.NoError(t, os.WriteFile(file, []byte("receivers: {k8s_watchlist: {resources: [pods]}}"), 0o600))
	receivers, err := Load(t.Context(), []string{file, "yaml:receivers::k8s_watchlist::cluster_name: demo"}, nil, nil, zap.NewNop())
	require.NoError(t, err)
	require.Len(t, receivers, 1)
	assert.Equal(t, "demo", receivers[0].Config.ClusterName)
	assert.Len(t, receivers[0].Config.Resources, 1)
}

func TestLoadReportsMistakes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text, want string
		ids        []string
	}{
		"no YAML":             {text: "{", want: "cannot read the configuration"},
		"no receivers":        {text: "exporters: {nop: }", want: "has no k8s_watchlist receiver"},
		"others only":         {text: "receivers: {otlp: }", want: "has no k8s_watchlist receiver"},
		"receivers is a list": {text: "receivers: [k8s_watchlist]", want: "receivers is not a map"},
		"unknown id":          {text: two, ids: []string{"k8s_watchlist/third"}, want: `no k8s_watchlist receiver "k8s_watchlist/third"`},
		"empty":               {text: "receivers: {k8s_watchlist: }", want: "receivers::k8s_watchlist: resources: is empty"},
		"unknown key":         {text: "receivers: {k8s_watchlist: {resource: [pods]}}", want: "resource"},
		"bad value":           {text: "receivers: {k8s_watchlist: {resources: [Pod]}}", want: "resources[0].name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := load1(t, test.text, test.ids...)
			assert.ErrorContains(t, err, test.want)
		})
	}
}

// An environment variable is a text, and the index of a shard a number.
func TestShardFromTheEnvironment(t *testing.T) {
	t.Setenv("SHARDS", "4")
	t.Setenv("SHARD_INDEX", "3")
	t.Setenv("POD_NAME", "otel-shards-2")
	const text = `
receivers:
  k8s_watchlist: {resources: [pods], shard: {total: "${env:SHARDS}", index: "${env:SHARD_INDEX}"}}
  k8s_watchlist/second: {resources: [pods], shard: {total: 4, index: auto, server: off}}
` + service
	receivers, err := Load(t.Context(), []string{"-"}, strings.NewReader(text), nil, zap.NewNop())
	require.NoError(t, err)
	require.Len(t, receivers, 2)
	assert.Equal(t, "3 of 4", receivers[0].Config.ShardText())
	assert.Equal(t, "2 of 4", receivers[1].Config.ShardText())
}
