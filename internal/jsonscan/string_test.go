package jsonscan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A byte at which a scan must stop is found in every lane of a word, and near the end of the text.
func TestStringFindsEveryByteInEveryPlace(t *testing.T) {
	for before := range 20 {
		for _, after := range []string{"", `,`, `,"something":"else"}`} {
			for b := range 256 {
				text := `"` + strings.Repeat("x", before) + string([]byte{byte(b)}) + `tail"` + after
				end, content, err := String([]byte(text), 0)
				closed := len(text) - len(after)
				switch {
				case b == '"':
					require.NoError(t, err)
					assert.Equal(t, before+2, end)
				case b == '\\': // \t
					require.NoError(t, err)
					assert.Equal(t, closed, end)
					assert.Equal(t, Escaped, content)
				case b < ' ':
					require.ErrorIs(t, err, ErrString)
				case b >= 0x80:
					require.NoError(t, err)
					assert.Equal(t, closed, end)
					assert.Equal(t, NonASCII, content)
				default:
					require.NoError(t, err)
					assert.Equal(t, closed, end)
					assert.Equal(t, Content(0), content)
				}
			}
		}
	}
}

func TestStringReportsItsContent(t *testing.T) {
	for text, want := range map[string]Content{
		`""`:             0,
		`"plain text"`:   0,
		`"a\nb"`:         Escaped,
		`"größe"`:        NonASCII,
		`"größe\u00e9"`:  NonASCII | Escaped,
		`"\u00e9größe"`:  NonASCII | Escaped,
		"\"a \x7f del\"": 0,
	} {
		end, content, err := String([]byte(text), 0)
		require.NoError(t, err)
		assert.Equal(t, len(text), end)
		assert.Equal(t, want, content, text)
	}
}

func TestUnquoteAgreesWithEncodingJSON(t *testing.T) {
	for _, inside := range insides {
		assertUnquote(t, inside)
	}
}

var insides = []string{
	``, `abc`, `a\nb`, `\"\\\/\b\f\n\r\t`, `\u0041\u00e9\u20AC`, `\uD83D\uDE00`, `\ud83d\ude00x`, `\ud800`, `\udc00`, `\ud800\ud800`, `\ud800\u0041`, `\ud800x`, `\ud800\n`, `\udc00\ud800\udc00`,
	"\xff", "a\xffb", "\xc3\x28", "\xed\xa0\x80", "\xf0\x9f\x98", "\xf0\x9f\x98\x80", "é\xe9é", "\xff\\n\xff", "�", "\\ud800\xff", "\xc0\x80",
}

func assertUnquote(t *testing.T, inside string) {
	t.Helper()
	var want string
	require.NoError(t, json.Unmarshal([]byte(`"`+inside+`"`), &want))
	assert.Equal(t, want, Unquote([]byte(inside)), "%q", inside)

	// A repaired string is encoded differently but means the same.
	if repaired, ok := Repaired([]byte(inside)); ok {
		assert.Equal(t, want, Unquote([]byte(repaired)), "%q", inside)
		_, again := Repaired([]byte(repaired))
		assert.False(t, again)
	}
}

func TestRepaired(t *testing.T) {
	repaired, ok := Repaired([]byte("a\\n\xff\xfeé"))
	assert.True(t, ok)
	assert.Equal(t, "a\\n\uFFFD\uFFFDé", repaired)

	_, ok = Repaired([]byte(`fine\n é`))
	assert.False(t, ok)
}

func FuzzUnquote(f *testing.F) {
	for _, inside := range insides {
		f.Add([]byte(inside))
	}
	f.Fuzz(func(t *testing.T, inside []byte) {
		text := append(append([]byte{'"'}, inside...), '"')
		end, _, err := String([]byte(text), 0)
		if err != nil || end != len(text) {
			return
		}
		assertUnquote(t, string(inside))
	})
}

func TestNumberReportsIntegers(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-0": true, "7": true, "-42": true, "123456789012345678901234567890": true,
		"0.0": false, "1.5": false, "1e3": false, "1E-3": false, "-2.5e+10": false,
	} {
		end, integer, err := Number([]byte(text), 0)
		require.NoError(t, err, text)
		assert.Equal(t, len(text), end, text)
		assert.Equal(t, want, integer, text)
	}
}
