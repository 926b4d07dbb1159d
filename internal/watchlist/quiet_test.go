package watchlist

import (
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func readEvents(o *Options) {
	o.Scope.GroupResource = schema.GroupResource{Resource: "events"}
	o.QuietInterval = 2 * time.Minute
}

// Idle connections are cut every 30 seconds, the history is compacted every few minutes, and the server's version keeps
// growing while no Event comes. Nothing is missed, and no gap claims a loss.
func TestQuietEventsBehindAnIdleTimeoutAndCompaction(t *testing.T) {
	for name, window := range map[string]time.Duration{"kept for five minutes": 5 * time.Minute, "compacted to now every three minutes": 0} {
		for end, cut := range map[string]error{"cut": errReset, "clean": io.EOF} {
			t.Run(name+", "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &fakeServer{}
					version := func(at time.Duration) int { return 100 + int(at/time.Second) }
					s.answers = func(_ int, req Request) fakeAnswer {
						now := time.Since(s.began)
						compacted := version(max(0, now-window).Truncate(3 * time.Minute))
						if req.SendInitialEvents {
							return fakeAnswer{steps: append(lines(added("a", 5), markerLine(version(now))), after(30*time.Second, "")), end: cut}
						}
						if parseVersion(req.ResourceVersion).before(version1(compacted)) {
							return fakeAnswer{steps: lines(errorLine(410, "Expired"))}
						}
						return fakeAnswer{steps: []fakeStep{after(30*time.Second, "")}, end: cut}
					}
					kept, _ := s.read(t, 3*time.Hour, readEvents)
					assert.Empty(t, kept.gaps())
					whole, metadata := 0, 0
					for _, req := range s.requests {
						if req.SendInitialEvents && req.MetadataOnly {
							metadata++
						} else if req.SendInitialEvents {
							whole++

						}
					}
					t.Logf("%d requests, %d snapshots, %d of metadata", len(s.requests), whole, metadata)
					if window > 0 {
						assert.Equal(t, 1, whole, "the position does not grow old")
					}
					assert.Less(t, metadata, 120)
				})
			})
		}
	}
}

// A stream that delivered something, was then silent for a while, and was then cut counts as alive until the cut.
func TestEventsStreamThatIsCutAfterAQuietWhile(t *testing.T) {
	for quiet, gaps := range map[time.Duration]int{20 * time.Second: 0, time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{answers: func(n int, req Request) fakeAnswer {
				switch {
				case n == 0:
					return fakeAnswer{steps: append(lines(added("a", 5), markerLine(7)), after(5*time.Second, added("b", 20)), after(quiet, "")), end: errReset}
				case !req.SendInitialEvents && parseVersion(req.ResourceVersion).before(version1(30)):
					return fakeAnswer{steps: lines(errorLine(410, "Expired"))}
				case req.SendInitialEvents:
					return fakeAnswer{steps: append(lines(added("a", 5), added("b", 20), markerLine(40)), after(time.Hour, ""))}
				}
				return fakeAnswer{steps: []fakeStep{after(time.Hour, "")}}
			}}
			kept, _ := s.read(t, 10*time.Minute, readEvents)
			assert.Len(t, kept.gaps(), gaps, "quiet for %s", quiet)
		})
	}
}

// Many Events expire at one version. If a watch ends in the middle of that version, and the history is gone, the
// version is part of the gap.
func TestGapIncludesAVersionThatWasReadInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{answers: func(n int, req Request) fakeAnswer {
			switch {
			case n == 0:
				return fakeAnswer{steps: append(lines(added("a", 5), added("b", 6), added("c", 7), markerLine(7)),
					after(time.Second, objectLine("DELETED", "a", 20))), end: errReset}
			case !req.SendInitialEvents:
				require.Equal(t, "19", req.ResourceVersion)
				return fakeAnswer{steps: lines(errorLine(410, "Expired"))}
			}
			return fakeAnswer{steps: append(lines(added("c", 7), markerLine(20)), after(time.Hour, ""))}
		}}
		kept, _ := s.read(t, time.Minute, readEvents)
		require.Len(t, kept.gaps(), 1)
		assert.Equal(t, "19", kept.gaps()[0].FromRV)
		assert.Equal(t, 1, kept.gaps()[0].Deleted)
	})
}

func version1(n int) version { return version{number: uint64(n)} }

// Events that a quiet stream delivers after the start of a comparison are not lost.
func TestEventsInFlightDuringAQuietComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		compared := make(chan struct{})
		s := &fakeServer{answers: func(n int, req Request) fakeAnswer {
			switch n {
			case 0:
				return fakeAnswer{steps: append(lines(added("a", 5), markerLine(7)),
					fakeStep{after: time.Hour, until: compared}, after(3*time.Second, added("b", 20)), after(time.Second, objectLine("DELETED", "b", 21)))}
			case 1:
				close(compared)
				return fakeAnswer{steps: lines(added("a", 5), markerLine(30))}
			}
			return fakeAnswer{steps: lines(added("a", 5), markerLine(40))}
		}}
		kept, _ := s.read(t, 4*time.Minute, readEvents)
		var types []Type
		for _, c := range kept.changes {
			types = append(types, c.Type)
		}
		assert.Equal(t, []Type{SnapshotBegin, Snapshot, SnapshotEnd, Added, Deleted}, types)
	})
}

// If the watch of a server never knows the version of its list, the server is asked less and less often, and no gap
// claims a loss.
func TestWatchThatNeverKnowsTheVersionOfTheList(t *testing.T) {
	for name, alive := range map[string]time.Duration{"at once": 0, "after 11 seconds": 11 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{answers: func(_ int, req Request) fakeAnswer {
					if req.SendInitialEvents {
						return fakeAnswer{steps: lines(added("a", 5), markerLine(100)), end: errReset}
					}
					return fakeAnswer{steps: []fakeStep{after(alive, errorLine(410, "Expired"))}}
				}}
				kept, _ := s.read(t, 2*time.Hour)
				assert.Empty(t, kept.gaps())
				assert.Less(t, len(s.requests), 100)
				last := s.requests[len(s.requests)-1].at
				assert.Greater(t, last, 2*time.Hour-7*time.Minute, "it is still asked")
			})
		})
	}
}

// After one reader has learned that the history is gone, the others need not ask.
func TestReadersShareExpiredHistory(t *testing.T) {
	const readers = 60
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		edited := 10*time.Minute + time.Second
		s.answers = func(_ int, req Request) fakeAnswer {
			now := time.Since(s.began)
			switch {
			case req.SendInitialEvents && now < edited:
				return fakeAnswer{steps: append(append(lines(added("a", 5), markerLine(100)), minutely(9, 100)...), after(edited-9*time.Minute-now, "")), end: errReset}
			case req.SendInitialEvents:
				return fakeAnswer{steps: append(lines(added("a", 500), markerLine(500)), minutely(60, 500)...)}
			}
			return fakeAnswer{pause: 20 * time.Millisecond, steps: lines(errorLine(410, "Expired"))}
		}
		knowledge := NewKnowledge(schema.GroupResource{Resource: "pods"}, false)
		slots := NewSlots(3)
		var all sync.WaitGroup
		s.began = time.Now()
		emitters := make([]*keptChanges, readers)
		for i := range readers {
			all.Go(func() {
				emitters[i], _ = s.readFor(t, 20*time.Minute, func(o *Options) { o.Knowledge, o.SnapshotSlots = knowledge, slots })
			})
		}
		all.Wait()
		watches := 0
		for _, req := range s.requests {
			if !req.SendInitialEvents {
				watches++
			}
		}
		assert.Less(t, watches, readers/2, "watches from an expired version")
		for _, kept := range emitters {
			require.Len(t, kept.gaps(), 1)
			assert.Equal(t, 1, kept.gaps()[0].Modified)
			assert.WithinDuration(t, s.began.Add(edited), kept.gaps()[0].To, time.Minute)
		}
	})
}
