package watchlist

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kindCounter counts frames of another kind.
type kindCounter struct {
	NopObserver
	frames int
}

func (k *kindCounter) FrameOfAnotherKind() { k.frames++ }

func TestObjectHasTheKindOfItsResource(t *testing.T) {
	const metadata = `"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"5","annotations":{"kind":"other"}}`
	for name, test := range map[string]struct {
		object  string
		body    string // "": unchanged
		another bool
	}{
		"its own":         {object: `{"kind":"Pod","apiVersion":"v1",` + metadata + `}`},
		"cut short":       {object: `{"kind":"Po","apiVersion":"v1",` + metadata + `}`, body: `{"kind":"Pod","apiVersion":"v1",` + metadata + `}`, another: true},
		"metadata only":   {object: `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",` + metadata + `}`, body: `{"kind":"Pod","apiVersion":"meta.k8s.io/v1",` + metadata + `}`, another: true},
		"at the end":      {object: `{"apiVersion":"v1",` + metadata + `,"spec":{"kind":"x"},"kind":"Secre"}`, body: `{"apiVersion":"v1",` + metadata + `,"spec":{"kind":"x"},"kind":"Pod"}`, another: true},
		"with escapes":    {object: `{"kind":"S\u0065cret",` + metadata + `}`, body: `{"kind":"Pod",` + metadata + `}`, another: true},
		"none, as listed": {object: `{` + metadata + `}`, body: `{"kind":"Pod","apiVersion":"v1",` + metadata + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := bareReader()
			r.Scope.Group, r.Scope.Resource, r.API.Kind = "", "pods", "Pod"
			counted := &kindCounter{}
			r.Observer = counted
			obj, err := r.decode([]byte(test.object), false)
			require.NoError(t, err)
			assert.Equal(t, "Pod", obj.Kind)
			assert.Equal(t, "a", obj.Name)
			assert.True(t, json.Valid([]byte(obj.JSON)))
			want := test.body
			if want == "" {
				want = test.object
			}
			assert.Equal(t, want, obj.JSON)
			assert.Equal(t, test.another, counted.frames == 1)
		})
	}
}

// One stream covers the objects of many workspaces. The workspace of a missing object is known only from the inventory.
func TestInferredDeletionNamesTheLogicalCluster(t *testing.T) {
	object := func(cluster string, n int) string {
		return fmt.Sprintf(`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"annotations":{"kcp.io/cluster":%q},"name":"same","namespace":"ns","uid":"u-%d","resourceVersion":"%d"}}}`, cluster, n, n)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{answers: func(n int, _ Request) fakeAnswer {
			switch n {
			case 0:
				return fakeAnswer{steps: append(lines(object("one", 1), object("two", 2), object("two", 3), added("plain", 4), markerLine(7)), after(time.Second, errorLine(410, "Expired")))}
			case 1:
				return fakeAnswer{steps: lines(object("one", 1), object("two", 3), markerLine(9))}
			}
			return fakeAnswer{}
		}}
		kept, _ := s.read(t, time.Minute)
		gone := map[string]string{}
		for _, c := range kept.changes {
			if c.Type == Deleted && c.Inferred {
				gone[c.Object.UID] = c.Object.Cluster
			}
		}
		assert.Equal(t, map[string]string{"u-2": "two", "uid-plain": ""}, gone)
	})
}
