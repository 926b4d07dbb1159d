package reference

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func tableOf(rows ...string) string {
	return "# Records\n\n" + head + "|---|---|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n\ntext\n| `k8s.other` |\n"
}

const (
	nameRow     = "| `k8s.object.name`, `k8s.object.uid` | string | object, resource | Always | `metadata` | contrib |"
	manifestRow = "| `k8s.object.manifest` | string or map | object | With it | The object | ours |"
	reasonRow   = "| `k8s.event.reason` | string | k8sevents | Always | `reason` | contrib |"
)

func TestParse(t *testing.T) {
	table, err := Parse(tableOf(nameRow, manifestRow))
	require.NoError(t, err)
	assert.Equal(t, []Attribute{
		{"k8s.object.name", []string{"string"}, []Place{Object, Resource}, Contrib},
		{"k8s.object.uid", []string{"string"}, []Place{Object, Resource}, Contrib},
		{"k8s.object.manifest", []string{"string", "map"}, []Place{Object}, Ours},
	}, table.Attributes)

	for name, bad := range map[string]string{
		"no table":              "# Records\n",
		"an empty table":        tableOf(),
		"two tables":            tableOf(nameRow) + tableOf(manifestRow),
		"twice":                 tableOf(nameRow, nameRow),
		"no such type":          tableOf("| `a` | text | object | Always | x | ours |"),
		"no such record":        tableOf("| `a` | string | pod | Always | x | ours |"),
		"a record twice":        tableOf("| `a` | string | gap, gap | Always | x | ours |"),
		"no such stability":     tableOf("| `a` | string | gap | Always | x | stable |"),
		"a cell too few":        tableOf("| `a` | string | gap | Always | ours |"),
		"an empty cell":         tableOf("| `a` | string | gap | | x | ours |"),
		"a name that is no one": tableOf("| a | string | gap | Always | x | ours |"),
	} {
		_, err := Parse(bad)
		assert.Error(t, err, name)
	}
}

func TestCoverage(t *testing.T) {
	table, err := Parse(tableOf(nameRow, manifestRow, reasonRow))
	require.NoError(t, err)
	c := table.NewCoverage()
	add := func(r Record) []string { return c.Add(&r) }

	assert.Empty(t, add(Record{
		Resource:  map[string]any{"service.name": "x", "k8s.object.name": "a"},
		EventName: "k8s.object.added", Attributes: map[string]any{"k8s.object.name": "a", "k8s.object.manifest": map[string]any{}},
	}))
	assert.Equal(t, []string{"k8s.object.uid of object", "k8s.object.uid of resource", "k8s.object.manifest as string"}, c.Missing(Object, Resource))
	assert.Equal(t, []string{"k8s.event.reason of k8sevents"}, c.Missing(K8sEvents))
	assert.Len(t, c.Missing(), 4)

	for _, tt := range []struct {
		record Record
		want   string
	}{
		{Record{EventName: "k8s.object.renamed.x", Attributes: map[string]any{"k8s.object.owner": "a"}}, "k8s.object.owner of object is not in the reference"},
		{Record{EventName: "k8s.watch.gap", Attributes: map[string]any{"k8s.object.name": "a"}}, "k8s.object.name is in the reference, but not for gap"},
		{Record{EventName: "k8s.object.added", Attributes: map[string]any{"k8s.object.name": int64(1)}}, "k8s.object.name of object is int, and not string as in the reference"},
		{Record{EventName: "k8s.object.added", Attributes: map[string]any{"k8s.object.manifest": []any{"a"}}}, "k8s.object.manifest of object is string[], and not string or map as in the reference"},
		{Record{EventName: "k8s.object.added", Attributes: map[string]any{"k8s.object.name": ""}}, "k8s.object.name of object is an empty string"},
		{Record{EventName: "k8s.object.added", Resource: map[string]any{"k8s.shard": "a"}}, "k8s.shard of resource is not in the reference"},
		{Record{EventName: "k8s.object.added", Scope: map[string]any{"shard": "a"}}, "shard of scope is not in the reference"},
		{Record{EventName: "k8s.unknown"}, `a record with the event name "k8s.unknown" and the scope "" is of no kind in the reference`},
		{Record{ScopeName: "other"}, `a record with the event name "" and the scope "other" is of no kind in the reference`},
	} {
		assert.Equal(t, []string{tt.want}, add(tt.record))
	}
	assert.Empty(t, add(Record{ScopeName: "example.com/k8seventsreceiver", Attributes: map[string]any{"k8s.event.reason": ""}}))
	assert.Empty(t, c.Missing(K8sEvents))
}

func TestTypeOf(t *testing.T) {
	for want, value := range map[string]any{
		"string": "", "int": int64(1), "bool": false, "map": map[string]any{}, "string[]": []any{"a"}, "map[]": []any{map[string]any{}},
		"float64": 1.5, "mixed[]": []any{"a", int64(1)}, "int[]": []any{int64(1)},
	} {
		assert.Equal(t, want, typeOf(value))
	}
	assert.Equal(t, "string[]", typeOf([]any{}))
}

// The reference itself can be read.
func TestReadFile(t *testing.T) {
	table, err := ReadFile("../../docs/records.md")
	require.NoError(t, err)
	assert.Greater(t, len(table.Attributes), 100)
	_, err = ReadFile("none.md")
	assert.Error(t, err)
}
