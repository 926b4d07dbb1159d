package jsonscan

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMembers(t *testing.T) {
	read := func(s string, most int) (found []string) {
		Members([]byte(s), 0, func(m Member) bool {
			found = append(found, string(m.Name([]byte(s)))+"="+s[m.Value:m.End])
			return len(found) < most
		})
		return found
	}
	for text, want := range map[string][]string{
		`{"a":1,"b":{"c":[2]},"d":"x"}`:  {"a=1", `b={"c":[2]}`, `d="x"`},
		" {}":                            nil,
		`{}`:                             nil,
		`{ }`:                            nil,
		`["a"]`:                          nil,
		``:                               nil,
		`{`:                              nil,
		`{ "a" : 1 , "\u0062\n" : [ ] }`: {"a=1", "b\n=[ ]"},
		`{"a":1,"b":}`:                   {"a=1"},
		`{"a":1 "b":2}`:                  {"a=1"},
		`{"a":1,"a":2} and what follows the object`: {"a=1", "a=2"},
	} {
		assert.Equal(t, want, read(text, 100), text)
	}
	assert.Equal(t, []string{"a=1"}, read(`{"a":1,"b":2}`, 1))
}

func TestMemberNamed(t *testing.T) {
	for text, want := range map[string]string{
		``: "", `{}`: "", `["a"]`: "", `"a"`: "", `{"b":1}`: "", `{"b":{"a":1}}`: "", `{"a":`: "", `{"b":[}`: "", `{"b":1 "a":2}`: "",
		`{"a":1}`: "1", `{ "b" : [1] , "a" : {"x":2} } `: `{"x":2}`, `{"a":1,"a":2}`: "1", `{"\u0061":"x"`: `"x"`,
	} {
		m, ok := MemberNamed([]byte(text), 0, "a")
		assert.Equal(t, want != "", ok, text)
		assert.Equal(t, want, text[m.Value:m.End], text)
	}
}
