package cut

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func text(n int) string { return strings.Repeat("x", n) }

const identity = `"apiVersion":"v1","kind":"Thing","metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"7"`

func TestWhatFitsStays(t *testing.T) {
	object := `{` + identity + `},"status":{"a":["` + text(300) + `"]}}`
	fitting, paths := Fit(object, len(object), Text)
	assert.Equal(t, object, fitting)
	assert.Nil(t, paths)
}

// Each object is one byte too large, or much too large because of one value, so that the first of the order goes and nothing else.
func TestOrder(t *testing.T) {
	annotation := func(n int) string { return `,"annotations":{"small":"` + text(100) + `","a.b/c":"` + text(n) + `"}` }
	list := `["` + text(290) + `"]`
	for _, c := range []struct{ name, metadata, rest, path, cut string }{
		{"a large annotation before all else", annotation(5000), `"spec":{"s":"` + text(9000) + `"},"status":{"l":` + list + `}`, "metadata.annotations.a.b/c", `"[TRUNCATED len=5000]"`},
		{"the annotation of an object inside", "", `"spec":{"template":{"metadata":{"annotations":{"a":"` + text(4097) + `"}}},"s":"` + text(9000) + `"}`, "spec.template.metadata.annotations.a", `"[TRUNCATED len=4097]"`},
		{"then lists in the status", annotation(4096), `"spec":{"s":"` + text(9000) + `","l":` + list + `},"status":{"a":{"b":[{"c":` + list + `}]}}`, "status.a.b", "null"},
		{"the largest of them", "", `"status":{"a":` + list + `,"b":["` + text(400) + `"],"c":"` + text(9000) + `"}`, "status.b", "null"},
		{"but no small ones", "", `"status":{"conditions":` + list + `},"data":{"a":"` + text(200_000) + `"}`, "data.a", `"[TRUNCATED len=200000]"`},
		{"then schemas", "", `"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"description":"` + text(300) + `"}}}],"s":"` + text(9000) + `"}`, "spec.versions.0.schema.openAPIV3Schema", "null"},
		{"then strings, the largest first", annotation(4000), `"spec":{"a":"` + text(300) + `","b":["` + text(4500) + `"],"c":"` + text(600) + `"}`, "spec.b.0", `"[TRUNCATED len=4500]"`},
		{"of two that are as large the first", "", `"spec":{"a":"` + text(300) + `","b":"` + text(300) + `"}`, "spec.a", `"[TRUNCATED len=300]"`},
		{"then whole fields", "", `"data":{"a":"` + text(200) + `","b":"` + text(200) + `"},"more":{"a":"` + text(200) + `","b":"` + text(100) + `"}`, "data", "null"},
		{"also of the metadata", `,"labels":{"a":"` + text(200) + `","b":"` + text(200) + `"}`, `"spec":{"a":"` + text(200) + `","b":"` + text(190) + `"}`, "metadata.labels", "null"},
	} {
		object := `{` + identity + c.metadata + `},` + c.rest + `}`
		require.True(t, json.Valid([]byte(object)), c.name)
		most := len(object) - 1
		if len(object) > 100_000 {
			most = 1000
		}
		fitting, paths := Fit(object, most, Text)
		assert.Equal(t, []string{c.path}, paths, c.name)
		check(t, object, most, Text)
		assert.Contains(t, fitting, c.cut, c.name)
	}
}

func TestTheIdentityRemains(t *testing.T) {
	members := make([]string, 10_000)
	for i := range members {
		members[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	whole := `{` + identity + `}}`
	for _, object := range []string{
		`{` + identity + `},` + strings.Join(members, ",") + `}`,
		`{` + identity + `,` + strings.Join(members, ",") + `}}`,
		`{"` + text(9000) + `":1,` + identity + `}}`,
		`{"kind":"Thing","metadata":{"uid":"u","namespace":"s","x":{` + strings.Join(members[:10], ",") + `},"resourceVersion":"7","name":"n","` + text(9000) + `":2},"apiVersion":"v1"}`,
	} {
		fitting, paths := Fit(object, 1000, Text)
		assert.Equal(t, []string{"*"}, paths)
		assert.JSONEq(t, whole, fitting)
	}
	fitting, paths := Fit(`{"kind":"`+text(2000)+`"}`, 1000, Text)
	assert.Equal(t, `{"kind":"`+text(2000)+`","metadata":{}}`, fitting, "even if it does not fit")
	assert.Equal(t, []string{"*"}, paths)
	fitting, _ = Fit(`{"metadata":{"name":["`+text(2000)+`"]},"kind":{"a":"`+text(2000)+`"}}`, 1000, Text)
	assert.Equal(t, `{"metadata":{"name":["[TRUNCATED len=2000]"]},"kind":{"a":"[TRUNCATED len=2000]"}}`, fitting, "what is no identity")
}

func TestPaths(t *testing.T) {
	var items []string
	for i := range 30 {
		items = append(items, `{"s":"`+text(1000+i)+`"}`)
	}
	object := `{` + identity + `},"items":[` + strings.Join(items, ",") + `]}`
	_, paths := Fit(object, 3000, Text)
	require.Len(t, paths, 21)
	assert.Equal(t, "items.29.s", paths[0])
	assert.Equal(t, "items.28.s", paths[1])
	assert.Equal(t, "and 9 more", paths[20], "one of them for the paths")

	_, paths = Fit(`{`+identity+`},"`+strings.Repeat("ü", 300)+`":"`+text(5000)+`","a\u00e4\"":"`+text(4000)+`"}`, 2000, Text)
	assert.Equal(t, []string{strings.Repeat("ü", 128) + "…", `aä"`}, paths)
}

// check checks what must hold of any object, and returns what was cut.
func check(t *testing.T, object string, max int, form Form) []string {
	t.Helper()
	fitting, paths := Fit(object, max, form)
	again, pathsAgain := Fit(object, max, form)
	require.Equal(t, fitting, again)
	require.Equal(t, paths, pathsAgain)
	require.True(t, json.Valid([]byte(fitting)), fitting)
	if len(object) <= max && form == Text || sizeOfMap(t, object) <= max && len(paths) == 0 {
		require.Equal(t, object, fitting)
		require.Empty(t, paths)
		return nil
	}
	require.NotEmpty(t, paths)
	var before, after map[string]any
	require.NoError(t, json.Unmarshal([]byte(object), &before))
	require.NoError(t, json.Unmarshal([]byte(fitting), &after))
	metadata := func(o map[string]any) map[string]any { m, _ := o["metadata"].(map[string]any); return m }
	for _, key := range identityKeys[:name] {
		if s, ok := before[key].(string); ok {
			require.Equal(t, s, after[key])
		}
	}
	for _, key := range identityKeys[name:] {
		if s, ok := metadata(before)[key].(string); ok {
			require.Equal(t, s, metadata(after)[key])
		}
	}
	if paths[0] == everything {
		require.LessOrEqual(t, len(after), 3)
		return paths
	}
	if form == Text {
		require.LessOrEqual(t, len(fitting)+pathsSize(paths), max)
	} else {
		require.LessOrEqual(t, sizeOfMap(t, fitting)+pathsSize(paths), max)
	}
	found := map[string]bool{}
	compare(t, before, after, nil, found)
	for _, path := range paths {
		if !strings.HasPrefix(path, "and ") && !strings.HasSuffix(path, "…") {
			require.True(t, within(found, path), "%s was not cut, but %v", path, found)
		}
	}
	return paths
}

// within reports whether the value at the path, or one around it, is among those.
func within(found map[string]bool, path string) bool {
	for i := range len(path) + 1 {
		if (i == len(path) || path[i] == '.') && found[path[:i]] {
			return true
		}
	}
	return false
}

// compare checks that all that is left is as it was, and collects what is not.
func compare(t *testing.T, before, after any, way []string, found map[string]bool) {
	t.Helper()
	path := strings.Join(way, ".")
	part := func(step string) []string { return append(way[:len(way):len(way)], step) }
	switch was := before.(type) {
	case map[string]any:
		is, ok := after.(map[string]any)
		if !ok {
			break
		}
		require.Len(t, is, len(was))
		for key := range was {
			compare(t, was[key], is[key], part(key), found)
		}
		return
	case []any:
		is, ok := after.([]any)
		if !ok {
			break
		}
		require.Len(t, is, len(was))
		for i := range was {
			compare(t, was[i], is[i], part(strconv.Itoa(i)), found)
		}
		return
	case string:
		if is, ok := after.(string); ok && is != was {
			require.Equal(t, fmt.Sprintf("[TRUNCATED len=%d]", len(was)), is)
			found[path] = true
			return
		}
	}
	if before != nil && after == nil {
		found[path] = true
		return
	}
	require.Equal(t, before, after, path)
}

// random writes an object with the keys that matter, and values of sizes around the bounds.
func random(r *rand.Rand) string {
	keys := []string{"metadata", "annotations", "status", "spec", "openAPIV3Schema", "labels", "a", "b", "conditions", "name", "kind", "uid", "data", "é", `x\n`, "y.z"}
	var value func(depth int) string
	members := func(depth int) string {
		var out []string
		seen := map[string]bool{}
		for range r.IntN(6) {
			key := keys[r.IntN(len(keys))]
			if !seen[key] {
				seen[key] = true
				out = append(out, `"`+key+`":`+value(depth+1))
			}
		}
		return strings.Join(out, ",")
	}
	value = func(depth int) string {
		switch n := r.IntN(10); {
		case n < 4 && depth < 6:
			return "{" + members(depth) + "}"
		case n < 6 && depth < 6:
			var out []string
			for range r.IntN(4) {
				out = append(out, value(depth+1))
			}
			return "[" + strings.Join(out, ", ") + "]"
		case n == 6:
			return []string{"1", "true", "null", "-2.5e3"}[r.IntN(4)]
		}
		part := []string{"x", `\"`, "ü", `\u00e4`}[r.IntN(4)]
		return `"` + strings.Repeat(part, []int{0, 3, 100, 250, 270, 2000, 4200}[r.IntN(7)]) + `"`
	}
	return "{" + members(0) + "}"
}

func TestRandomObjects(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	classesSeen := map[string]int{}
	for range 400 {
		object := random(r)
		for range 3 {
			form := Form(r.IntN(2))
			for _, path := range check(t, object, r.IntN(len(object)+10), form) {
				switch {
				case path == everything:
					classesSeen["identity"]++
				case strings.Contains(path, "annotations."):
					classesSeen["annotations"]++
				case strings.HasPrefix(path, "status."):
					classesSeen["status"]++
				case strings.HasSuffix(path, "openAPIV3Schema"):
					classesSeen["schema"]++
				}
			}
		}
		if t.Failed() {
			t.Fatal(object)
		}
	}
	for _, class := range []string{"identity", "annotations", "status", "schema"} {
		assert.Greater(t, classesSeen[class], 30, class)
	}
}

// No object makes it quadratic, whatever it is made of.
func TestLargeObjectsTakeLinearTime(t *testing.T) {
	const size = 2 << 20
	repeat := func(part string) string { return strings.Repeat(part, size/len(part)) }
	deep := func(open, closing string) string {
		return strings.Repeat(open, 4500) + "1" + strings.Repeat(closing, 4500)
	}
	for name, object := range map[string]string{
		"strings":           `{"a":[` + repeat(`"`+text(300)+`",`) + `1]}`,
		"strings in fields": `{` + repeat(`"a":"`+text(300)+`",`) + `"b":1}`,
		"fields of objects": `{` + repeat(`"a":{"b":"`+text(200)+`","c":"`+text(200)+`"},`) + `"b":1}`,
		"small fields":      `{` + repeat(`"a":1,`) + `"b":1}`,
		"status lists":      `{"status":{` + repeat(`"a":["`+text(300)+`"],`) + `"b":1}}`,
		"nested lists":      `{"status":[` + strings.Repeat(deep(`{"a":[`, `]}`)+",", 100) + `1]}`,
		"schemas":           `{"spec":{` + repeat(`"openAPIV3Schema":{"a":"`+text(300)+`"},`) + `"b":1}}`,
		"annotations":       `{"metadata":{"annotations":{` + repeat(`"a":"`+text(5000)+`",`) + `"b":"c"}}}`,
		"nested objects":    `{"a":[` + strings.Repeat(deep(`{"a":`, `}`)+",", 100) + `1]}`,
		"escapes":           `{"a":["` + repeat(`\u00e4`) + `"]}`,
		"a key":             `{"` + repeat("a") + `":1}`,
	} {
		require.True(t, json.Valid([]byte(object)), name)
		for _, max := range []int{256 << 10, len(object) - 1} {
			start := time.Now()
			fitting, paths := Fit(object, max, Text)
			assert.Less(t, time.Since(start), 10*time.Second, name)
			assert.LessOrEqual(t, len(fitting), max, name)
			assert.NotEmpty(t, paths, name)
		}
	}
}

func FuzzFit(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		if object := random(r); len(object) < 3000 {
			f.Add(object, len(object)/2)
		}
	}
	f.Fuzz(func(t *testing.T, object string, max int) {
		var any map[string]any
		// What comes here has come through the decoder, and of equal keys only one can be compared.
		if json.Unmarshal([]byte(object), &any) != nil || any == nil || hasEqualKeys(object) || !strings.HasPrefix(object, "{") {
			return
		}
		check(t, object, max, Text)
		check(t, object, max, Map)
	})
}

// hasEqualKeys reports whether an object has members of the same key, perhaps written in another way.
func hasEqualKeys(object string) bool {
	decoder := json.NewDecoder(strings.NewReader(object))
	decoder.UseNumber()
	var open []map[string]bool
	var isKey []bool
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		last := len(open) - 1
		switch token := token.(type) {
		case json.Delim:
			if last >= 0 && (token == '{' || token == '[') {
				isKey[last] = true
			}
			switch token {
			case '{':
				open, isKey = append(open, map[string]bool{}), append(isKey, true)
			case '[':
				open, isKey = append(open, nil), append(isKey, false)
			default:
				open, isKey = open[:last], isKey[:last]
			}
			continue
		case string:
			if last >= 0 && open[last] != nil && isKey[last] {
				if open[last][token] {
					return true
				}
				open[last][token], isKey[last] = true, false
				continue
			}
		}
		if last >= 0 {
			isKey[last] = true
		}
	}
}
