// Package retry provides the one backoff with which the receiver waits between attempts.
package retry

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

// NewBackoff returns a backoff whose pauses begin at initial and double up to longest, each spread by half either way
// so that many clients do not return together. It is ready for its first NextBackOff.
func NewBackoff(initial, longest time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = initial, longest, 2, 0.5
	b.Reset()
	return b
}
