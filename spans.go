package k8swatchlistreceiver

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// startSpan returns a function that starts spans about the reading of a scope.
func (r *watchlistReceiver) startSpan(of scope.Scope) func(context.Context, string, ...attribute.KeyValue) trace.Span {
	tracer := metadata.Tracer(r.set.TelemetrySettings)
	always := []attribute.KeyValue{attribute.String("receiver", r.set.ID.String())}
	for _, field := range of.LogFields() {
		always = append(always, attribute.String(field.Key, field.String))
	}
	return func(ctx context.Context, name string, attributes ...attribute.KeyValue) trace.Span {
		_, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(slices.Concat(always, attributes)...))
		return span
	}
}
