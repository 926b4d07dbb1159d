package scope

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNamespacesMatch(t *testing.T) {
	for text, namespaces := range map[string][2][]string{
		"":                  {{"", "shop"}, nil},
		"shop,team-*":       {{"", "shop", "team-", "team-a"}, {"shops", "team", "a-team-b"}},
		"!kube-*":           {{"", "shop", "kube"}, {"kube-system", "kube-"}},
		"team-*,!*-x,!team": {{"team-a"}, {"team-x", "team", "shop"}},
	} {
		n := ParseNamespaces(text)
		assert.Equal(t, text, n.String())
		for _, yes := range namespaces[0] {
			assert.True(t, n.Match(yes), "%q selects %q", text, yes)
		}
		for _, no := range namespaces[1] {
			assert.False(t, n.Match(no), "%q selects %q", text, no)
		}
	}
	assert.Equal(t, "a,b*,!c,!d", Namespaces{Include: []string{"b*", "a", "b*"}, Exclude: []string{"d", "c"}}.String())
}

func TestNamespacesOverlapAndCover(t *testing.T) {
	for _, c := range []struct {
		a, b             string
		overlap          bool
		aCovers, bCovers bool
	}{
		{"", "", true, true, true},
		{"", "shop", true, true, false},
		{"shop", "pay", false, false, false},
		{"shop,pay", "pay", true, true, false},
		{"team-*", "team-a", true, true, false},
		{"team-*", "*-web", true, false, false},
		{"team-*", "pay-*", false, false, false},
		{"team-*", "!team-*", false, false, false},
		{"team-*", "!*", false, false, false},
		{"team-*", "!kube-*", true, false, true},
		{"!kube-*", "kube-system", false, false, false},
		{"!kube-*", "!kube-system", true, false, true},
		{"!kube-*", "", true, false, true},
		{"team-*,!team-x", "team-x", false, false, false},
		{"team-*,!team-x", "team-*", true, false, true},
		{"team-*,!team-x", "team-*,!team-x,!team-y", true, true, false},
	} {
		a, b := ParseNamespaces(c.a), ParseNamespaces(c.b)
		assert.Equal(t, c.overlap, a.Overlap(b), "%q overlaps %q", c.a, c.b)
		assert.Equal(t, c.overlap, b.Overlap(a), "%q overlaps %q", c.b, c.a)
		if c.b != "!*" { // nothing
			assert.Equal(t, c.aCovers, a.Cover(b), "%q covers %q", c.a, c.b)
			assert.Equal(t, c.bCovers, b.Cover(a), "%q covers %q", c.b, c.a)
		}
	}
}
