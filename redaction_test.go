package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
)

func redactionConfig(t *testing.T, section map[string]any) *Config {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"resources": []any{map[string]any{"name": "pods"}},
		"redaction": section,
	}).Unmarshal(cfg))
	return cfg
}

func TestRedactionConfig(t *testing.T) {
	cfg := redactionConfig(t, map[string]any{
		"configmaps": "scan", "environment": "scan", "fingerprint_key": "0123456789abcdef",
		"mask_keys": []any{"licenseText", "*_pin"},
		"keep": []any{
			map[string]any{"resource": "configmaps", "namespaces": []any{"monitoring"}, "names": []any{"grafana-dashboard-*"}, "paths": []any{"data.*"}},
			map[string]any{"resource": "deployments", "paths": []any{"spec.template.spec.containers.*.env.LOG_LEVEL"}},
		},
	})
	require.NoError(t, cfg.Validate())
	o := cfg.Redaction.options()
	assert.Len(t, o.Keep, 2)
	assert.Equal(t, "apps", o.Keep[1].Group, "a preset names its resource")
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg), "0123456789abcdef")
	require.NoError(t, redactionConfig(t, nil).Validate())
}

func TestRedactionConfigMistakes(t *testing.T) {
	keep := func(entry map[string]any) map[string]any { return map[string]any{"keep": []any{entry}} }
	for want, section := range map[string]map[string]any{
		`redaction.configmaps: "none" is not one of fingerprint, scan, keep`: {"configmaps": "none"},
		`redaction.environment: "keep" is not one of redact, scan`:           {"environment": "keep"},
		`redaction.fingerprint_key: has 5 characters, fewer than 16`:         {"fingerprint_key": "short"},
		`redaction.mask_keys[0]: "*" names no key`:                           {"mask_keys": []any{"*"}},
		`redaction.keep[0].resource: values of Secrets are always masked`:    keep(map[string]any{"resource": "secrets", "paths": []any{"data.x"}}),
		`redaction.keep[0].resource: is missing`:                             keep(map[string]any{"paths": []any{"data.x"}}),
		`redaction.keep[0].paths: is missing`:                                keep(map[string]any{"resource": "pods"}),
		`redaction.keep[0].paths[0]: "*" would keep whole objects`:           keep(map[string]any{"resource": "pods", "paths": []any{"*"}}),
		`redaction.keep[0].paths[0]: "*.env" would keep whole objects`:       keep(map[string]any{"resource": "pods", "paths": []any{"*.env"}}),
		`redaction.keep[0].paths[0]: "a..b" has an empty part`:               keep(map[string]any{"resource": "pods", "paths": []any{"a..b"}}),
		`redaction.keep[0].names[0]: is empty`:                               keep(map[string]any{"resource": "pods", "names": []any{""}, "paths": []any{"a"}}),
		`redaction.keep[0].resource: "Pod"`:                                  keep(map[string]any{"resource": "Pod", "paths": []any{"a"}}),
	} {
		assert.ErrorContains(t, redactionConfig(t, section).Validate(), want)
	}
}

func newTestReceiver(t *testing.T, cfg *Config) *watchlistReceiver {
	t.Helper()
	r, err := newReceiver(cfg, receivertest.NewNopSettings(metadata.Type), nil)
	require.NoError(t, err)
	return r.(*watchlistReceiver)
}

// The key of the fingerprints is created once for an installation, so that a rotation is visible across restarts too.
func TestFingerprintKeyIsKept(t *testing.T) {
	id := component.MustNewID("storage")
	cfg := redactionConfig(t, nil)
	cfg.Storage = &id
	extension := memstorage.New()
	host := storageHost{extension: extension}
	fingerprint := func() (string, bool) {
		policy, isPerProcess := newTestReceiver(t, cfg).newRedaction(t.Context(), host)
		obj, _, err := policy.Plan("", "secrets", nil).Decode([]byte(`{"kind":"Secret","data":{"a":"c2VjcmV0"}}`))
		require.NoError(t, err)
		return obj.JSON, isPerProcess
	}
	first, isPerProcess := fingerprint()
	assert.False(t, isPerProcess)
	again, _ := fingerprint()
	assert.Equal(t, first, again)

	extension.Fail(errors.New("disk is full"))
	other, isPerProcess := fingerprint()
	assert.True(t, isPerProcess, "reading continues with a key of the process")
	assert.NotEqual(t, first, other)

	cfg.Redaction.FingerprintKey = "0123456789abcdef"
	_, isPerProcess = fingerprint()
	assert.False(t, isPerProcess)
	cfg.Redaction.FingerprintKey, cfg.Storage = "", nil
	_, isPerProcess = fingerprint()
	assert.True(t, isPerProcess)
}
