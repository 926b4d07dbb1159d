package redact

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact/oracle"
)

func TestFields(t *testing.T) {
	for _, c := range []struct {
		name            string
		fields          Fields
		group, resource string
		in, out         string
	}{
		{"a member", Fields{Drop: []string{"status"}}, "", "pods", `{"kind":"Pod","spec":{"a":1},"status":{"b":2}}`, `{"kind":"Pod","spec":{"a":1}}`},
		{"the first of its object", Fields{Drop: []string{"spec.a"}}, "", "pods", `{"spec":{"a":1,"b":2}}`, `{"spec":{"b":2}}`},
		{"the only one", Fields{Drop: []string{"spec.a"}}, "", "pods", `{"spec": { "a": 1 }}`, `{"spec":{}}`},
		{"of any key", Fields{Drop: []string{"a.*.c"}}, "", "pods", `{"a":{"x":{"c":1,"d":2},"y":{"c":{"z":1}},"c":3},"b":{"x":{"c":4}}}`, `{"a":{"x":{"d":2},"y":{},"c":3},"b":{"x":{"c":4}}}`},
		{"of any element", Fields{Drop: []string{"spec.containers.*.resources"}}, "", "pods", `{"spec":{"containers":[{"name":"a","resources":{}},{"resources":[1],"image":"b"}]}}`, `{"spec":{"containers":[{"name":"a"},{"image":"b"}]}}`},
		{"an element", Fields{Drop: []string{"a.1"}}, "", "pods", `{"a":[1,2,3]}`, `{"a":[1,3]}`},
		{"all elements", Fields{Drop: []string{"a.*"}}, "", "pods", `{"a":[1,{"b":2}]}`, `{"a":[]}`},
		{"a key with dots", Fields{Drop: []string{"metadata.annotations.example.com/a"}}, "", "pods", `{"metadata":{"annotations":{"example.com/a":"x","example.com/b":"y","example":{"com/a":1}}}}`, `{"metadata":{"annotations":{"example.com/b":"y","example":{}}}}`},
		{"a key with escapes", Fields{Drop: []string{"größe"}}, "", "pods", `{"gr\u00f6\u00dfe":1,"größe":2,"a":3}`, `{"a":3}`},
		{"twice", Fields{Drop: []string{"a"}}, "", "pods", `{"a":1,"b":2,"a":3}`, `{"b":2}`},
		{"what is not there", Fields{Drop: []string{"spec.x.y", "z"}}, "", "pods", `{"spec":{"x":1}}`, `{"spec":{"x":1}}`},
		{"only some", Fields{Keep: []string{"spec.replicas", "status"}}, "apps", "deployments",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"7","labels":{"a":"b"},"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"replicas":3,"template":{}},"status":{"replicas":2}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"7"},"spec":{"replicas":3},"status":{"replicas":2}}`},
		{"only some of elements", Fields{Keep: []string{"spec.containers.*.image"}}, "", "pods", `{"kind":"Pod","spec":{"containers":[{"image":"a","name":"x"},"text",{"name":"y"}]}}`, `{"kind":"Pod","spec":{"containers":[{"image":"a"},{}]}}`},
		{"a path to keep that ends too early", Fields{Keep: []string{"spec.a.b"}}, "", "pods", `{"spec":{"a":"text"},"x":1}`, `{"spec":{}}`},
		{"both", Fields{Keep: []string{"spec"}, Drop: []string{"spec.template", "metadata.uid"}}, "apps", "deployments", `{"metadata":{"name":"n","uid":"u"},"spec":{"replicas":3,"template":{"x":1}},"status":{}}`, `{"metadata":{"name":"n"},"spec":{"replicas":3}}`},
		{"what is around what is kept", Fields{Keep: []string{"spec", "spec.a"}}, "", "pods", `{"spec":{"a":1,"b":2}}`, `{"spec":{"a":1,"b":2}}`},

		// What is dropped decides all the same.
		{"the kind of a Secret before its data", Fields{Drop: []string{"kind"}}, "", "things", `{"kind":"Secret","data":{"a":"eA=="}}`, `{"data":{"a":"[REDACTED]"}}`},
		{"and after them", Fields{Drop: []string{"kind"}}, "", "things", `{"data":{"a":"eA=="},"kind":"Secret"}`, `{"data":{"a":"[REDACTED]"}}`},
		{"the kind of a Secret inside", Fields{Drop: []string{"spec.*.kind"}}, "g", "things", `{"spec":[{"data":{"a":"eA==","b":"eA=="},"kind":"Secret"},{"kind":"SealedSecret","template":{"data":{"a":"x"}}}]}`, `{"spec":[{"data":{"a":"[REDACTED]","b":"[REDACTED]"}},{"template":{"data":{"a":"[REDACTED]"}}}]}`},
		{"a part of such data", Fields{Drop: []string{"spec.data.b"}}, "g", "things", `{"spec":{"data":{"a":"eA==","b":"eA=="},"kind":"Secret"}}`, `{"spec":{"data":{"a":"[REDACTED]"},"kind":"Secret"}}`},
		{"a sensitive name", Fields{Drop: []string{"spec.*.name"}}, "g", "things", `{"spec":[{"name":"password","value":"x"},{"value":"y","name":"password"},{"value":"z"}]}`, `{"spec":[{"value":"[REDACTED]"},{"value":"[REDACTED]"},{"value":"z"}]}`},
		{"the value beside it", Fields{Drop: []string{"spec.value"}}, "g", "things", `{"spec":{"value":"x","default":"y","name":"password"}}`, `{"spec":{"default":"[REDACTED]","name":"password"}}`},
		{"a part of a value before its name", Fields{Drop: []string{"spec.value.b"}}, "g", "things", `{"spec":{"value":{"a":"x","b":"y"},"name":"password"}}`, `{"spec":{"value":{"a":"[REDACTED]"},"name":"password"}}`},
		{"arguments before their command", Fields{Drop: []string{"spec.args"}}, "g", "things", `{"spec":{"args":["-phunter2"],"command":["mysql"]}}`, `{"spec":{"command":["mysql"]}}`},
		{"a command that holds a Secret", Fields{Drop: []string{"spec.command"}}, "g", "things", `{"spec":{"command":[{"data":{"a":"eA=="},"kind":"Secret"}],"x":1}}`, `{"spec":{"x":1}}`},
		{"a command", Fields{Drop: []string{"spec.command"}}, "g", "things", `{"spec":{"command":["mysql"],"args":["-phunter2"]}}`, `{"spec":{"args":["-p[REDACTED]"]}}`},
		{"after its arguments", Fields{Drop: []string{"spec.command", "spec.args.0"}}, "g", "things", `{"spec":{"args":["x","-phunter2"],"command":["mysql"]}}`, `{"spec":{"args":["-p[REDACTED]"]}}`},
		{"an option", Fields{Drop: []string{"spec.args.0"}}, "g", "things", `{"spec":{"args":["--password","hunter2","x"]}}`, `{"spec":{"args":["[REDACTED]","x"]}}`},
		{"the name of a header", Fields{Drop: []string{"spec.headers.*.name"}}, "g", "things", `{"spec":{"headers":[{"name":"Accept","value":"x"},{"name":"X-Token","value":"y"}]}}`, `{"spec":{"headers":[{"value":"x"},{"value":"[REDACTED]"}]}}`},
		{"only values are kept", Fields{Keep: []string{"spec.env.*.value"}}, "", "things", `{"spec":{"env":[{"name":"A","value":"b"}]}}`, `{"spec":{"env":[{"value":"[REDACTED]"}]}}`},
		{"all that identifies it", Fields{Drop: []string{"kind", "metadata", "type"}}, "", "secrets", `{"kind":"Secret","metadata":{"name":"n"},"type":"Opaque","data":{"a":"eA=="}}`, `{"data":{"a":"[REDACTED]"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := NewPlan(c.group, c.resource).WithFields(c.fields)
			obj, n, err := plan.Decode([]byte(c.in))
			require.NoError(t, err)
			assert.Equal(t, len(c.in), n)
			assert.Equal(t, c.out, fingerprints.ReplaceAllString(obj.JSON, Masked))
		})
	}
}

func TestFieldsThatAreNoneChangeNothing(t *testing.T) {
	plan := NewPlan("", "pods")
	assert.Same(t, plan, plan.WithFields(Fields{}))
}

// What is dropped is not looked into: that would cost as much as to keep it.
func TestDroppedFieldsAreNotScanned(t *testing.T) {
	counts := &countingObserver{}
	plan := NewPolicy(Options{}).Plan("", "pods", counts).WithFields(Fields{Drop: []string{"spec", "metadata.annotations"}})
	_, _, err := plan.Decode([]byte(`{"metadata":{"name":"n","annotations":{"a":"token=x"}},"spec":{"password":"x","env":[{"name":"A","value":"b"}]},"status":{"message":"token=x"}}`))
	require.NoError(t, err)
	assert.Equal(t, map[Rule]int{RuleAssignment: 1}, counts.redacted)
}

// A fact that does not go out with the object is in an attribute of its record, where a secret may not be either.
func TestDroppedFactsAreMasked(t *testing.T) {
	in := `{"kind":"token=hunter2","apiVersion":"v\u0031","metadata":{"name":"n","ownerReferences":[{"kind":"a token=hunter2","name":"o","uid":"` + "\xff" + `"}]},"type":"https://u:hunter2@h"}`
	want, _, err := NewPlan("", "events").Decode([]byte(in))
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(want), "hunter2")
	obj, _, err := NewPlan("", "events").WithFields(Fields{Drop: []string{"kind", "apiVersion", "metadata", "type"}}).Decode([]byte(in))
	require.NoError(t, err)
	assert.Equal(t, `{}`, obj.JSON)
	want.JSON = obj.JSON
	assert.Equal(t, want, obj)
}

// The same is true of what is inside a fact, dropped with it or alone.
func TestDroppedFactsOfEventsAreMasked(t *testing.T) {
	in := `{"involvedObject":{"kind":"Pod","name":"web","uid":"token=hunter2","fieldPath":"https://u:hunter2@h"},"source":{"component":"a token=hunter2","host":"token=hunter2"},"reason":"token=hunter2"}`
	want, _, err := NewPlan("", "events").Decode([]byte(in))
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(want, *want.Event), "hunter2")
	require.NotEmpty(t, want.Event.Regarding.Name)
	for _, f := range []Fields{
		{Drop: []string{"involvedObject", "source", "reason"}}, {Drop: []string{"involvedObject.*", "source.*", "reason"}},
		{Keep: []string{"metadata"}}, {Keep: []string{"involvedObject.kind", "source.x"}},
	} {
		obj, _, err := NewPlan("", "events").WithFields(f).Decode([]byte(in))
		require.NoError(t, err)
		assert.Equal(t, want.Event, obj.Event, "%+v", f)
	}
}

// The message of an Event is its content, so that it is gone if it is dropped.
func TestDroppedMessage(t *testing.T) {
	in := []byte(`{"reason":"r","message":"m"}`)
	for want, f := range map[string]Fields{"m": {Drop: []string{"reason"}}, "": {Drop: []string{"message"}}, " ": {Keep: []string{"reason"}}} {
		obj, _, err := NewPlan("", "events").WithFields(f).Decode(in)
		require.NoError(t, err)
		assert.Equal(t, strings.TrimSpace(want), obj.Event.Note)
		assert.Equal(t, "r", obj.Event.Reason)
	}
}

// Dropped objects are checked like others: what is malformed there is malformed.
func TestDroppedFieldsAreWellFormed(t *testing.T) {
	for _, in := range []string{`{"a":{"b":tru}}`, `{"a":[1,]}`, `{"a":{"b"}}`, `{"metadata":{"ownerReferences":[{"name":1,}]}}`, `{"metadata":{"x":[}}`, `{"metadata":`, `{"metadata":{"name"`, `{"metadata":{"name":"a"`} {
		_, _, err := NewPlan("", "pods").WithFields(Fields{Drop: []string{"a", "metadata"}}).Decode([]byte(in))
		require.Error(t, err, in)
	}
	deep := `{"metadata":{"ownerReferences":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"name":"n"}}`
	obj, _, err := NewPlan("", "pods").WithFields(Fields{Drop: []string{"metadata"}}).Decode([]byte(deep))
	require.NoError(t, err)
	assert.True(t, obj.RedactionFailed)
}

func TestCheckPath(t *testing.T) {
	for _, path := range []string{"status", "spec.containers.*.env", "metadata.annotations.example.com/a", "data.*", "*.x", "a.0", "größe"} {
		assert.NoError(t, CheckPath(path), path)
	}
	for path, want := range map[string]string{
		"": "has an empty part", "a..b": "has an empty part", ".a": "has an empty part", "a.": "has an empty part", "*": "names everything",
		"a.b*": "beside other characters", "/spec/a": "is not a path of keys", "$.spec": "is not a path of keys", "spec.containers[*].env": "is not a path of keys",
	} {
		assert.ErrorContains(t, CheckPath(path), want, path)
	}
}

// matchesPath reports whether a pattern names exactly the value at the path, by other means than the plan's.
func matchesPath(pattern string, path []string) bool {
	if len(path) == 0 {
		return pattern == ""
	}
	for _, head := range []string{"*", path[0]} {
		rest, ok := strings.CutPrefix(pattern, head)
		if !ok {
			continue
		}
		if rest == "" && len(path) == 1 || rest != "" && rest[0] == '.' && matchesPath(rest[1:], path[1:]) {
			return true
		}
	}
	return false
}

// leadsInto reports whether a pattern may name something inside the value at the path.
func leadsInto(pattern string, path []string) bool {
	if len(path) == 0 {
		return pattern != ""
	}
	for _, head := range []string{"*", path[0]} {
		if rest, ok := strings.CutPrefix(pattern, head); ok && len(rest) > 1 && rest[0] == '.' && leadsInto(rest[1:], path[1:]) {
			return true
		}
	}
	return false
}

// reduced is what fields leave of a tree.
func reduced(t oracle.Tree, f Fields, path []string, kept bool) oracle.Tree {
	out := oracle.Tree{Kind: t.Kind, Scalar: t.Scalar}
	part := func(step string, value oracle.Tree) (oracle.Tree, bool) {
		at := append(slices.Clone(path), step)
		is := func(patterns []string, how func(string, []string) bool) bool {
			return slices.ContainsFunc(patterns, func(p string) bool { return how(p, at) })
		}
		kept := kept || is(f.Keep, matchesPath)
		if is(f.Drop, matchesPath) || !kept && (value.Kind == 0 || !is(f.Keep, leadsInto)) {
			return oracle.Tree{}, false
		}
		return reduced(value, f, at, kept), true
	}
	for _, m := range t.Members {
		if value, ok := part(m.Key, m.Value); ok {
			out.Members = append(out.Members, oracle.Member{Key: m.Key, Value: value})
		}
	}
	for i, item := range t.Items {
		if value, ok := part(strconv.Itoa(i), item); ok {
			out.Items = append(out.Items, value)
		}
	}
	return out
}

// checkFields checks that what goes out is what goes out without fields, less the fields, and that all else is the same.
func checkFields(t *testing.T, data []byte, group, resource string, f Fields) {
	t.Helper()
	plan := NewPlan(group, resource)
	want, wantN, wantErr := plan.Decode(data)
	obj, n, err := plan.WithFields(f).Decode(data)
	if wantErr != nil {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	require.Equal(t, wantN, n)
	require.True(t, json.Valid([]byte(obj.JSON)), obj.JSON)
	whole, _, err := oracle.Parse([]byte(want.JSON))
	require.NoError(t, err)
	got, _, err := oracle.Parse([]byte(obj.JSON))
	require.NoError(t, err)
	all := f
	if len(f.Keep) > 0 {
		all.Keep = append(slices.Clone(identityFields), f.Keep...)
	}
	requireSame(t, reduced(whole, all, nil, len(f.Keep) == 0), got, resource)
	want.JSON = obj.JSON
	if want.Event != nil { // the message is content
		want.Event.Note = firstString(got, "message", "note")
	}
	require.Equal(t, want, obj)
}

// randomFields names paths that the object has, and some that it has not.
func (g *generator) randomFields(object oracle.Tree) Fields {
	var paths []string
	var walk func(oracle.Tree, string)
	walk = func(t oracle.Tree, prefix string) {
		step := func(key string, value oracle.Tree) {
			if g.rand.IntN(3) == 0 || key == "" {
				key = "*"
			}
			path := strings.TrimPrefix(prefix+"."+key, ".")
			paths = append(paths, path)
			walk(value, path)
		}
		for _, m := range t.Members {
			step(m.Key, m.Value)
		}
		for i, item := range t.Items {
			step(strconv.Itoa(i), item)
		}
	}
	walk(object, "")
	pick := func() (picked []string) {
		for range g.rand.IntN(4) {
			if len(paths) > 0 && g.rand.IntN(8) > 0 {
				picked = append(picked, paths[g.rand.IntN(len(paths))])
			} else {
				picked = append(picked, g.pick("spec", "metadata.*", "kind", "data", "*.kind", "*.name", "*.*.command", "a.b.c"))
			}
		}
		return picked
	}
	return Fields{Drop: pick(), Keep: pick()}
}

func TestFieldsOfRandomObjects(t *testing.T) {
	rounds := 3_000
	if testing.Short() || raceEnabled {
		rounds = 1_000
	}
	for seed := range rounds {
		g := &generator{rand: rand.New(rand.NewPCG(uint64(seed), 2))}
		g.object(0)
		r := resources[g.rand.IntN(len(resources))]
		tree, _, err := oracle.Parse(g.out)
		require.NoError(t, err)
		f := g.randomFields(tree)
		checkFields(t, g.out, r.group, r.resource, f)
		if t.Failed() {
			t.Fatalf("seed %d: %+v of %s", seed, f, g.out)
		}
	}
}

func TestFieldsOfRealObjects(t *testing.T) {
	for _, file := range realObjects(t) {
		data := realObject(t, file)
		tree, _, err := oracle.Parse(data)
		require.NoError(t, err)
		for seed := range 50 {
			g := &generator{rand: rand.New(rand.NewPCG(uint64(seed), 3))}
			f := g.randomFields(tree)
			for _, r := range resources {
				checkFields(t, data, r.group, r.resource, f)
			}
		}
	}
}

// The nodes of a plan are made as objects need them, by whoever comes first.
func TestFieldsAreSafeForConcurrentUse(t *testing.T) {
	plan := NewPlan("", "pods").WithFields(Fields{Drop: []string{"*.*.*.env", "status.*"}, Keep: []string{"spec", "status.phase"}})
	data := realObject(t, "pod.json")
	want, _, err := plan.Decode(data)
	require.NoError(t, err)
	plan = NewPlan("", "pods").WithFields(Fields{Drop: []string{"*.*.*.env", "status.*"}, Keep: []string{"spec", "status.phase"}})
	done := make(chan string)
	for range 8 {
		go func() {
			obj, _, _ := plan.Decode(data)
			done <- obj.JSON
		}()
	}
	for range 8 {
		assert.Equal(t, want.JSON, <-done)
	}
}
