package testobjects

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func genericOf(t *testing.T, data []byte) (v map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

// Every form is the same object to encoding/json.
func TestFormsAreTheSameObject(t *testing.T) {
	for _, o := range All(t) {
		if !slices.Contains(indispensable, o.Name()) {
			continue // forms do not depend on kinds, so some are enough
		}
		want := genericOf(t, o.JSON)
		forms := map[string][]byte{}
		for _, f := range o.allForms(1) {
			forms[f.Name] = f.JSON
		}
		for _, name := range []string{"spaced", "reversed"} {
			require.Equal(t, want, genericOf(t, forms[name]), o.Name())
			require.NotEqual(t, string(o.JSON), string(forms[name]), o.Name())
		}
		if bytes.Contains(o.JSON, []byte(`Value"`)) {
			require.Contains(t, string(forms["not ASCII"]), "日本", o.Name())
		}
		require.Equal(t, genericOf(t, forms["not ASCII"]), genericOf(t, forms["escaped"]), o.Name())
		require.Equal(t, want, genericOf(t, forms["in a list"])["items"].([]any)[0], o.Name())
		manifests := genericOf(t, forms["in a custom resource"])["spec"].(map[string]any)["manifests"]
		require.Equal(t, []any{"text", map[string]any{"template": want}}, manifests, o.Name())
	}
}

// Every environment variable and every value of a Secret is planted, in each kind that has some.
func TestSecretsArePlanted(t *testing.T) {
	kinds := map[string]int{}
	for _, o := range All(t) {
		where := map[string]int{}
		for _, p := range o.Planted {
			where[p.Where]++
		}
		environments := bytes.Count(o.JSON, []byte(`"env":[`))
		assert.Equal(t, environments, where["env"], o.Name())
		assert.Equal(t, bytes.Count(o.JSON, []byte(`"fieldsV1":`)), where["managedFields"], o.Name())
		for place, n := range where {
			if n > 0 {
				kinds[place]++
			}
		}
		if o.Name() == "core.v1.Secret" {
			assert.Equal(t, map[string]int{"data": 1, "stringData": 1, "last-applied": 1, "managedFields": 1}, where)
		}
		if o.Name() == "core.v1.Pod" {
			assert.Equal(t, 3, where["env"], "of containers, initContainers and ephemeralContainers")
		}
	}
	assert.Equal(t, 1, kinds["data"])
	assert.GreaterOrEqual(t, kinds["env"], 19, "workloads")
	assert.Greater(t, kinds["managedFields"], 130)
	assert.Greater(t, kinds["last-applied"], 130)
}

// Together, the objects that share the forms cover all of them.
func TestEveryFormHasPodTemplates(t *testing.T) {
	forms := map[string]int{}
	for _, o := range All(t) {
		if slices.ContainsFunc(o.Planted, func(p Planted) bool { return p.Where == "env" }) {
			for _, f := range o.Forms() {
				forms[f.Name]++
			}
		}
	}
	assert.Len(t, forms, 9)
	for name, n := range forms {
		assert.GreaterOrEqual(t, n, 3, name)
	}
}
