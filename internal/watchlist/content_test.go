package watchlist

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

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
