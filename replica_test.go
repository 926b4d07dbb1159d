package k8swatchlistreceiver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
)

// The Collector takes a receiver that has reported nothing when Start returns for one that is well. A readiness probe must not
// find a standby well before it is ready, not even for a moment: a rolling update would go on.
func TestStandbyIsNotReadyFromTheStart(t *testing.T) {
	cfg := podsConfig(newPodServer(t).URL)
	cfg.LeaderElection.Enabled, cfg.LeaderElection.LeaseNamespace = true, "observability"
	r, err := NewFactory().CreateLogs(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	host := &statusHost{Host: componenttest.NewNopHost()}
	require.NoError(t, r.Start(t.Context(), host))
	status := host.last()
	require.NoError(t, r.Shutdown(context.Background()))
	require.NotNil(t, status, "nothing is reported")
	assert.Equal(t, componentstatus.StatusRecoverableError, status.Status())
	assert.ErrorIs(t, status.Err(), errNotReady)
}
