package harness

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otlp"
)

// RawRecord is a log record with everything sent along with it, from any receiver.
type RawRecord struct {
	Resource       map[string]any
	ResourceSchema string

	ScopeName       string
	ScopeVersion    string
	ScopeSchema     string
	ScopeAttributes map[string]any

	EventName    string
	Severity     plog.SeverityNumber
	SeverityText string
	Timestamp    time.Time // zero if it is not set
	Observed     time.Time
	Attributes   map[string]any
	Body         any
}

// RawSink is an OTLP server on loopback that keeps every record as it was received.
type RawSink struct {
	changes
	*otlp.Sink

	mu  sync.Mutex
	all []RawRecord
}

// StartRawSink starts a sink that ends with the test.
func StartRawSink(t testing.TB) *RawSink {
	t.Helper()
	return StartDenyingSink(t, func(RawRecord) bool { return false })
}

// StartDenyingSink starts a sink that permanently refuses each request with a record that it denies.
func StartDenyingSink(t testing.TB, denies func(RawRecord) bool) *RawSink {
	t.Helper()
	s := &RawSink{}
	var err error
	s.Sink, err = otlp.Listen("127.0.0.1:0", func(_ context.Context, logs plog.Logs) error {
		records := rawRecords(logs)
		if slices.ContainsFunc(records, denies) {
			return status.Error(codes.InvalidArgument, "such records are not accepted here")
		}
		s.add(records)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func rawRecords(logs plog.Logs) []RawRecord {
	var all []RawRecord
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				all = append(all, RawRecord{
					Resource:        resource.Resource().Attributes().AsRaw(),
					ResourceSchema:  resource.SchemaUrl(),
					ScopeName:       scope.Scope().Name(),
					ScopeVersion:    scope.Scope().Version(),
					ScopeSchema:     scope.SchemaUrl(),
					ScopeAttributes: scope.Scope().Attributes().AsRaw(),
					EventName:       record.EventName(),
					Severity:        record.SeverityNumber(),
					SeverityText:    record.SeverityText(),
					Timestamp:       timeOrZero(record.Timestamp().AsTime()),
					Observed:        timeOrZero(record.ObservedTimestamp().AsTime()),
					Attributes:      record.Attributes().AsRaw(),
					Body:            record.Body().AsRaw(),
				})
			}
		}
	}
	return all
}

func (s *RawSink) add(records []RawRecord) {
	s.mu.Lock()
	s.all = append(s.all, records...)
	s.mu.Unlock()
	s.happened()
}

// timeOrZero returns the zero time for the beginning of 1970, which means "no time" in OTLP.
func timeOrZero(t time.Time) time.Time {
	if t.UnixNano() == 0 {
		return time.Time{}
	}
	return t
}

// All returns the records received so far.
func (s *RawSink) All() []RawRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[:len(s.all):len(s.all)]
}

// Await waits until nothing is missing from the records.
func (s *RawSink) Await(t testing.TB, within time.Duration, what string, missing func([]RawRecord) string) {
	t.Helper()
	s.await(t, within, what, func() string { return missing(s.All()) })
}
