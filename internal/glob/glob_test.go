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

func TestOverlapAndCovers(t *testing.T) {
	for _, c := range []struct {
		a, b    string
		overlap bool
		covers  bool // a covers b
	}{
		{"a", "a", true, true},
		{"a", "b", false, false},
		{"*", "", true, true},
		{"*", "**", true, true},
		{"a*", "*b", true, false},
		{"a*", "ab*", true, true},
		{"ab*", "a*", true, false},
		{"a*b", "a*c", false, false},
		{"a*b*c", "*bb*", true, false},
		{"*a*", "b*", true, false},
		{"", "*", true, false},
		{"", "a*", false, false},
	} {
		assert.Equal(t, c.overlap, glob.Overlap(c.a, c.b), "%q %q", c.a, c.b)
		assert.Equal(t, c.overlap, glob.Overlap(c.b, c.a), "%q %q", c.b, c.a)
		assert.Equal(t, c.covers, glob.Covers(c.a, c.b), "%q %q", c.a, c.b)
	}
}

// All short texts and patterns agree with Match.
func TestOverlapOfAllShortPatterns(t *testing.T) {
	texts, patterns := words("ab", 4), words("ab*", 3)
	for _, a := range patterns {
		for _, b := range patterns {
			common := false
			for _, s := range texts {
				common = common || glob.Match(a, s) && glob.Match(b, s)
				if glob.Covers(a, b) && glob.Match(b, s) {
					assert.True(t, glob.Match(a, s), "%q covers %q, which matches %q", a, b, s)
				}
			}
			assert.Equal(t, common, glob.Overlap(a, b), "%q %q", a, b)
		}
	}
}

// words returns all words of at most n of the letters.
func words(letters string, n int) []string {
	all := []string{""}
	for from := 0; n > 0; n-- {
		to := len(all)
		for _, word := range all[from:to] {
			for _, letter := range letters {
				all = append(all, word+string(letter))
			}
		}
		from = to
	}
	return all
}
