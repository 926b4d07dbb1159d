package watchlist

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

func TestIdentityInTheBeginningOfAFrame(t *testing.T) {
	whole := `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a\u0062","namespace":"ns","labels":{"name":"no"},"uid":"u","resourceVersion":"8","annotations":{"x":"yyyy`
	assert.Equal(t, redact.Identity{Name: "ab", Namespace: "ns", UID: "u", ResourceVersion: "8"}, identityInHead([]byte(whole)))
	for cut := range len(whole) {
		id := identityInHead([]byte(whole[:cut])) // cut anywhere
		assert.True(t, id.Name == "" || id.Name == "ab", "%q", id.Name)
	}
	assert.Equal(t, redact.Identity{Name: "a"}, identityInHead([]byte(`{"object":{"apiVersion":"v1","data":{"metadata":{"name":"no"}},"metadata":{"annotations":{"name":"no"},"name":"a","managedFields":[{"x`)))
	assert.Empty(t, identityInHead([]byte(`["no frame"]`)))
}

// The gap names the object if its name is at the beginning of the frame.
func TestGapNamesTheObjectThatIsTooLarge(t *testing.T) {
	padding := strings.Repeat("x", MaxFrameBytes)
	for name, test := range map[string]struct {
		frame string
		want  string
	}{
		"with its identity first": {`{"type":"ADDED","object":{"metadata":{"name":"big","namespace":"ns","uid":"u","resourceVersion":"8"},"spec":"` + padding + `"}}`, "ns/big"},
		"with its name last":      {`{"type":"ADDED","object":{"data":"` + padding + `","metadata":{"name":"big","namespace":"ns","uid":"u","resourceVersion":"8"}}}`, "/"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{answers: func(n int, req Request) fakeAnswer {
					switch {
					case n == 0:
						return fakeAnswer{steps: lines(added("a", 5), markerLine(7), test.frame)}
					case req.SendInitialEvents:
						return fakeAnswer{steps: append(lines(added("a", 5), test.frame, added("c", 9), markerLine(9)), minutely(5, 9)...)}
					}
					return fakeAnswer{steps: lines(test.frame)}
				}}
				kept, _ := s.read(t, 5*time.Minute)
				gaps := kept.gaps()
				require.Len(t, gaps, 1)
				assert.Equal(t, reasonUndecodable, gaps[0].Reason)
				assert.Equal(t, test.want, gaps[0].Object.Namespace+"/"+gaps[0].Object.Name)
			})
		})
	}
}
