package runner

import (
	"context"
	"fmt"
	"time"
)

// linger lets a contender run for some seconds.
func linger(ctx context.Context, p *process, seconds int) error {
	timer := time.NewTimer(time.Duration(seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.Done():
		return fmt.Errorf("it ended unexpectedly: %s", p.Tail())
	case <-ctx.Done():
		return ctx.Err()
	}
}
