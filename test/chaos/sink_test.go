package chaos

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// send sends one record to the sink as the first life of a Collector.
func send(t *testing.T, s *Sink, within time.Duration) error {
	t.Helper()
	connection, err := grpc.NewClient(s.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close() //nolint:errcheck // it is no longer needed
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), lifeHeader, "1"), within)
	defer cancel()
	logs := plog.NewLogs()
	logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().SetEventName("k8s.watch.gap")
	_, err = plogotlp.NewGRPCClient(connection).Export(ctx, plogotlp.NewExportRequestFromLogs(logs))
	return err
}

func requireStored(t *testing.T, s *Sink, doubts ...bool) {
	t.Helper()
	batches := s.Batches()
	if len(batches) != len(doubts) {
		t.Fatalf("%d batches are stored, want %d", len(batches), len(doubts))
	}
	for i, batch := range batches {
		if (batch.Doubt != "") != doubts[i] || batch.Life != 1 || len(batch.Records) != 1 {
			t.Errorf("batch %d: %+v, want doubt: %t", i, *batch, doubts[i])
		}
	}
}

func TestSinkRefusesForTheTimeBeing(t *testing.T) {
	s := StartSink(t, false)
	s.behave(unavailable)
	if err := send(t, s, time.Minute); status.Code(err) != codes.Unavailable {
		t.Errorf("answer: %v", err)
	}
	s.behave(exhausted)
	err := send(t, s, time.Minute)
	if status.Code(err) != codes.ResourceExhausted || len(status.Convert(err).Details()) != 1 {
		t.Errorf("answer: %v, details %v", err, status.Convert(err).Details())
	}
	requireStored(t, s)
	s.behave(accepting)
	if err := send(t, s, time.Minute); err != nil {
		t.Error(err)
	}
	requireStored(t, s, false)
}

func TestSinkLosesAnswers(t *testing.T) {
	s := StartSink(t, false)
	s.behave(losingAnswer)
	if err := send(t, s, time.Minute); status.Code(err) != codes.Unavailable {
		t.Errorf("answer: %v", err)
	}
	requireStored(t, s, true)
}

func TestSinkBlocks(t *testing.T) {
	s := StartSink(t, false)
	s.behave(blocking)
	switch err := send(t, s, 200*time.Millisecond); status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable: // depending on who notices it first
	default:
		t.Errorf("answer: %v", err)
	}
	s.behave(accepting)
	requireStored(t, s)
}

func TestSinkKilledBeforeItsAnswer(t *testing.T) {
	s := StartSink(t, false)
	s.behave(unanswering)
	answer := make(chan error)
	go func() { answer <- send(t, s, time.Minute) }()
	if !s.AwaitStored(t.Context(), time.Minute) {
		t.Fatal("nothing was stored")
	}
	s.Kill()
	if err := <-answer; err == nil {
		t.Error("it has answered")
	}
	s.behave(accepting)
	s.Start(t)
	if err := send(t, s, time.Minute); err != nil {
		t.Error(err)
	}
	requireStored(t, s, true, false)
}
