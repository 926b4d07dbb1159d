package watchlist

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// What an earlier process had begun to recover is compared beside a watch from the position, so that the history that the
// server still has is not skipped.
func TestRecoveryThatAnEarlierProcessBegan(t *testing.T) {
	for _, reason := range []string{reasonExpired, reasonDropped, reasonMissed, reasonScopeChanged} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{answers: func(n int, req Request) fakeAnswer {
					if n == 0 {
						require.False(t, req.SendInitialEvents)
						require.Equal(t, "7", req.ResourceVersion)
						steps := lines(objectLine("MODIFIED", "a", 8), objectLine("MODIFIED", "a", 9), objectLine("DELETED", "b", 10))
						return fakeAnswer{steps: append(steps, minutely(20, 20)...)}
					}
					return fakeAnswer{steps: append(lines(added("a", 9), added("c", 6), markerLine(10)), minutely(20, 20)...)}
				}}
				kept, _ := s.readFor(t, 5*time.Minute, func(o *Options) {
					o.Restore = func(_ context.Context, _ *scope.Scope, add func(Stored)) (Progress, error) {
						add(Stored{Identity: redact.Identity{UID: "uid-a", Namespace: "ns", Name: "a", ResourceVersion: "5"}})
						add(Stored{Identity: redact.Identity{UID: "uid-b", Namespace: "ns", Name: "b", ResourceVersion: "5"}})
						return Progress{ResourceVersion: "7", Closed: true, Lost: &Suspicion{
							Begun: true, Gap: GapInfo{Reason: reason, FromRV: "4", Modified: 1},
						}}, nil
					}
				})
				var emitted []string
				for _, c := range kept.changes {
					if c.IsRecord() && c.Type != Gap {
						emitted = append(emitted, c.Object.Name+"@"+c.Object.ResourceVersion)
					}
				}
				assert.Equal(t, []string{"a@8", "a@9", "b@10", "c@6"}, emitted)
				require.Len(t, kept.gaps(), 1)
				assert.Equal(t, reason, kept.gaps()[0].Reason)
				assert.Equal(t, "4", kept.gaps()[0].FromRV)
			})
		})
	}
}
