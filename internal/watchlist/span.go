package watchlist

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
)

// Names of spans. Each covers one try.
const (
	spanInitial = "k8s_watchlist.initial"
	spanRecover = "k8s_watchlist.recover"
	spanRelist  = "k8s_watchlist.relist"
)

// span covers one try at reading a snapshot. It belongs to the reader's goroutine.
type span struct {
	trace.Span
	stream  *stream      // nil: not opened yet
	objects int          // received
	found   *lostHistory // the differences that were emitted; nil: the initial state, or nothing was compared yet
	repeats bool         // the same is read again with whole objects
	over    bool         // err says how it ended
	err     error
}

func (r *Reader) startSpan(ctx context.Context, name string, attributes ...attribute.KeyValue) *span {
	if r.StartSpan == nil {
		return &span{Span: trace.SpanFromContext(context.Background())} // one that records nothing
	}
	return &span{Span: r.StartSpan(ctx, name, attributes...)}
}

// startSnapshotSpan starts the span of a snapshot without a live stream.
func (r *Reader) startSnapshotSpan(ctx context.Context) *span {
	if r.position.none() || r.lost == nil {
		return r.startSpan(ctx, spanInitial)
	}
	var s *span
	if r.lost.reason == reasonRelist { // of what cannot be watched
		s = r.startSpan(ctx, spanRelist, attribute.Bool("metadata_only", false))
	} else {
		s = r.startSpan(ctx, spanRecover, attribute.String("reason", r.lost.reason))
	}
	s.found = r.lost
	return s
}

// ends notes how the try ended.
func (s *span) ends(err error) { s.over, s.err = true, err }

// finish ends the span. Further calls do nothing.
func (s *span) finish() {
	if !s.IsRecording() {
		return
	}
	outcome := s.outcome()
	attributes := []attribute.KeyValue{attribute.String("outcome", outcome)}
	if s.stream != nil {
		attributes = append(attributes, attribute.Bool("listed", s.stream.listed),
			attribute.Int("objects", s.objects), attribute.Int64("bytes", s.stream.bytes))
	}
	if l := s.found; l != nil {
		attributes = append(attributes, attribute.Int("found.added", l.added), attribute.Int("found.modified", l.modified),
			attribute.Int("found.deleted", l.deleted+l.vanished), attribute.Int("found.unchanged", l.unchanged))
	}
	if outcome == "failed" {
		attributes = append(attributes, attribute.String("error.type", endReason(s.err)))
		s.SetStatus(codes.Error, servertext.Clean(s.err.Error()))
	}
	s.SetAttributes(attributes...)
	s.End()
}

func (s *span) outcome() string {
	switch {
	case s.repeats:
		return "repeated"
	case !s.over:
		return "abandoned" // the live stream ended, or the reader does
	case s.err == nil:
		return "complete"
	case isOwnEnd(s.err):
		return "cancelled"
	case errors.Is(s.err, errQueueFull):
		return "paused"
	case errors.Is(s.err, errRelistDue):
		return "snapshot_needed"
	}
	return "failed"
}
