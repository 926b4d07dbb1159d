package takeover

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
)

// errFenced is no verdict of the consumer: the records are offered again if this replica can prove again that it leads.
var errFenced = errors.New("this replica cannot prove that it still leads")

// Fence lets records through only while this replica certainly leads.
type Fence struct {
	Next     consumer.Logs
	Deadline func() (time.Time, bool) // until when this replica leads
	Fenced   func()                   // called for each batch that may not begin, or whose call was ended. nil: nobody needs it
}

// Capabilities implements consumer.Logs.
func (f Fence) Capabilities() consumer.Capabilities { return f.Next.Capabilities() }

// ConsumeLogs implements consumer.Logs. The context of the call ends when another replica may lead.
func (f Fence) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	deadline, leads := f.Deadline()
	if !leads {
		f.fenced()
		return errFenced
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var timer *time.Timer
	mu.Lock()
	timer = time.AfterFunc(time.Until(deadline), func() {
		mu.Lock()
		defer mu.Unlock()
		if deadline, leads := f.Deadline(); leads {
			timer.Reset(time.Until(deadline) + time.Millisecond)
			return
		}
		cancel(errFenced)
	})
	mu.Unlock()
	defer timer.Stop()
	err := f.Next.ConsumeLogs(ctx, logs)
	if _, leads := f.Deadline(); err != nil && !leads {
		f.fenced()
	}
	return err
}

func (f Fence) fenced() {
	if f.Fenced != nil {
		f.Fenced()
	}
}
