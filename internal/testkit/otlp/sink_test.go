package otlp

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, s *Sink) plogotlp.GRPCClient {
	t.Helper()
	connection, err := grpc.NewClient(s.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return plogotlp.NewGRPCClient(connection)
}

func request(records int) plogotlp.ExportRequest {
	logs := plog.NewLogs()
	scope := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
	for range records {
		scope.LogRecords().AppendEmpty()
	}
	return plogotlp.NewExportRequestFromLogs(logs)
}

func TestAnswers(t *testing.T) {
	var answer error
	var got int
	s, err := Listen("127.0.0.1:0", func(_ context.Context, logs plog.Logs) error {
		got = logs.LogRecordCount()
		return answer
	})
	if err != nil {
		t.Fatal(err)
	}
	client := dial(t, s)
	for _, test := range []struct {
		answer error
		code   codes.Code
	}{
		{nil, codes.OK},
		{errors.New("not now"), codes.Unavailable},
		{status.Error(codes.InvalidArgument, "never"), codes.InvalidArgument},
	} {
		answer, got = test.answer, 0
		_, err := client.Export(t.Context(), request(3))
		if status.Code(err) != test.code || got != 3 {
			t.Errorf("%v is answered by %v, after %d records", test.answer, err, got)
		}
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// Stop ends a request in progress, and returns after its handler.
func TestStopWaitsForHandlers(t *testing.T) {
	entered, left := make(chan struct{}), false
	s, err := Listen("127.0.0.1:0", func(ctx context.Context, _ plog.Logs) error {
		close(entered)
		<-ctx.Done()
		left = true
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	client := dial(t, s)
	refused := make(chan error, 1)
	go func() {
		_, err := client.Export(context.Background(), request(1))
		refused <- err
	}()
	<-entered
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if !left {
		t.Error("it has stopped before its handler")
	}
	if err := <-refused; status.Code(err) != codes.Unavailable {
		t.Errorf("the request ended with %v", err)
	}

	// Its address can be reused.
	again, err := Listen(s.Address(), func(context.Context, plog.Logs) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Stop(); err != nil {
		t.Error(err)
	}
}
