package watchlist

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A set that was emitted later takes the place of one whose begin or end was refused.
func TestWhichSetIsOwed(t *testing.T) {
	for name, c := range map[string]struct {
		steps string // of sets a, b, c: a( is its begin, a) its end, and -a a refusal of either
		owed  bool
	}{
		"none was refused":                   {"a( a)", false},
		"refused":                            {"a( a) -a", true},
		"refused before its end was emitted": {"a( -a a)", true},
		"refused before its end, which is yet to come": {"a( -a", false},
		"both refused":                                {"a( -a a) -a", true},
		"refused, and the next is being emitted":      {"a( a) -a b(", true},
		"refused while the next is being emitted":     {"a( a) b( -a", true},
		"refused, and the next was emitted":           {"a( a) -a b( b)", false},
		"refused while the next was emitted":          {"a( a) b( -a b)", false},
		"refused after the next was emitted":          {"a( a) b( b) -a", false},
		"the next was refused too":                    {"a( a) -a b( b) -b", true},
		"the next was refused before its end":         {"a( a) -a b( -b b)", true},
		"the next was given up":                       {"a( a) b( -b c( c)", false},
		"the next was given up, and is refused later": {"a( a) b( c( -b c)", false},
	} {
		t.Run(name, func(t *testing.T) {
			var s sentSets
			for _, step := range strings.Fields(c.steps) {
				switch {
				case step[0] == '-':
					s.refused(step[1:])
				case step[1] == '(':
					s.begins(step[:1])
				default:
					s.ends(step[:1])
				}
			}
			assert.Equal(t, c.owed, s.owed)
		})
	}
}
