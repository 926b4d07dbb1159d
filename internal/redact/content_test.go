package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var ignoring = NewPolicy(Options{Ignored: UsuallyIgnored})

func contentOf(t testing.TB, plan *Plan, object string) Content {
	t.Helper()
	obj, _, err := plan.Decode([]byte(object))
	require.NoError(t, err, object)
	require.NotZero(t, obj.Content.Sum)
	return obj.Content
}

func TestWhatIsNoChange(t *testing.T) {
	for _, c := range []struct{ group, resource, before, after string }{
		{"", "pods", `{"metadata":{"resourceVersion":"1"},"spec":{"a":1}}`, `{"metadata":{"resourceVersion":"2"},"spec":{"a":1}}`},
		{"", "pods", `{"metadata":{"name":"a","managedFields":[{"manager":"x","time":"2026-01-01T00:00:00Z"}]}}`, `{"metadata":{"name":"a"}}`},
		{"", "pods", `{"kind":"Pod","apiVersion":"v1","spec":{"a":1}}`, `{"spec":{"a":1}}`},
		{"", "pods", `{"metadata":{"name":"a","uid":"u"},"spec":{"a":1},"status":{"b":2}}`, `{"status":{"b":2},"spec":{"a":1},"metadata":{"uid":"u","name":"a"}}`},
		{"", "pods", `{"metadata":{"name":"a"},"spec":{"a":[1,{"b":2}]}}`, "{\n \"metadata\" : { \"name\": \"a\"},\n \"spec\": {\"a\": [ 1, {\"b\" : 2}] }\n}"},
		{"", "pods", `{"metadata":{"name":"a"},"spec":{"a":1}}`, `{"m\u0065tadata":{"name":"a","resource\u0056ersion":"7"},"spec":{"a":1}}`},

		{"example.com", "things", `{"spec":{"a":1},"status":{"observedGeneration":1,"x":1}}`, `{"spec":{"a":1},"status":{"observedGeneration":2,"x":1}}`},
		{"example.com", "things", `{"spec":{"a":1}}`, `{"spec":{"a":1},"status":{"observedGeneration":2}}`},
		{"example.com", "things", `{"spec":{"a":1},"status":{}}`, `{"spec":{"a":1},"status":{"observedGeneration":2}}`},
		{"example.com", "things", `{"status":{"x":{"observedGeneration":1},"observedGeneration":2}}`, `{"status":{"x":{"observedGeneration":1}}}`},
		{"example.com", "things", `{"status":{"a":1,"observedGeneration":2,"z":3}}`, `{"status":{"a":1,"z":3}}`},

		{"coordination.k8s.io", "leases", `{"spec":{"holderIdentity":"a","renewTime":"t1"}}`, `{"spec":{"holderIdentity":"a","renewTime":"t2"}}`},
		{"", "nodes",
			`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"t1"},{"lastHeartbeatTime":"t1","type":"Disk"}],"images":[1]}}`,
			`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"t2"},{"type":"Disk"}],"images":[1]}}`},
		{"", "endpoints",
			`{"metadata":{"annotations":{"endpoints.kubernetes.io/last-change-trigger-time":"t1"}},"subsets":[1]}`,
			`{"metadata":{},"subsets":[1]}`},
		{"discovery.k8s.io", "endpointslices",
			`{"metadata":{"annotations":{"a":"b","endpoints.kubernetes.io/last-change-trigger-time":"t1"}}}`,
			`{"metadata":{"annotations":{"a":"b","endpoints.kubernetes.io/last-change-trigger-time":"t2"}}}`},
		{"", "configmaps",
			`{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"{\"holderIdentity\":\"a\",\"renewTime\":\"t1\",\"leaderTransitions\":1}"}}}`,
			`{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"{\"holderIdentity\":\"a\",\"renewTime\":\"t2\",\"leaderTransitions\":1}"}}}`},
	} {
		plan := ignoring.Plan(c.group, c.resource, nil)
		assert.Equal(t, contentOf(t, plan, c.before).Sum, contentOf(t, plan, c.after).Sum, "%s\n%s", c.before, c.after)
	}
}

func TestWhatIsAChange(t *testing.T) {
	for _, c := range []struct{ group, resource, before, after, sections string }{
		{"", "pods", `{"spec":{"a":1}}`, `{"spec":{"a":2}}`, "spec"},
		{"", "pods", `{"spec":{"a":1},"status":{}}`, `{"spec":{"a":1},"status":{"b":1}}`, "status"},
		{"", "pods", `{"spec":{"a":1},"status":{"b":1}}`, `{"spec":{"a":2}}`, "spec status"},
		{"", "pods", `{"metadata":{"labels":{"a":"b"}},"labels":{}}`, `{"metadata":{"labels":{}},"labels":{"a":"b"}}`, "labels metadata.labels"},
		{"", "pods", `{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"c"}}}`, "metadata.annotations"},
		{"", "pods", `{"metadata":{"finalizers":["a","b"]}}`, `{"metadata":{"finalizers":["b"]}}`, "metadata.finalizers"},
		{"", "pods", `{"metadata":{"finalizers":["a"]}}`, `{"metadata":{}}`, "metadata.finalizers"},
		{"", "pods", `{"metadata":{"ownerReferences":[{"name":"a"}]}}`, `{"metadata":{"ownerReferences":[]}}`, "metadata.ownerReferences"},
		{"", "pods", `{"metadata":{"generation":1}}`, `{"metadata":{"generation":2,"deletionTimestamp":"t","deletionGracePeriodSeconds":30}}`, "metadata.deletionTimestamp"},
		{"", "pods", `{"metadata":{"generation":1}}`, `{"metadata":{"generation":2}}`, ""},
		{"", "pods", `{"metadata":{}}`, `{"metadata":{"newer":1}}`, "other"},
		{"", "pods", `{"spec":{"managedFields":1}}`, `{"spec":{"managedFields":2}}`, "spec"},
		{"", "pods", `{"spec":{"resourceVersion":1}}`, `{"spec":{"resourceVersion":2}}`, "spec"},
		{"", "pods", `{"metadata":"a"}`, `{"metadata":"b"}`, "metadata"},
		{"", "pods", `{"spec":{"containers":[{"env":[{"name":"A","value":"hunter2"}]}]}}`, `{"spec":{"containers":[{"env":[{"name":"A","value":"hunter3"}]}]}}`, "spec"},
		{"", "configmaps", `{"data":{"a":"hunter2"},"binaryData":{"b":"AA=="}}`, `{"data":{"a":"hunter3"},"binaryData":{"b":"AA=="}}`, "data"},
		{"", "secrets", `{"data":{"a":"aHVudGVyMg=="},"type":"t"}`, `{"data":{"a":"aHVudGVyMw=="},"type":"t"}`, "data"},
		{"", "pods", `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{ }"}}}`, "metadata.annotations"},
		{"", "pods", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`, `{"a":1,"b":1,"c":2,"d":1,"e":1,"f":2,"g":2}`, "c other"},
		{"", "pods", `{"a":1,"` + strings.Repeat("long", 20) + `":1}`, `{"a":2,"` + strings.Repeat("long", 20) + `":2}`, "a other"},
		{"", "events", `{"count":1}`, `{"count":2}`, ""}, // which are observations

		{"example.com", "things", `{"status":{"observedGeneration":1,"x":1}}`, `{"status":{"observedGeneration":1,"x":2}}`, "status"},
		{"example.com", "things", `{"status":{"conditions":[{"observedGeneration":1}]}}`, `{"status":{"conditions":[{"observedGeneration":2}]}}`, "status"},
		{"example.com", "things", `{"spec":{"observedGeneration":1}}`, `{"spec":{"observedGeneration":2}}`, "spec"},
		{"example.com", "things", `{"spec":{"renewTime":1}}`, `{"spec":{"renewTime":2}}`, "spec"},
		{"coordination.k8s.io", "leases", `{"spec":{"holderIdentity":"a","renewTime":"t1"}}`, `{"spec":{"holderIdentity":"b","renewTime":"t2"}}`, "spec"},
		{"", "nodes",
			`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"t1"}]}}`,
			`{"status":{"conditions":[{"type":"Ready","status":"False","lastHeartbeatTime":"t2"}]}}`, "status"},
		{"", "nodes",
			`{"status":{"conditions":[{"lastHeartbeatTime":"t1"}]}}`,
			`{"status":{"conditions":[{"lastHeartbeatTime":"t1"},{"lastHeartbeatTime":"t1"}]}}`, "status"},
		{"", "configmaps",
			`{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"{\"holderIdentity\":\"a\",\"renewTime\":\"t1\"}"}}}`,
			`{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":"{\"holderIdentity\":\"b\",\"renewTime\":\"t2\"}"}}}`, "metadata.annotations"},
	} {
		plan := ignoring.Plan(c.group, c.resource, nil)
		before, after := contentOf(t, plan, c.before), contentOf(t, plan, c.after)
		assert.NotEqual(t, before.Sum, after.Sum, "%s\n%s", c.before, c.after)
		assert.Equal(t, c.sections, strings.Join(plan.Changed(&before, &after).Names(), " "), "%s\n%s", c.before, c.after)
		assert.True(t, plan.Changed(&after, &after).IsEmpty())
	}
}

func TestWhatTheConfigurationIgnores(t *testing.T) {
	for _, c := range []struct {
		path, before, after string
		equal               bool
	}{
		{"spec", `{"spec":1,"x":1}`, `{"x":1}`, true},
		{"spec.a", `{"spec":{"a":1,"b":2}}`, `{"spec":{"a":{"c":3},"b":2}}`, true},
		{"spec.a", `{"metadata":{"generation":1},"spec":{"a":1,"b":2}}`, `{"metadata":{"generation":2},"spec":{"a":2,"b":2}}`, true},
		{"status.a", `{"metadata":{"generation":1},"status":{"a":1}}`, `{"metadata":{"generation":2},"status":{"a":2}}`, false},
		{"spec.a", `{"spec":{"a":1,"b":2}}`, `{"spec":{"a":1,"b":3}}`, false},
		{"spec.a.b", `{"spec":{"a":{"b":1}}}`, `{"spec":{"a":{}}}`, true},
		{"spec.a.b", `{"spec":{"a":{"b":1}}}`, `{}`, true},
		{"spec.a.b", `{"spec":{"a":1}}`, `{"spec":{"a":2}}`, false},
		{"spec.*.b", `{"spec":{"x":{"b":1},"y":{"b":2,"c":1}}}`, `{"spec":{"x":{"b":3},"y":{"c":1}}}`, true},
		{"spec.list.*.b", `{"spec":{"list":[{"b":1},{"b":2}]}}`, `{"spec":{"list":[{"b":3},{}]}}`, true},
		{"spec.list.1", `{"spec":{"list":[1,2]}}`, `{"spec":{"list":[1,3]}}`, true},
		{"spec.list.1", `{"spec":{"list":[1,2]}}`, `{"spec":{"list":[2,2]}}`, false},
		{"spec.list.web.b", `{"spec":{"list":[{"name":"web","b":1},{"name":"other","b":1}]}}`, `{"spec":{"list":[{"name":"web","b":2},{"name":"other","b":1}]}}`, true},
		{"spec.list.web.b", `{"spec":{"list":[{"name":"web","b":1},{"name":"other","b":1}]}}`, `{"spec":{"list":[{"name":"web","b":1},{"name":"other","b":2}]}}`, false},
		{"data.a.b", `{"data":{"a.b":"1","c":"1"}}`, `{"data":{"a.b":"2","c":"1"}}`, true},
		{"metadata.annotations.example.com/seen", `{"metadata":{"annotations":{"example.com/seen":"1"}}}`, `{"metadata":{}}`, true},
		{"metadata.annotations.example.com/&", `{"metadata":{"annotations":{"example.com/\u0026":"1"}}}`, `{"metadata":{}}`, true},
		{"metadata.labels", `{"metadata":{"name":"a","labels":{"a":"b"}}}`, `{"metadata":{"name":"a"}}`, true},
		{"metadata", `{"metadata":{"name":"a","labels":{"a":"b"}},"x":1}`, `{"metadata":{"name":"a"},"x":1}`, true},
		{"data.config.a", `{"data":{"config":"{\"a\":1,\"b\":2}"}}`, `{"data":{"config":"{\"a\":2,\"b\":2}"}}`, true},
		{"data.config.a", `{"data":{"config":"{\"a\":1,\"b\":2}"}}`, `{"data":{"config":"{\"a\":1,\"b\":3}"}}`, false},
		{"data.config.a", `{"data":{"config":"a=1"}}`, `{"data":{"config":"a=2"}}`, false},
		{"data.config.a", `{"data":{"config":"{\"b\":2}"}}`, `{"data":{"config":{"b":2}}}`, false},
		{"größe", `{"größe":1,"x":1}`, `{"gr\u00f6ße":2,"x":1}`, true},
	} {
		plan := NewPolicy(Options{Ignored: []Ignored{
			{Group: "example.com", Resource: "things", Paths: []string{c.path}}, {Group: "example.com", Resource: "others", Paths: []string{"x", "spec", "metadata", "data", "status"}},
		}}).Plan("example.com", "things", nil)
		before, after := contentOf(t, plan, c.before), contentOf(t, plan, c.after)
		assert.Equal(t, c.equal, before.Sum == after.Sum, "%s: %s, %s", c.path, c.before, c.after)
		assert.Equal(t, c.equal, !differs(&before, &after), "sections: %s: %s, %s", c.path, c.before, c.after)
	}
}

// differs reports whether the contents differ in a section, or only in what has none.
func differs(before, after *Content) bool {
	return before.Sections != after.Sections || before.Sum != after.Sum
}

// A hash that is kept must not be taken for one of a plan for which other things count.
func TestSumsOfOtherPlansAreOthers(t *testing.T) {
	const object = `{"spec":{"a":1}}`
	key := []byte("a key of an installation")
	plain := NewPolicy(Options{FingerprintKey: key})
	sum := contentOf(t, plain.Plan("", "pods", nil), object).Sum
	assert.Equal(t, sum, contentOf(t, NewPolicy(Options{FingerprintKey: key}).Plan("", "pods", nil), object).Sum)
	for what, policy := range map[string]*Policy{
		"another key":         NewPolicy(Options{FingerprintKey: []byte("a key of another one")}),
		"the key of this run": NewPolicy(Options{}),
		"something ignored":   NewPolicy(Options{FingerprintKey: key, Ignored: []Ignored{{Resource: "pods", Paths: []string{"status"}}}}),
	} {
		assert.NotEqual(t, sum, contentOf(t, policy.Plan("", "pods", nil), object).Sum, what)
	}
	elsewhere := NewPolicy(Options{FingerprintKey: key, Ignored: []Ignored{{Resource: "nodes", Paths: []string{"status"}}}})
	assert.Equal(t, sum, contentOf(t, elsewhere.Plan("", "pods", nil), object).Sum)
}

func TestContentOfWhatCannotBeWalkedIsNotKnown(t *testing.T) {
	obj := decode(t, pods, `{"metadata":{"name":"n","uid":"u"},"spec":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`}`)
	assert.True(t, obj.RedactionFailed)
	assert.Equal(t, Content{}, obj.Content)
}

// The hashes of an object's content take no allocation. One is for the JSON, and one for the facts that only pods have.
func TestAllocationsOfContent(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	for _, o := range []struct {
		group, resource, object string
		want                    float64
	}{
		{"", "pods", string(realObject(t, "pod.json")), 2},
		{"", "nodes", string(realObject(t, "node.json")), 1},
		{"apps", "deployments", string(realObject(t, "deployment.json")), 1},
		{"coordination.k8s.io", "leases", lease, 1},
	} {
		plan, data := ignoring.Plan(o.group, o.resource, nil), []byte(o.object)
		allocations := testing.AllocsPerRun(100, func() {
			if _, _, err := plan.Decode(data); err != nil {
				t.Fatal(err)
			}
		})
		assert.LessOrEqual(t, allocations, o.want, o.resource)
	}
}

const lease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"node-1","namespace":"kube-node-lease",` +
	`"uid":"5f0c2f0e-29a2-4d32-a41c-0d6c0ab9a0f1","resourceVersion":"184470","creationTimestamp":"2026-07-30T09:14:18Z",` +
	`"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"node-1","uid":"8d2f4a36-9a1c-4f5e-b7f0-3c5b1d2e9a70"}],` +
	`"managedFields":[{"manager":"kubelet","operation":"Update","apiVersion":"coordination.k8s.io/v1","time":"2026-07-30T09:24:18Z","fieldsType":"FieldsV1",` +
	`"fieldsV1":{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"8d2f4a36-9a1c-4f5e-b7f0-3c5b1d2e9a70\"}":{}}},"f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}}]},` +
	`"spec":{"holderIdentity":"node-1","leaseDurationSeconds":40,"renewTime":"2026-07-30T09:24:18.123456Z"}}`

// The fast form agrees with a slow one on random objects: equal are the hashes of two objects, and of what they have in a
// section, if and only if that is equal once everything that does not count is taken away.
func TestContentAgreesWithTheOracle(t *testing.T) {
	rounds := 20_000
	if testing.Short() || raceEnabled {
		rounds = 2_000
	}
	counts := map[string]int{}
	for seed := range rounds {
		g := &contentGenerator{rand.New(rand.NewPCG(uint64(seed), 9))}
		paths := g.paths()
		plan := NewPolicy(Options{Ignored: []Ignored{{Resource: "things", Paths: paths}}}).Plan("", "things", nil)
		paths = append(ignoredIn([]Ignored{{Resource: "things", Paths: paths}}, "", "things"), "metadata.resourceVersion", "metadata.managedFields", "apiVersion", "kind")
		before := g.object(0)
		if g.IntN(10) > 0 {
			before["metadata"] = g.metadata()
		}
		after := g.changed(before, paths)

		was, is := contentOf(t, plan, g.written(before)), contentOf(t, plan, g.written(after))
		left, leftAfter := stripped(before, paths), stripped(after, paths)
		equal := reflect.DeepEqual(left, leftAfter)
		require.Equal(t, equal, was.Sum == is.Sum, "seed %d, without %q:\n%v\n%v", seed, paths, left, leftAfter)
		if want := changedSections(left, leftAfter); !slices.Contains(want, otherSection) {
			got := plan.Changed(&was, &is).Names()
			if !slices.Contains(got, otherSection) {
				require.Equal(t, strings.Join(want, " "), strings.Join(got, " "), "seed %d, without %q:\n%v\n%v", seed, paths, left, leftAfter)
			}
		}
		counts[fmt.Sprintf("equal %t, changed %t", equal, !reflect.DeepEqual(before, after))]++
	}
	t.Log(counts)
	for _, kind := range []string{"equal true, changed true", "equal true, changed false", "equal false, changed true"} {
		assert.Greater(t, counts[kind], rounds/20, kind)
	}
}

// stripped returns what counts of an object.
func stripped(object map[string]any, paths []string) map[string]any {
	s, _ := strip(object, nil, paths)
	if s == nil {
		return map[string]any{}
	}
	m := s.(map[string]any)
	if metadata, ok := m["metadata"].(map[string]any); ok && len(metadata) == 0 {
		delete(m, "metadata")
	}
	return m
}

// strip takes away what is at one of the paths, and the objects on the way there that have nothing else.
func strip(v any, at []pathElement, paths []string) (left any, counts bool) {
	isAt := func(at []pathElement) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return matchPath(p, at) })
	}
	isOnTheWay := slices.ContainsFunc(paths, func(p string) bool { return leadsOn(p, at) })
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			here := append(slices.Clone(at), pathElement{key: []byte(key)})
			if isAt(here) {
				continue
			}
			if left, counts := strip(value, here, paths); counts {
				out[key] = left
			}
		}
		return out, len(out) > 0 || !isOnTheWay
	case []any:
		out := []any{}
		for i, value := range v {
			e := pathElement{index: i, isIndex: true}
			if m, ok := value.(map[string]any); ok {
				for _, key := range slices.Sorted(maps.Keys(m)) { // as they are written
					if name, ok := m[key].(string); ok && (key == "name" || key == "key" || key == "path") {
						e.alias = []byte(name)
					}
				}
			}
			here := append(slices.Clone(at), e)
			if isAt(here) {
				continue
			}
			left, counts := strip(value, here, paths)
			if !counts {
				left = map[string]any{}
			}
			out = append(out, left)
		}
		return out, true
	case string:
		var document any
		if isOnTheWay && strings.ContainsAny(v, "{[") && json.Unmarshal([]byte(v), &document) == nil {
			left, counts := strip(document, at, paths)
			return struct{ document any }{left}, counts
		}
	}
	return v, true
}

// leadsOn reports whether a pattern may describe something inside of what is at the path.
func leadsOn(pattern string, at []pathElement) bool {
	if len(at) == 0 {
		return true
	}
	for _, c := range []string{"*", string(at[0].key), string(at[0].alias), strconv.Itoa(at[0].index)} {
		if c == strconv.Itoa(at[0].index) && !at[0].isIndex {
			continue
		}
		if rest, ok := strings.CutPrefix(pattern, c+"."); ok && c != "" && leadsOn(rest, at[1:]) {
			return true
		}
	}
	return false
}

// changedSections names the sections in which two objects differ.
func changedSections(before, after map[string]any) []string {
	var names []string
	for key := range union(before, after) {
		if key != "metadata" {
			valueOne, hasOne := before[key]
			valueTwo, hasTwo := after[key]
			if hasOne != hasTwo || !reflect.DeepEqual(valueOne, valueTwo) {
				names = append(names, key)
			}
			continue
		}
		one, _ := before[key].(map[string]any)
		two, _ := after[key].(map[string]any)
		for key := range union(one, two) {
			_, isInOne := one[key]
			_, isInTwo := two[key]
			if isInOne != isInTwo || !reflect.DeepEqual(one[key], two[key]) {
				switch at := newSectionTable().of([]byte(key), true); at {
				case noSection:
				case sectionOther:
					names = append(names, otherSection)
				default:
					names = append(names, metadataSections[at])
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func union(one, other map[string]any) map[string]bool {
	keys := map[string]bool{}
	for key := range one {
		keys[key] = true
	}
	for key := range other {
		keys[key] = true
	}
	return keys
}

type contentGenerator struct{ *rand.Rand }

func (g *contentGenerator) pick(choices ...string) string { return choices[g.IntN(len(choices))] }

func (g *contentGenerator) key() string {
	return g.pick("spec", "status", "data", "a", "a.b", "b", "name", "time", "x&y", "größe", "metadata")
}

func (g *contentGenerator) paths() (paths []string) {
	for range g.IntN(4) {
		path := g.pick("spec", "status", "data", "a", "metadata.annotations", "metadata.labels", "metadata.finalizers")
		for range g.IntN(4) {
			path += "." + g.pick("*", "0", "1", g.key(), g.key())
		}
		paths = append(paths, path)
	}
	return paths
}

func (g *contentGenerator) object(depth int) map[string]any {
	o := map[string]any{}
	for range g.IntN(5) {
		if key := g.key(); depth > 0 || key != "metadata" {
			o[key] = g.value(depth + 1)
		}
	}
	return o
}

func (g *contentGenerator) value(depth int) any {
	switch n := g.IntN(8); {
	case n < 3 && depth < 5:
		return g.object(depth)
	case n < 5 && depth < 5:
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(depth+1))
		}
		return list
	case n == 5 && depth < 5:
		text, _ := json.Marshal(g.object(depth + 1))
		return string(text)
	default:
		return []any{"x", "y", "größe <&>", 1.0, 2.5, true, nil, "{}"}[g.IntN(8)]
	}
}

func (g *contentGenerator) metadata() map[string]any {
	m := map[string]any{"name": "n", "uid": "u", "resourceVersion": strconv.Itoa(g.IntN(100))}
	for _, key := range []string{"labels", "annotations", "finalizers", "managedFields", "deletionTimestamp", "generation", "newer"} {
		if g.IntN(2) == 0 {
			m[key] = g.value(1)
		}
	}
	return m
}

// changed returns a copy of an object with some changes, most of them where they may not count.
func (g *contentGenerator) changed(before map[string]any, paths []string) map[string]any {
	text, _ := json.Marshal(before)
	var after map[string]any
	_ = json.Unmarshal(text, &after)
	for range g.IntN(3) {
		g.change(after, nil, paths)
	}
	return after
}

func (g *contentGenerator) change(v any, at []pathElement, paths []string) any {
	here := func(e pathElement) []pathElement { return append(slices.Clone(at), e) }
	matters := func(at []pathElement) bool {
		return !slices.ContainsFunc(paths, func(p string) bool { return matchPath(p, at) || leadsOn(p, at) })
	}
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		key := g.key()
		if len(keys) > 0 && g.IntN(5) > 0 {
			key = keys[g.IntN(len(keys))]
		}
		path := here(pathElement{key: []byte(key)})
		metadata, isMetadata := v["metadata"].(map[string]any)
		switch {
		case len(at) == 0 && key == "metadata": // it stays an object
			if isMetadata {
				g.change(metadata, path, paths)
			}
		case matters(path) && g.IntN(4) > 0: // look elsewhere
			for _, key := range keys {
				if path := here(pathElement{key: []byte(key)}); !matters(path) {
					v[key] = g.change(v[key], path, paths)
				}
			}
		case g.IntN(3) == 0:
			delete(v, key)
		case v[key] != nil && g.IntN(2) == 0:
			v[key] = g.change(v[key], path, paths)
		default:
			v[key] = g.value(len(at) + 1)
		}
		return v
	case []any:
		if len(v) == 0 {
			return append(v, g.value(len(at)+1))
		}
		i := g.IntN(len(v))
		v[i] = g.change(v[i], here(pathElement{index: i, isIndex: true}), paths)
		return v
	case string:
		var document map[string]any
		if json.Unmarshal([]byte(v), &document) == nil {
			text, _ := json.Marshal(g.change(document, at, paths))
			return string(text)
		}
	}
	return g.value(len(at) + 1)
}

// written writes an object in one of several ways, with its members in any order.
func (g *contentGenerator) written(object map[string]any) string {
	text := g.members(object, func(key string, value any) []byte {
		if metadata, ok := value.(map[string]any); ok && key == "metadata" {
			return g.members(metadata, func(_ string, value any) []byte { return marshal(value) })
		}
		return marshal(value)
	})
	if g.IntN(5) == 0 {
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, " ", "\t"); err != nil {
			panic(err)
		}
		return indented.String()
	}
	return string(text)
}

func (g *contentGenerator) members(object map[string]any, write func(string, any) []byte) []byte {
	keys := slices.Sorted(maps.Keys(object))
	g.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	out := []byte("{")
	for i, key := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, marshal(key)...), ':'), write(key, object[key])...)
	}
	return append(out, '}')
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
