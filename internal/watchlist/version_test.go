package watchlist

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersions(t *testing.T) {
	f := func(a, b string, order int, comparable bool) {
		t.Helper()
		got, ok := compareVersions(parseVersion(a), parseVersion(b))
		assert.Equal(t, comparable, ok, "%q and %q", a, b)
		if comparable {
			assert.Equal(t, order, got, "%q and %q", a, b)
		}
		assert.Equal(t, comparable && order < 0 || false, parseVersion(a).before(parseVersion(b)))
		assert.Equal(t, comparable && order >= 0 || !comparable && parseVersion(a) == parseVersion(b), parseVersion(a).atLeast(parseVersion(b)))
	}
	f("1", "2", -1, true)
	f("2", "1", 1, true)
	f("10", "9", 1, true)
	f("7", "7", 0, true)
	f("18446744073709551615", "18446744073709551616", -1, true) // either side of a uint64
	f("18446744073709551616", "9", 1, true)
	f("x", "x", 0, false)
	f("x", "7", 0, false)
	f("007", "7", 0, false) // leading zeros are not well-formed
	f("+7", "7", 0, false)
	f("-7", "7", 0, false)
	f("", "7", 0, false)
	f("0", "7", 0, false)
}

func TestVersionsKeepTheirText(t *testing.T) {
	for _, rv := range []string{"1", "18446744073709551615", "18446744073709551616", "x", "007", "+7", "7 "} {
		assert.Equal(t, rv, parseVersion(rv).String())
		assert.False(t, parseVersion(rv).none())
	}
	assert.True(t, parseVersion("").none())
	assert.True(t, parseVersion("0").none(), "0 asks for any version and is never that of an object")
}

func TestPosition(t *testing.T) {
	a, b := Key{1}, Key{2}
	v := parseVersion
	p := closedPosition(v("7"))
	assert.True(t, p.covers(v("7"), a), "a closed position covers its own version")
	assert.True(t, p.covers(v("6"), a))
	assert.False(t, p.covers(v("8"), a))

	p.advance(v("9"), a)
	assert.True(t, p.covers(v("9"), a))
	assert.False(t, p.covers(v("9"), b), "several objects may be deleted at one version")
	p.advance(v("9"), b)
	assert.True(t, p.covers(v("9"), b))
	assert.Equal(t, "9", p.resumeVersion(false))
	assert.Equal(t, "8", p.resumeVersion(true), "its own version may have been cut in the middle")

	p.advance(v("3"), a)
	assert.Equal(t, "9", p.rv.String(), "it never moves back")
	p.close(v("5"))
	assert.Equal(t, "9", p.rv.String())
	p.close(v(""))
	assert.Equal(t, "9", p.rv.String())
	p.close(v("9"))
	assert.True(t, p.covers(v("9"), Key{3}))
	assert.Equal(t, "9", p.resumeVersion(true))
	p.close(v("12"))
	assert.True(t, p.covers(v("10"), a))
	assert.False(t, p.covers(version{}, a), "an event without a version is never covered")
}
