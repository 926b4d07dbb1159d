package glob_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		yes, not []string
	}{
		{"pods", []string{"pods"}, []string{"", "pod", "podss"}},
		{"*", []string{"", "pods", "a.b"}, nil},
		{"team-*", []string{"team-", "team-a"}, []string{"team", "a-team-"}},
		{"*.istio.io", []string{"networking.istio.io", ".istio.io"}, []string{"istio.io", "x.istio.io.org"}},
		{"a*a", []string{"aa", "aba"}, []string{"a", "ab"}},
		{"a*b*c", []string{"abc", "a-b-b-c"}, []string{"acb", "abcd"}},
		{"**", []string{"", "x"}, nil},
		{"", []string{""}, []string{"x"}},
	} {
		for _, s := range c.yes {
			assert.True(t, glob.Match(c.pattern, s), "%q %q", c.pattern, s)
		}
		for _, s := range c.not {
			assert.False(t, glob.Match(c.pattern, s), "%q %q", c.pattern, s)
		}
	}
}
