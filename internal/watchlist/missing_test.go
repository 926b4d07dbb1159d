package watchlist

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The remedy of a refusal names the verbs that are missing, unless the answer is missing or contradicts the refusal.
func TestRemedyNamesTheMissingVerbs(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	const rule = `add this rule to the collector's ClusterRole: - {apiGroups: [""], resources: ["pods"], verbs: [`
	for name, test := range map[string]struct {
		answer []string
		listed bool
		verbs  string
	}{
		"watch":            {[]string{"watch"}, false, "watch"},
		"both":             {[]string{"watch", "list"}, false, "watch, list"},
		"list":             {[]string{"list"}, true, "list"},
		"no answer":        {nil, false, "watch, list"},
		"another is wrong": {[]string{"list"}, false, "watch, list"},
	} {
		t.Run(name, func(t *testing.T) {
			r, logs := loggingReader()
			asked := 0
			r.Missing = func(context.Context) []string { asked++; return test.answer }
			end := ending{err: forbidden, listed: test.listed}
			for range 3 {
				r.setState(Forbidden, r.withMissing(t.Context(), end))
			}
			assert.Equal(t, 1, asked, "only before an entry is logged")
			require.Equal(t, 1, logs.Len())
			assert.Equal(t, rule+test.verbs+"]}", logs.All()[0].ContextMap()["remedy"])
			assert.Equal(t, forbidden.Error(), logs.All()[0].ContextMap()["error"])
			assert.True(t, isForbidden(r.state.Err))
		})
	}
}

// Nobody asks after other refusals, or about what only a pattern selects.
func TestRightsThatNobodyAsksAbout(t *testing.T) {
	r, _ := loggingReader()
	r.Missing = func(context.Context) []string { t.Error("asked"); return nil }
	unauthorized := apierrors.NewUnauthorized("expired")
	assert.Equal(t, error(unauthorized), r.withMissing(t.Context(), ending{err: unauthorized}))
	r.Optional = true
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	assert.Equal(t, error(forbidden), r.withMissing(t.Context(), ending{err: forbidden}))
}
