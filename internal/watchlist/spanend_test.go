package watchlist

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// The error of a span quotes no object and no secret, and a span ends once.
func TestErrorOfASpanIsRedacted(t *testing.T) {
	telemetry := componenttest.NewTelemetry()
	r, _ := loggingReader()
	r.StartSpan = func(ctx context.Context, name string, _ ...attribute.KeyValue) trace.Span {
		_, span := telemetry.NewTelemetrySettings().TracerProvider.Tracer("test").Start(ctx, name)
		return span
	}
	s := r.startSnapshotSpan(t.Context())
	s.ends(fmt.Errorf(`cannot decode {"kind":"Secret","data":{"a":"aHVudGVyMg=="}}: %s`, strings.Repeat("x", 5000)))
	s.finish()
	s.finish()
	ended := telemetry.SpanRecorder.Ended()
	require.Len(t, ended, 1)
	assert.Equal(t, spanInitial, ended[0].Name())
	assert.NotContains(t, ended[0].Status().Description, "Secret")
	assert.NotContains(t, ended[0].Status().Description, "aHVudGVyMg")
	assert.Less(t, len(ended[0].Status().Description), 1000)
	assert.Contains(t, ended[0].Status().Description, "cannot decode")
}

// Without a tracer, a span costs next to nothing.
func TestSpanOfNobody(t *testing.T) {
	r, _ := loggingReader()
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		s := r.startSnapshotSpan(t.Context())
		s.AddEvent("slot held")
		s.ends(nil)
		s.finish()
	}), 1.0)
}
