package k8swatchlistreceiver

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover"
)

// spanTakeover covers one try to lead.
const spanTakeover = "k8s_watchlist.takeover"

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

// takeoverSpan covers how a replica becomes the leader.
type takeoverSpan struct{ trace.Span }

func (x *replica) startTakeover(ctx context.Context) takeoverSpan {
	_, span := metadata.Tracer(x.set.TelemetrySettings).Start(ctx, spanTakeover, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("receiver", x.set.ID.String()), attribute.String("identity", x.identity)))
	return takeoverSpan{span}
}

// failed ends the span of a try that may be repeated.
func (s takeoverSpan) failed(ctx context.Context, err error) {
	outcome := "failed"
	if errors.Is(err, takeover.ErrTermOver) || ctx.Err() != nil {
		outcome = "cancelled"
	} else {
		s.SetStatus(codes.Error, servertext.Clean(err.Error()))
	}
	s.SetAttributes(attribute.String("outcome", outcome))
	s.End()
}

// complete ends the span of a replica that leads, after another one or as the first. Some of its readers continue from a position
// that was published, and others begin anew.
func (s takeoverSpan) complete(term int, previous string, continued, anew int) {
	s.SetAttributes(attribute.String("outcome", "complete"), attribute.Int("term", term), attribute.String("previous", previous),
		attribute.Int("continued", continued), attribute.Int("anew", anew))
	s.End()
}
