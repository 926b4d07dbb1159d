package diff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

func describe(d *Diff) (lines []string) {
	for _, c := range d.Changes {
		lines = append(lines, fmt.Sprintf("%s: %s%s > %s%s", c.Path, c.Old.JSON, c.Old.Text, c.New.JSON, c.New.Text))
	}
	return lines
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"nothing":             {`{"a":1}`, ` {"a":1} `, nil},
		"scalars":             {`{"s":"x","n":3,"b":true,"z":null}`, `{"s":"y","n":5,"b":false,"z":0}`, []string{`b: true > false`, `n: 3 > 5`, `s: "x" > "y"`, `z: null > 0`}},
		"added and removed":   {`{"a":{"x":1}}`, `{"a":{"y":"2"}}`, []string{`a.x: 1 > `, `a.y:  > "2"`}},
		"whole objects":       {`{"a":{"x":{"p":1}}}`, `{"a":{"y":[1]}}`, []string{`a.x: {"p":1} > `, `a.y:  > [1]`}},
		"other types":         {`{"a":{"x":1},"b":"t"}`, `{"a":[1],"b":{"y":2}}`, []string{`a: {"x":1} > [1]`, `b: "t" > {"y":2}`}},
		"keys with dots":      {`{"metadata":{"annotations":{"example.com/a":"1"}}}`, `{"metadata":{"annotations":{"example.com/a":"2"}}}`, []string{`metadata.annotations.example.com/a: "1" > "2"`}},
		"keys with escapes":   {`{"a\"\u00e9":1}`, `{"a\"é":2}`, []string{`a"é: 1 > 2`}},
		"what always changes": {`{"metadata":{"resourceVersion":"1","generation":1,"uid":"u"},"spec":{"generation":1}}`, `{"metadata":{"resourceVersion":"2","generation":2,"uid":"u"},"spec":{"generation":2}}`, []string{`spec.generation: 1 > 2`}},
		"elements by name": {
			`{"c":[{"name":"app","image":"a:1"},{"name":"log","image":"l:1"},{"name":"old"}]}`,
			`{"c":[{"name":"log","image":"l:1"},{"name":"app","image":"a:2"},{"name":"new"}]}`,
			[]string{`c.app.image: "a:1" > "a:2"`, `c.new:  > {"name":"new"}`, `c.old: {"name":"old"} > `},
		},
		"conditions by type": {
			`{"conditions":[{"type":"Ready","status":"False"},{"type":"Old","status":"True"}]}`,
			`{"conditions":[{"type":"Ready","status":"True"},{"type":"Old","status":"True"}]}`,
			[]string{`conditions.Ready.status: "False" > "True"`},
		},
		"ports by number":             {`{"p":[{"containerPort":80,"protocol":"TCP"}]}`, `{"p":[{"containerPort":80,"protocol":"UDP"}]}`, []string{`p.80.protocol: "TCP" > "UDP"`}},
		"a name is more than a type":  {`{"v":[{"type":"t","name":"n","x":1}]}`, `{"v":[{"name":"n","x":2,"type":"t"}]}`, []string{`v.n.x: 1 > 2`}},
		"names that are not unique":   {`{"v":[{"name":"n","x":1},{"name":"n","x":2}]}`, `{"v":[{"name":"n","x":1},{"name":"n","x":3}]}`, []string{`v.1.x: 2 > 3`}},
		"an element that is inserted": {`{"l":["a","b","c"]}`, `{"l":["a","new","b","c"]}`, []string{`l.1:  > "new"`}},
		"an element that is removed":  {`{"l":["a","b","c"]}`, `{"l":["a","c"]}`, []string{`l.1: "b" > `}},
		"elements that change":        {`{"l":[1,2,3,4]}`, `{"l":[1,5,6,4]}`, []string{`l.1: 2 > 5`, `l.2: 3 > 6`}},
		"lists that become empty":     {`{"l":["a"]}`, `{"l":[]}`, []string{`l.0: "a" > `}},
		"lists of lists":              {`{"l":[[1],[2]]}`, `{"l":[[1],[3]]}`, []string{`l.1.0: 2 > 3`}},
		"white space":                 {`{"a": [ 1 , 2 ], "b" : 1}`, `{"a":[1,2],"b":2}`, []string{`b: 1 > 2`}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Compare([]byte(c.before), []byte(c.after), nil)
			assert.Equal(t, c.want, describe(d))
			assert.Zero(t, d.More)
			assert.Len(t, Compare([]byte(c.after), []byte(c.before), nil).Changes, len(c.want), "the other way round")
		})
	}
}

func TestIgnoredIsInNoDiff(t *testing.T) {
	policy := redact.NewPolicy(redact.Options{Ignored: []redact.Ignored{{Resource: "nodes", Paths: []string{"status.conditions.*.at", "spec.list.log.image", "spec.all"}}}})
	plan := policy.Plan("", "nodes", nil)
	d := Compare([]byte(`{"spec":{"list":[{"name":"log","image":1},{"name":"app","image":1}],"all":{"x":1}},"status":{"conditions":[{"type":"Ready","at":1,"status":"a"}]}}`),
		[]byte(`{"spec":{"list":[{"name":"log","image":2},{"name":"app","image":2}],"all":{"x":2}},"status":{"conditions":[{"type":"Ready","at":2,"status":"b"}]}}`), plan.Ignores)
	assert.Equal(t, []string{`spec.list.app.image: 1 > 2`, `status.conditions.Ready.status: "a" > "b"`}, describe(d))
}

func TestDiffIsBounded(t *testing.T) {
	var before, after strings.Builder
	for i := range MaxChanges + 7 {
		fmt.Fprintf(&before, `,"k%03d":1`, i)
		fmt.Fprintf(&after, `,"k%03d":2`, i)
	}
	d := Compare([]byte("{"+before.String()[1:]+"}"), []byte("{"+after.String()[1:]+"}"), nil)
	assert.Len(t, d.Changes, MaxChanges)
	assert.Equal(t, 7, d.More)
	assert.Equal(t, "k000", d.Changes[0].Path)

	less := d.Within(d.Bytes() / 2)
	assert.Len(t, less.Changes, MaxChanges/2)
	assert.Equal(t, 7+MaxChanges/2, less.More)
	assert.Len(t, d.Changes, MaxChanges, "the diff itself is as it was")
	assert.Same(t, d, d.Within(d.Bytes()))

	long := strings.Repeat("é", MaxValue)
	d = Compare([]byte(`{"s":"`+long+`","o":1}`), []byte(`{"s":"x","o":{"a":"`+long+`"}}`), nil)
	for _, v := range []Value{d.Changes[0].New, d.Changes[1].Old} {
		assert.Empty(t, v.JSON)
		assert.LessOrEqual(t, len(v.Text), MaxValue+len("…"))
		assert.True(t, strings.HasSuffix(v.Text, "é…"), v.Text)
	}
}

func TestDeepValuesChangeAsAWhole(t *testing.T) {
	deep := func(n int, value string) string { return strings.Repeat(`{"a":`, n) + value + strings.Repeat("}", n) }
	d := Compare([]byte(deep(maxDepth, "1")), []byte(deep(maxDepth, "2")), nil)
	assert.Equal(t, []string{strings.TrimSuffix(strings.Repeat("a.", maxDepth), ".") + ": 1 > 2"}, describe(d))
	d = Compare([]byte(deep(9000, "1")), []byte(deep(9000, "2")), nil)
	assert.Len(t, d.Changes, 1)
}

// Comparing must not fail on what the API server would never send.
func FuzzCompare(f *testing.F) {
	f.Add(`{"a":[{"name":"x"}]}`, `{"a":[{"name":"y"},1]}`)
	f.Add(`{"a":1`, `{"a":`)
	f.Add(`[`, `[1,`)
	f.Fuzz(func(t *testing.T, before, after string) {
		if d := Compare([]byte(before), []byte(before), nil); len(d.Changes) > 0 {
			t.Fatalf("a state differs from itself: %v", describe(d))
		}
		Compare([]byte(before), []byte(after), nil)
	})
}
