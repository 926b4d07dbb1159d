package watchlist_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// spans records the spans of a scenario.
type spans struct{ *componenttest.Telemetry }

func recordSpans() spans { return spans{componenttest.NewTelemetry()} }

func (s spans) start(ctx context.Context, name string, attributes ...attribute.KeyValue) trace.Span {
	_, span := s.NewTelemetrySettings().TracerProvider.Tracer("test").Start(ctx, name, trace.WithAttributes(attributes...))
	return span
}

// check requires that every span ended once and has what every span has, and returns them, each as one line.
func (s spans) check(t *testing.T) (lines []string) {
	t.Helper()
	assert.Len(t, s.SpanRecorder.Ended(), len(s.SpanRecorder.Started()), "spans that did not end, or ended twice")
	for _, span := range s.SpanRecorder.Ended() {
		all := map[string]string{}
		for _, a := range span.Attributes() {
			all[string(a.Key)] = a.Value.String()
		}
		line := strings.TrimPrefix(span.Name(), "k8s_watchlist.") + " " + all["outcome"]
		for _, key := range []string{"reason", "error.type"} {
			if all[key] != "" {
				line += " " + all[key]
			}
		}
		if all["objects"] != "" {
			line += " of " + all["objects"]
		}
		if all["found.added"] != "" {
			line += fmt.Sprintf(" +%s ~%s -%s =%s", all["found.added"], all["found.modified"], all["found.deleted"], all["found.unchanged"])
		}
		lines = append(lines, line)

		outcomes := []string{"complete", "failed", "cancelled", "paused", "abandoned", "repeated", "snapshot_needed"}
		assert.Contains(t, outcomes, all["outcome"], line)
		failed := all["outcome"] == "failed"
		assert.Equal(t, failed, span.Status().Code == codes.Error, line)
		assert.Equal(t, failed, all["error.type"] != "" && span.Status().Description != "", line)
		if all["outcome"] == "complete" {
			assert.NotEmpty(t, all["objects"], line)
			assert.NotEmpty(t, all["bytes"], line)
			assert.Equal(t, span.Name() != "k8s_watchlist.initial", all["found.added"] != "", line)
		}
		names := []string{"k8s_watchlist.initial", "k8s_watchlist.relist", "k8s_watchlist.recover"}
		assert.True(t, slices.Contains(names, span.Name()), line)
	}
	return lines
}
