package k8swatchlistreceiver

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

func suppressConfig(t *testing.T, section map[string]any) *Config {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"resources": []any{map[string]any{"name": "pods"}},
		"suppress":  section,
	}).Unmarshal(cfg))
	return cfg
}

func TestSuppressConfig(t *testing.T) {
	cfg := suppressConfig(t, nil)
	require.NoError(t, cfg.Validate())
	assert.True(t, cfg.Suppress.Noop)
	assert.Equal(t, redact.UsuallyIgnored, cfg.Suppress.ignored())

	cfg = suppressConfig(t, map[string]any{"noop": false})
	require.NoError(t, cfg.Validate())
	assert.Empty(t, cfg.Suppress.ignored(), "then every change counts")

	cfg = suppressConfig(t, map[string]any{"ignore": []any{
		map[string]any{"resource": "rbac", "paths": []any{"metadata.annotations.example.com/seen"}},
		map[string]any{"resource": "things.example.com", "paths": []any{"status.lastSyncTime", "status.conditions.*.lastProbeTime"}},
	}})
	require.NoError(t, cfg.Validate())
	assert.True(t, cfg.Suppress.Noop)
	ignored := cfg.Suppress.ignored()
	assert.Len(t, ignored, len(redact.UsuallyIgnored)+4+1, "a preset stands for its resources")
	assert.True(t, slices.ContainsFunc(ignored, func(i redact.Ignored) bool {
		return i.Group == "rbac.authorization.k8s.io" && i.Resource == "clusterroles" && i.Paths[0] == "metadata.annotations.example.com/seen"
	}))
	assert.Equal(t, redact.Ignored{Group: "example.com", Resource: "things", Paths: []string{"status.lastSyncTime", "status.conditions.*.lastProbeTime"}}, ignored[len(ignored)-1])
}

func TestSuppressConfigMistakes(t *testing.T) {
	ignore := func(resource string, paths ...any) map[string]any {
		return map[string]any{"ignore": []any{map[string]any{"resource": resource, "paths": paths}}}
	}
	off := ignore("pods", "status.x")
	off["noop"] = false
	for want, section := range map[string]map[string]any{
		`suppress.ignore: is of no use with noop: false`:                            off,
		`suppress.ignore[0].resource: is missing`:                                   ignore("", "status.x"),
		`suppress.ignore[0].resource: "Pod"`:                                        ignore("Pod", "status.x"),
		`suppress.ignore[0].paths: is missing`:                                      ignore("pods"),
		`suppress.ignore[0].paths[0]: "*" would ignore parts of everything`:         ignore("pods", "*"),
		`suppress.ignore[0].paths[0]: "*.time" would ignore parts of everything`:    ignore("pods", "*.time"),
		`suppress.ignore[0].paths[1]: "status..x" has an empty part`:                ignore("pods", "status.x", "status..x"),
		`suppress.ignore[0].paths[0]: ".status.x" has an empty part`:                ignore("pods", ".status.x"),
		`suppress.ignore[0].paths[0]: "" has an empty part`:                         ignore("pods", ""),
		`suppress.ignore[0].paths[0]: "status.conditions[*].x" has brackets; write`: ignore("pods", "status.conditions[*].x"),
		`suppress.ignore[0].paths[0]: "/status/x" begins with a slash; write`:       ignore("pods", "/status/x"),
	} {
		assert.ErrorContains(t, suppressConfig(t, section).Validate(), want)
	}
}
