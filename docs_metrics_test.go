package k8swatchlistreceiver

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// docs/telemetry.md explains every metric, and only existing ones.
func TestEveryMetricIsExplained(t *testing.T) {
	metadata, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	explanation, err := os.ReadFile("docs/telemetry.md")
	require.NoError(t, err)
	explanation, _, _ = bytes.Cut(explanation, []byte("\n## Spans\n"))
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

// It does the same for every span, and its attributes and outcomes.
func TestEverySpanIsExplained(t *testing.T) {
	exists := map[string]bool{}
	for _, field := range scope.New(schema.GroupResource{}, "shop", "a=b", "a=b").In(scope.Namespaces{Include: []string{"a*"}}).Of(shard.Shard{Index: 1, Total: 2}).LogFields() {
		exists[field.Key] = true
	}
	exists["namespaces"] = true // instead of the namespace
	files, err := filepath.Glob("internal/watchlist/*.go")
	require.NoError(t, err)
	for _, file := range append(files, "spans.go") {
		code, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?:attribute\.[A-Z]\w+\(|span\w+ += )"([a-z0-9_.]+)"`).FindAllSubmatch(code, -1) {
			exists[string(found[1])] = true
		}
		if _, outcomes, ok := bytes.Cut(code, []byte("(s *span) outcome() string")); ok {
			for _, found := range regexp.MustCompile(`return "(\w+)"`).FindAllSubmatch(outcomes, -1) {
				exists[string(found[1])] = true
			}
		}
	}
	text, err := os.ReadFile("docs/telemetry.md")
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("\n## Spans\n"))
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllSubmatch(text, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(row[1], -1) {
			explained[string(name[1])] = true
		}
	}
	assert.Equal(t, slices.Sorted(maps.Keys(exists)), slices.Sorted(maps.Keys(explained)))
}
