package k8swatchlistreceiver

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/telemetry.md explains every metric, and only existing ones.
func TestEveryMetricIsExplained(t *testing.T) {
	metadata, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	explanation, err := os.ReadFile("docs/telemetry.md")
	require.NoError(t, err)
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_]+`(?:, `[a-z_]+`)*) \\|").FindAllSubmatch(explanation, -1) {
		for _, name := range regexp.MustCompile(`[a-z_]+`).FindAllString(string(row[1]), -1) {
			explained[name] = true
		}
	}
	exists := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^    k8s_watchlist_(\w+):$`).FindAllSubmatch(metadata, -1) {
		exists[string(found[1])] = true
	}
	assert.Equal(t, exists, explained)
}
