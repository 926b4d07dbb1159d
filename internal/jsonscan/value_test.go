package jsonscan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// texts are seeds for the comparison with encoding/json: valid texts, and nearly valid ones.
var texts = []string{
	`{}`, `[]`, `""`, `0`, `-0`, `null`, `true`, `false`, ` {} `, "\t[\n]\r", ``, ` `,
	`{"a":1}`, `{"a":{"b":[1,2,{"c":null}]},"d":"e"}`, ` { "a" : [ 1 , 2 ] , "b" : { } } `,
	`[1,2,3]`, `[[],[[]],{}]`, `[{"a":[]},{"b":{}}]`,
	`{`, `[`, `}`, `]`, `{]`, `[}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[1,]`, `[,]`, `[1 2]`, `{"a" 1}`, `{"a":1 "b":2}`,
	`{a:1}`, `{'a':1}`, `{1:1}`, `{"a":1}}`, `{}{}`, `[[1]`, `{"a":[1}`, `{"a":[1]`, `[{"a":1]`, `{"a"::1}`, `:`, `,`,
	`1`, `-1`, `10`, `0.5`, `-0.5e10`, `1E+2`, `1e-2`, `1e5`, `123456789012345678901234567890`, `01`, `-`, `-a`, `1.`, `.5`, `1e`, `1e+`, `+1`, `0x1`, `1.e1`, `--1`, `00`, `-01`,
	`nul`, `nulll`, `tru`, `True`, `falsey`, `nan`, `NaN`, `Infinity`, `t`, `n`,
	`"abc"`, `"`, `"a`, `"\"`, `"\\"`, `"\n"`, `"\x"`, `"\u12"`, `"\u123g"`, `"\uD83D\uDE00"`, `"\ud800"`, `"\udc00\ud800"`, `"\u00e9é\u0000"`, `"\/"`, `"\b\f\n\r\t\"\\\/"`,
	"\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"a\nb\"", "\"\xff\"", "\"\xc3\x28\"", "\"\xed\xa0\x80\"", "\"\xf0\x9f\x98\x80\"", "\"0123456789\xff0123456789\n\"",
	"\"01234567\"", "\"0123456\\\"\"", "\"日本語日本語日本語\"", "\"日本語日本語日本語\n\"", "\"日本語日本語日本語\\u\"", "\ufeff{}", "{}\x00", "\"\\\x00\"",
	`{"a":"b","a":"c"}`, `{"":""}`, `{"\u0061":1}`,
	strings.Repeat("[", 63) + strings.Repeat("]", 63), strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65),
	strings.Repeat(`{"a":[`, 100) + `1` + strings.Repeat(`]}`, 100), strings.Repeat(`{"a":[`, 100) + `1` + strings.Repeat(`}]`, 100), strings.Repeat(`[{"a":`, 70) + `1` + strings.Repeat(`},2]`, 70),
}

func TestValidAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range texts {
		assert.Equal(t, json.Valid([]byte(text)), Valid([]byte(text)), "%q", text)
		assert.Equal(t, json.Valid([]byte(text)), Valid([]byte(text)), "%q as string", text)
	}
}

// Every text is also checked with one byte changed, where the words of a string scan begin or end.
func TestValidAgreesWithEncodingJSONOnMutations(t *testing.T) {
	for _, text := range texts {
		if len(text) > 200 {
			continue
		}
		for i := range text {
			for _, b := range []byte("\"\\{}[]:,0-eu.\x00\x1f \xff") {
				mutated := []byte(text)
				mutated[i] = b
				if json.Valid(mutated) != Valid(mutated) {
					t.Errorf("%q: encoding/json says %v", mutated, json.Valid(mutated))
				}
			}
		}
	}
}

func TestSkipNestsAsDeepAsEncodingJSON(t *testing.T) {
	for _, depth := range []int{MaxDepth - 1, MaxDepth, MaxDepth + 1, 100 * MaxDepth} {
		for _, text := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		} {
			_, err := Skip([]byte(text), 0, 0)
			if json.Valid([]byte(text)) {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrTooDeep)
			}
		}
	}
	_, err := Skip([]byte("[[]]"), 0, MaxDepth-1)
	require.ErrorIs(t, err, ErrTooDeep, "the arrays around the value count")
}

func TestSkipStopsAtTheEndOfTheValue(t *testing.T) {
	for text, rest := range map[string]string{
		`{"a":1},2`:  `,2`,
		` [1] ]`:     ` ]`,
		`"a\"b" "c"`: ` "c"`,
		`12,`:        `,`,
		`-1.5e3]`:    `]`,
		`nullnull`:   `null`,
		`01`:         `1`,
		`{}{}`:       `{}`,
	} {
		end, err := Skip([]byte(text), 0, 0)
		require.NoError(t, err, text)
		assert.Equal(t, rest, text[end:])
	}
}

func TestSkipDistinguishesTruncatedFromMalformed(t *testing.T) {
	const text = `{"a":[1.5e+3,-2,true,false,null,"x\n\u12aBéy日本語0123456789"],"b":{"c":{}},"d":[]}`
	require.True(t, Valid([]byte(text)))
	for i := range text {
		_, err := Skip([]byte(text[:i]), 0, 0)
		require.ErrorIs(t, err, ErrTruncated, "%q", text[:i])
		at := new(Error)
		require.ErrorAs(t, err, &at)
		assert.Equal(t, i, at.Offset)
	}
	for _, malformed := range []string{`{"a":1]`, `[1}`, `{"a" "b"}`, `[tru,`, `[01]`, `["\q"]`, "[\"\n\"]", `{"a":1,}`, `{1`} {
		_, err := Skip([]byte(malformed), 0, 0)
		require.Error(t, err, malformed)
		assert.False(t, errors.Is(err, ErrTruncated), malformed)
	}
}

func TestErrorsReportOffsetsNotContent(t *testing.T) {
	for text, want := range map[string]string{
		`{"secret"x`:          "invalid character at offset 9",
		`{"a":"secret\x"}`:    "invalid escape in string at offset 13",
		"{\"a\":\"secret\n\"": "invalid character in string at offset 12",
		`{"a":"secret`:        "unexpected EOF at offset 12",
		`[secret]`:            "invalid character at offset 1",
	} {
		_, err := Skip([]byte(text), 0, 0)
		assert.EqualError(t, err, want)
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := json.Valid(data)
		if Valid(data) != want {
			t.Fatalf("encoding/json says %v", want)
		}
		end, err := Skip(data, 0, 0)
		if err != nil {
			return
		}
		if !json.Valid(data[:end]) {
			t.Fatalf("skipped %q", data[:end])
		}
	})
}
