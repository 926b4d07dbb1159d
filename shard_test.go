package k8swatchlistreceiver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// loadShard loads the value of the key shard as the Collector does.
func loadShard(t *testing.T, value string) (*Config, error) {
	t.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte("{resources: [pods, nodes], shard: " + value + "}"))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	if err := conf.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestShardOfTheConfig(t *testing.T) {
	t.Setenv("POD_NAME", "otel-shards-2")
	for value, want := range map[string]shard.Shard{
		"{}":                                        {},
		"{total: 1}":                                {},
		"{total: 1, index: 0}":                      {},
		"{total: 1, index: auto}":                   {},
		"{total: 2, index: 1}":                      {Index: 1, Total: 2},
		"{total: 2, index: '1', by: uid}":           {Index: 1, Total: 2},
		"{total: 4, index: auto}":                   {Index: 2, Total: 4},
		"{total: 4, index: 0, by: namespace}":       {Index: 0, Total: 4, By: shard.Namespace},
		"{total: 4, index: auto, server: off}":      {Index: 2, Total: 4},
		"{total: 1024, index: 1023, by: namespace}": {Index: 1023, Total: 1024, By: shard.Namespace},
	} {
		cfg, err := loadShard(t, value)
		require.NoError(t, err, value)
		assert.Equal(t, want, cfg.Shard.shard(), value)
		for _, spec := range cfg.Specs() {
			assert.Equal(t, want, spec.Shard, value)
		}
		pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "").Of(want)
		assert.True(t, cfg.reads(pods), value)
		assert.NotNil(t, cfg.entryOf(pods), value)
		assert.False(t, cfg.reads(pods.Of(shard.Shard{Index: 0, Total: 7})), value)
	}
}

func TestShardIndexOfThePod(t *testing.T) {
	for name, want := range map[string]string{
		"otel-4":               "shard.index: auto gives 4 for POD_NAME \"otel-4\", which is not from 0 to 3: make shard.total the number of pods",
		"otel":                 "shard.index: auto needs a name that ends in a dash and a number, as those of the pods of a StatefulSet; POD_NAME is \"otel\"",
		"otel-6d4cf56db6-l74v": "shard.index: auto needs a name that ends in a dash and a number, as those of the pods of a StatefulSet; POD_NAME is \"otel-6d4cf56db6-l74v\"",
		"3":                    "shard.index: auto needs a name that ends in a dash and a number, as those of the pods of a StatefulSet; POD_NAME is \"3\"",
		"otel-":                "shard.index: auto needs a name that ends in a dash and a number, as those of the pods of a StatefulSet; POD_NAME is \"otel-\"",
	} {
		t.Setenv("POD_NAME", name)
		_, err := loadShard(t, "{total: 4, index: auto}")
		require.EqualError(t, err, want)
	}
}
