package watchlist

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type timeoutError struct{}

func (timeoutError) Error() string   { return "timeout" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// A server that cannot be reached for minutes says nothing about its watches. The reader resumes where it was, so that every
// change has a record of its own; with one that accepts requests and does not answer them, it compares a list.
func TestUnreachableServerIsNoReasonToCompare(t *testing.T) {
	for name, c := range map[string]struct {
		failed   error
		compares bool
	}{
		"not reached":  {fmt.Errorf("%w: %w", ErrNoConnection, timeoutError{}), false},
		"not answered": {timeoutError{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failures := 0
				s := &fakeServer{answers: func(n int, r Request) fakeAnswer {
					switch {
					case n == 0:
						return fakeAnswer{steps: lines(added("a", 5), markerLine(7)), end: io.ErrUnexpectedEOF}
					case r.List:
						return fakeAnswer{err: io.ErrUnexpectedEOF}
					case n <= 8:
						failures++
						return fakeAnswer{pause: 10 * time.Second, err: c.failed}
					}
					return fakeAnswer{steps: append(lines(added("b", 8)), minutely(9, 10)...)}
				}}
				s.read(t, 5*time.Minute)
				require.GreaterOrEqual(t, failures, maxUnanswered)
				compared := false
				for _, request := range s.requests[1:] {
					compared = compared || request.List || request.SendInitialEvents
				}
				assert.Equal(t, c.compares, compared)
			})
		})
	}
}
