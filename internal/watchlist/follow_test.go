package watchlist

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errReset = errors.New("connection reset by peer")

// After a stream that lived for a while, the pauses are short again.
func TestBackoffRestartsAfterASteadyStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{answers: func(n int, _ Request) fakeAnswer {
			switch {
			case n == 0:
				return fakeAnswer{steps: lines(added("a", 5), markerLine(7)), end: errReset}
			case n < 10:
				return fakeAnswer{err: errReset}
			case n == 10:
				return fakeAnswer{steps: []fakeStep{after(time.Second, bookmarkLine(8)), after(time.Minute, bookmarkLine(9))}, end: errReset}
			}
			return fakeAnswer{}
		}}
		s.read(t, 10*time.Minute)
		require.GreaterOrEqual(t, len(s.requests), 12)
		assert.Greater(t, s.requests[10].at-s.requests[9].at, 10*time.Second, "pauses grow")
		assert.Less(t, s.requests[11].at-s.requests[10].at, 61*time.Second+2*time.Second, "and start over")
	})
}

func TestBookmarkUpdatesLastKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &fakeServer{answers: func(n int, _ Request) fakeAnswer {
			switch n {
			case 0:
				return fakeAnswer{steps: append(lines(added("a", 5), markerLine(7)), after(time.Minute, bookmarkLine(9)), after(30*time.Second, errorLine(410, "Expired")))}
			case 1:
				return fakeAnswer{steps: lines(added("a", 10), markerLine(12))}
			}
			return fakeAnswer{}
		}}
		kept, _ := s.read(t, 2*time.Minute)
		require.Len(t, kept.gaps(), 1)
		assert.Equal(t, "9", kept.gaps()[0].FromRV)
		assert.Equal(t, began.Add(time.Minute), kept.gaps()[0].From)
	})
}

func TestSilentStreamLeavesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{answers: func(n int, _ Request) fakeAnswer {
			if n == 0 {
				return fakeAnswer{steps: lines(added("a", 5), markerLine(7), bookmarkLine(8))}
			}
			return fakeAnswer{steps: []fakeStep{after(time.Minute, bookmarkLine(9)), after(time.Minute, bookmarkLine(9))}}
		}}
		s.read(t, 4*time.Minute)
		require.Len(t, s.requests, 2)
		assert.Equal(t, "8", s.requests[1].ResourceVersion)
		assert.False(t, s.requests[0].FreshConnection)
		assert.True(t, s.requests[1].FreshConnection)
	})
}

// The silence timer starts when the server begins to answer: the wait before that does not count against the server.
func TestSilenceDoesNotCountTheWaitForAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{answers: func(n int, _ Request) fakeAnswer {
			if n == 0 {
				return fakeAnswer{steps: lines(added("a", 5), markerLine(7)), end: errReset}
			}
			return fakeAnswer{queued: 10 * time.Minute, pause: 30 * time.Second, steps: []fakeStep{
				after(115*time.Second, bookmarkLine(9)), after(time.Minute, bookmarkLine(9)), after(time.Minute, bookmarkLine(9))}}
		}}
		kept, _ := s.read(t, 14*time.Minute)
		assert.Len(t, s.requests, 2)
		assert.Empty(t, kept.gaps())
	})
}

// The stream of a rotation takes over when the old one ends, and then has the full time of a new stream to deliver
// something. Until then the old one is kept, however silent the new one is.
func TestSuccessorTakesOverWhenTheLiveStreamEnds(t *testing.T) {
	for name, end := range map[string]error{"clean": io.EOF, "cut": errReset} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rotated := make(chan struct{})
				s := &fakeServer{answers: func(n int, _ Request) fakeAnswer {
					if n == 0 {
						steps := lines(added("a", 5), markerLine(7))
						return fakeAnswer{end: end, steps: append(steps,
							fakeStep{after: time.Minute, line: bookmarkLine(7), until: rotated},
							after(10*time.Second, objectLine("MODIFIED", "a", 8)), // still the live one
							after(100*time.Second, ""))}
					}
					if n == 1 {
						close(rotated)
					}
					return fakeAnswer{steps: append([]fakeStep{after(170*time.Second, objectLine("MODIFIED", "a", 8))}, minutely(3, 8)...)}
				}}
				kept, _ := s.read(t, 9*time.Minute, func(o *Options) { o.RotateInterval = 5 * time.Minute; o.Now = time.Now }) // no second rotation
				require.Len(t, s.requests, 2, "%v", s.requests)
				require.Len(t, kept.changes, 4)
				assert.Equal(t, Modified, kept.changes[3].Type)
				assert.WithinDuration(t, s.began.Add(s.requests[1].at+10*time.Second), kept.changes[3].ReadAt, time.Second)
			})
		})
	}
}

// minutely returns steps with a bookmark every minute.
func minutely(n, rv int) (steps []fakeStep) {
	for range n {
		steps = append(steps, after(time.Minute, bookmarkLine(rv)))
	}
	return steps
}

// A stream that we end was not ended by the server, whatever error the transport returns.
func TestCancellationIsNotACleanEnd(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{answers: func(int, Request) fakeAnswer { return fakeAnswer{} }}
			ctx, cancel := context.WithCancel(t.Context())
			stream := openStream(ctx, s, Request{})
			require.NoError(t, stream.take(<-stream.chunks))
			synctest.Wait()
			cancel()
			select {
			case c := <-stream.chunks:
				assert.ErrorIs(t, stream.take(c), context.Canceled)
			case <-stream.done:
			}
			stream.close()
		})
	}
}

// Repeated streams without anything new lead to a state of their own, with the last error. The first event ends it.
func TestStreamsThatEndWithoutProgressAreFailing(t *testing.T) {
	for name, bad := range map[string]fakeAnswer{
		"error without a status": {steps: lines(`{"type":"ERROR","object":{}}`)},
		"cut frame":              {steps: nil, end: io.ErrUnexpectedEOF},
		"garbage":                {steps: lines(`<html>`)},
		"no version":             {steps: lines(`{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{answers: func(n int, req Request) fakeAnswer {
					switch {
					case n < 25 && !req.List:
						return bad
					case req.List:
						return fakeAnswer{err: errReset}
					}
					return fakeAnswer{steps: append(lines(added("a", 5), markerLine(7)), minutely(60, 7)...)}
				}}
				_, states := s.read(t, 40*time.Minute)
				var conditions []Condition
				for _, state := range states.states {
					conditions = append(conditions, state.Condition)
					if state.Condition == Failing {
						assert.Error(t, state.Err)
					}
				}
				assert.Contains(t, conditions, Failing)
				assert.Equal(t, Reading, conditions[len(conditions)-1])
			})
		})
	}
}
