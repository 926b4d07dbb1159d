package redact

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The corpus has one sentinel in each place where a secret may be, in the form used there: plain, in base64, or
// compressed. None may be emitted in any form. The innocents look like secrets but are none: they are emitted
// unchanged.

type corpusObject struct {
	Resource string // plural and group
	Object   json.RawMessage
}

func corpus(tb testing.TB, file string) (all []corpusObject) {
	tb.Helper()
	data, err := os.ReadFile("testdata/corpus/" + file + ".json")
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(data, &all))
	return all
}

func (o corpusObject) plan() *Plan {
	resource, group, _ := strings.Cut(o.Resource, ".")
	return NewPlan(group, resource)
}

var (
	corpusSentinel = regexp.MustCompile(`SENTINEL-?\d{4}`)
	base64Runs     = regexp.MustCompile(`[A-Za-z0-9+/]{16,}=*`)
)

// sentinelsIn returns the sentinels in a text and in its encoded parts.
func sentinelsIn(text string) (all []string) {
	all = corpusSentinel.FindAllString(text, -1)
	for _, run := range base64Runs.FindAllString(text, -1) {
		raw, err := base64.StdEncoding.DecodeString(run)
		if err != nil {
			continue
		}
		if r, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			raw, _ = io.ReadAll(r)
		}
		all = append(all, sentinelsIn(string(raw))...)
	}
	return all
}

// encodings returns the forms in which a sentinel could be emitted.
func encodings(s string) []string {
	all := append(forms(s), hex.EncodeToString([]byte(s)), url.QueryEscape(s), strings.ToUpper(s), strings.ToLower(s))
	return all
}

func TestNoSentinelOfTheCorpusIsEmitted(t *testing.T) {
	seen, kinds := map[string]bool{}, map[string]bool{}
	for _, file := range []string{"core", "shapes", "custom"} {
		for _, o := range corpus(t, file) {
			var kind struct{ APIVersion, Kind string }
			require.NoError(t, json.Unmarshal(o.Object, &kind))
			kinds[kind.APIVersion+"/"+kind.Kind] = true
			obj, redactions, err := o.plan().Explain(o.Object)
			require.NoError(t, err)
			require.False(t, obj.RedactionFailed)
			out, _ := json.Marshal(obj)
			assert.Empty(t, sentinelsIn(string(out)), "%s\n%s", o.Object, obj.JSON)
			for _, s := range sentinelsIn(string(o.Object)) {
				require.False(t, seen[s], s)
				seen[s] = true
				for _, form := range encodings(s) {
					assert.NotContains(t, string(out), form, "%s", o.Object)
				}
			}
			assert.NotEmpty(t, redactions)
		}
	}
	t.Logf("%d places in objects of %d kinds", len(seen), len(kinds))
	assert.Greater(t, len(seen), 350)
	assert.Greater(t, len(kinds), 120)
}

func TestInnocentsOfTheCorpusAreUnchanged(t *testing.T) {
	all := corpus(t, "innocents")
	for _, o := range all {
		obj, redactions, err := o.plan().Explain(o.Object)
		require.NoError(t, err)
		assert.JSONEq(t, string(o.Object), obj.JSON)
		assert.Empty(t, redactions, "%s", o.Object)
	}
	t.Logf("%d innocents", len(all))
	assert.GreaterOrEqual(t, len(all), 100)
}
