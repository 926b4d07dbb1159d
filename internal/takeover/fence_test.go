package takeover

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
)

// blocking is a consumer that accepts a batch after a while, unless the call ends.
func blocking(t *testing.T, after time.Duration) consumer.Logs {
	t.Helper()
	next, err := consumer.NewLogs(func(ctx context.Context, _ plog.Logs) error {
		select {
		case <-time.After(after):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	require.NoError(t, err)
	return next
}

// A call of the consumer ends when the leadership does, unless that is proved again in the meantime.
func TestFence(t *testing.T) {
	const proof = 10 * time.Second
	for name, c := range map[string]struct {
		takes    time.Duration
		renewals int
		err      error
		ends     time.Duration
		fenced   int
	}{
		"in time":       {takes: 5 * time.Second, ends: 5 * time.Second},
		"too long":      {takes: time.Minute, err: errFenced, ends: proof, fenced: 1},
		"proved again":  {takes: 25 * time.Second, renewals: 4, ends: 25 * time.Second},
		"then too long": {takes: time.Minute, renewals: 4, err: errFenced, ends: 4*5*time.Second + proof, fenced: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var deadline atomic.Pointer[time.Time]
				prove := func() { at := time.Now().Add(proof); deadline.Store(&at) }
				prove()
				for n := range c.renewals {
					time.AfterFunc(time.Duration(n+1)*5*time.Second, prove)
				}
				fenced := 0
				f := Fence{
					Next:     blocking(t, c.takes),
					Deadline: func() (time.Time, bool) { at := *deadline.Load(); return at, time.Now().Before(at) },
					Fenced:   func() { fenced++ },
				}
				err := f.ConsumeLogs(t.Context(), plog.NewLogs())
				require.ErrorIs(t, err, c.err)
				assert.InDelta(t, c.ends.Seconds(), time.Since(began).Seconds(), 0.01)
				assert.Equal(t, c.fenced, fenced)
			})
		})
	}
}

// Nothing reaches the consumer without a proof of the leadership, or after the end of the caller's context.
func TestFenceIsClosed(t *testing.T) {
	sink := &consumertest.LogsSink{}
	leads := false
	f := Fence{Next: sink, Deadline: func() (time.Time, bool) { return time.Now().Add(time.Minute), leads }}
	require.ErrorIs(t, f.ConsumeLogs(t.Context(), plog.NewLogs()), errFenced)
	leads = true
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.ConsumeLogs(over, plog.NewLogs()), context.Canceled)
	assert.Empty(t, sink.AllLogs())
	require.NoError(t, f.ConsumeLogs(t.Context(), plog.NewLogs()))
	assert.Len(t, sink.AllLogs(), 1)
}
