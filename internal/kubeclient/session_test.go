package kubeclient

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestFingerprintDependsOnURLAndAuthority(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	fingerprint := func(cfg *rest.Config) string {
		t.Helper()
		c, err := New(cfg)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c.Fingerprint()
	}
	here := fingerprint(&rest.Config{Host: "http://127.0.0.1:8001"})
	assert.Equal(t, here, fingerprint(&rest.Config{Host: "http://127.0.0.1:8001", BearerToken: "other"}))
	assert.NotEqual(t, here, fingerprint(&rest.Config{Host: "http://127.0.0.1:8002"}))

	// The file is read again: its content is checked whenever a checkpoint is written.
	one, _ := identity(t, "one")
	other, _ := identity(t, "other")
	require.NoError(t, os.WriteFile(file, one, 0o600))
	c, err := New(&rest.Config{Host: "https://127.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAFile: file}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	first := c.Fingerprint()
	assert.Equal(t, first, fingerprint(&rest.Config{Host: "https://127.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: one}}))
	require.NoError(t, os.WriteFile(file, other, 0o600))
	assert.NotEqual(t, first, c.Fingerprint())
	require.NoError(t, os.Remove(file))
	assert.Empty(t, c.Fingerprint())
}
