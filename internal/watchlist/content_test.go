package watchlist

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

func TestContentHash(t *testing.T) {
	same := []string{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"5"},"spec":{"n":1.0,"m":12345678901234567890}}`,
		`{"metadata":{"name":"a","resourceVersion":"m1-7"},"spec":{"n":1.0,"m":12345678901234567890}}`,
		`{"spec":{"m":12345678901234567890,"n":1.0},"metadata":{"managedFields":[{"manager":"x"}],"name":"a"}}`,
	}
	other := []string{
		`{"metadata":{"name":"b"},"spec":{"n":1.0,"m":12345678901234567890}}`,
		`{"metadata":{"name":"a"},"spec":{"n":1.0,"m":12345678901234567891}}`,
		`{"metadata":{"name":"a"},"spec":{"n":1.0,"m":12345678901234567890},"status":{"resourceVersion":"5"}}`,
	}
	want, ok := contentHash(same[0])
	assert.True(t, ok)
	for _, object := range same {
		sum, ok := contentHash(object)
		assert.True(t, ok)
		assert.Equal(t, want, sum, object)
	}
	for _, object := range other {
		sum, ok := contentHash(object)
		assert.True(t, ok)
		assert.NotEqual(t, want, sum, object)
	}
	_, ok = contentHash("") // an object without body
	assert.False(t, ok)
}

func TestRelate(t *testing.T) {
	for _, c := range []struct {
		rv, known string
		reset     bool
		want      relation
	}{
		{"7", "5", false, newer},
		{"5", "5", false, emitted},
		{"5", "7", false, emitted},
		{"5", "7", true, newer},
		{"5", "5", true, emitted},
		{"123456789012345678901234567890", "7", false, newer},
		{"x-9", "x-6", false, newer},
		{"x-6", "x-6", false, emitted},
		{"m1-6", "6", false, unclear},
		{"6", "m1-6", false, unclear},
		{"eyJhIjoxfQ", "m1-6", false, unclear},
		{"eyJhIjoxfQ", "m1-6", true, newer},
		{"", "", false, unclear},
		{"", "5", false, unclear},
		{"5", "", false, newer}, // emitted by an earlier process, in an unknown version
	} {
		r := &Reader{server: serverView{historyReset: c.reset}}
		assert.Equal(t, c.want, r.relate(parseVersion(c.rv), parseVersion(c.known)), "%q after %q, history reset: %t", c.rv, c.known, c.reset)
	}
}

// A hash is kept only for an object whose version means nothing, and not for longer than the object.
func TestContentsAreKeptIfVersionsMeanNothing(t *testing.T) {
	r := NewReader(Options{Scope: scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}}, Logger: zap.NewNop()})
	put := func(rv string) Key {
		obj := redact.Object{Identity: redact.Identity{Name: "a", ResourceVersion: rv}, JSON: `{"metadata":{"name":"a"}}`}
		key := keyOf(obj.Identity)
		r.rememberObject(key, &obj, parseVersion(rv))
		return key
	}
	put("5")
	assert.Empty(t, r.inventory.contents)
	put("m1-5")
	assert.Len(t, r.inventory.contents, 1)
	put("6")
	assert.Empty(t, r.inventory.contents)
	key := put("")
	assert.Len(t, r.inventory.contents, 1)
	r.forget(key)
	assert.Empty(t, r.inventory.contents)
}
