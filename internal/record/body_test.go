package record

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testobjects"
)

// bodyByEncodingJSON returns the expected result of bodyMap, computed independently.
func bodyByEncodingJSON(text string) (map[string]any, error) {
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("not valid")
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var raw map[string]any
	if err := dec.Decode(&raw); err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, fmt.Errorf("null is not an object")
	}
	m := pcommon.NewMap()
	if err := m.FromRaw(numbered(raw).(map[string]any)); err != nil {
		return nil, err
	}
	return m.AsRaw(), nil
}

// numbered replaces each number with the value that it becomes.
func numbered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = numbered(value)
		}
	case []any:
		for i, value := range v {
			v[i] = numbered(value)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	}
	return v
}

func checkBody(t *testing.T, text string) {
	t.Helper()
	got := pcommon.NewMap()
	got.PutStr("from", "before")
	err := bodyMap(got, text)
	want, wantErr := bodyByEncodingJSON(text)
	if wantErr != nil {
		require.Error(t, err, "%q", text)
		require.Equal(t, map[string]any{"from": "before"}, got.AsRaw())
		return
	}
	require.NoError(t, err, "%q", text)
	require.Equal(t, want, got.AsRaw(), "%q", text)
}

var bodyTexts = []string{
	`{}`, `{"a":"b"}`, `{"a":{}, "b":[], "c":null, "d":true, "e":false}`, ` { "a" : [ 1 , "b" , { "c" : [ [ ] ] } ] } `,
	`{"int":1,"zero":0,"minus":-42,"max":9223372036854775807,"min":-9223372036854775808,"over":9223372036854775808,"huge":123456789012345678901234567890}`,
	`{"float":1.5,"whole":1.0,"exp":1e3,"minus":-0.0,"minusZero":-0,"small":1e-400,"large":1e400,"negative":-1e400}`,
	`{"a\nb":"c\"d\\e","\u00e9":"\ud83d\ude00 \ud800","é":"日本語","":""}`,
	`{"a":1,"a":"b","a":null}`, `{"a":{"b":1},"a":{"c":2}}`, `{"a":1,"\u0061":2}`, `{"a":[1],"a":2}`,
	"{\"a\":\"b\xffc\",\"d\xfe\":1}",
	``, ` `, `[]`, `null`, `"a"`, `1`, `{`, `{"a":1`, `{"a":1}x`, `{"a":1}{}`, `{"a":01}`, `{a:1}`, `{"a":tru}`, `{"a":1,}`, "{\"a\":\"\n\"}",
}

func TestBodyMap(t *testing.T) {
	for _, text := range bodyTexts {
		checkBody(t, text)
	}
}

func TestBodyMapOfRealObjects(t *testing.T) {
	entries, err := os.ReadDir("../redact/testdata/objects")
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	for _, entry := range entries {
		checkBody(t, bodyObject(t, entry.Name()))
	}
}

// Like redact's test of the same name: with the redacted object of every built-in kind, and with the unredacted one.
func TestBodyMapAgreesWithEncodingJSONOnEveryBuiltInKind(t *testing.T) {
	for _, o := range testobjects.All(t) {
		t.Run(o.Name(), func(t *testing.T) {
			t.Parallel()
			for _, f := range o.Forms() {
				obj, _, err := redact.NewPlan(f.Group, f.Resource).Decode(f.JSON)
				require.NoError(t, err, f.Name)
				checkBody(t, obj.JSON)
				checkBody(t, string(f.JSON))
			}
		})
	}
}

func bodyObject(tb testing.TB, file string) string {
	tb.Helper()
	data, err := os.ReadFile("../redact/testdata/objects/" + file)
	require.NoError(tb, err)
	return string(data)
}

func TestBodyMapKeepsTheOrderOfMembers(t *testing.T) {
	m := pcommon.NewMap()
	require.NoError(t, bodyMap(m, `{"z":1,"a":2,"m":3,"a":4}`))
	var keys []string
	for key := range m.All() {
		keys = append(keys, key)
	}
	assert.Equal(t, []string{"z", "a", "m"}, keys)
}

func TestBodyMapOfNumbersBeyondFloats(t *testing.T) {
	m := pcommon.NewMap()
	require.NoError(t, bodyMap(m, `{"a":1e999,"b":9223372036854775808}`))
	assert.Equal(t, map[string]any{"a": "1e999", "b": float64(math.MaxInt64)}, m.AsRaw())
}

// wideObject has n members, some of them twice, with values of all kinds.
func wideObject(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	members := make([]string, n)
	for i := range members {
		value := []string{`"text"`, `null`, `1`, `2.5`, `true`, `{"a":{"b":[1,2]}}`, `["x",{"y":null}]`, `"a\nb"`}[i%8]
		members[i] = fmt.Sprintf(`"key-%d":%s`, r.IntN(n*2), value)
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestBodyMapOfWideObjects(t *testing.T) {
	for _, n := range []int{manyMembers - 1, manyMembers, manyMembers + 1, 5000} {
		checkBody(t, wideObject(n))
		checkBody(t, `{"data":`+wideObject(n)+`,"after":[`+wideObject(n)+`,1]}`)
	}
}

func TestBodyMapNestsAsDeepAsEncodingJSON(t *testing.T) {
	nested := func(depth int) string {
		return strings.Repeat(`{"a":[`, depth/2) + strings.Repeat(`]}`, depth/2)
	}
	require.NoError(t, bodyMap(pcommon.NewMap(), nested(jsonscan.MaxDepth)))
	require.ErrorIs(t, bodyMap(pcommon.NewMap(), nested(jsonscan.MaxDepth+2)), jsonscan.ErrTooDeep)
}

func FuzzBodyMap(f *testing.F) {
	for _, text := range bodyTexts {
		f.Add(text)
	}
	f.Add(bodyObject(f, "secret.json"))
	f.Add(bodyObject(f, "event-core.json"))
	f.Add(wideObject(manyMembers + 10))
	f.Fuzz(func(t *testing.T, text string) {
		checkBody(t, text)
		if m := pcommon.NewMap(); bodyMap(m, text) == nil {
			checkUTF8(t, m)
		}
	})
}

// checkUTF8 checks that all strings are valid for protobuf.
func checkUTF8(t *testing.T, m pcommon.Map) {
	t.Helper()
	for key, v := range m.All() {
		require.True(t, utf8.ValidString(key))
		require.True(t, utf8.ValidString(v.AsString()))
		if v.Type() == pcommon.ValueTypeMap {
			checkUTF8(t, v.Map())
		}
	}
}

func BenchmarkBodyMap(b *testing.B) {
	texts := map[string]string{
		"pod": bodyObject(b, "pod.json"), "node": bodyObject(b, "node.json"), "wide-200": wideObject(200), "wide-5000": wideObject(5000),
	}
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := bodyMap(pcommon.NewMap(), text); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				var raw map[string]any
				if err := json.Unmarshal([]byte(text), &raw); err != nil {
					b.Fatal(err)
				}
				if err := pcommon.NewMap().FromRaw(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
