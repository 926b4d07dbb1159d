package kubeclient

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMay(t *testing.T) {
	var asked []string
	code, body := 0, ""
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(content))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	})
	right := Right{Verb: "watch", GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: "shop", Name: "web"}

	code, body = 201, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true,"evaluationError":"another authorizer failed"}}`
	may, err := client.May(t.Context(), right)
	require.NoError(t, err)
	assert.True(t, may)
	assert.Equal(t, []string{`POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews application/json ` +
		`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":` +
		`{"verb":"watch","group":"apps","resource":"deployments","namespace":"shop","name":"web"}},"status":{"allowed":false}}`}, asked)

	code, body = 201, `{"kind":"SelfSubjectAccessReview","status":{"allowed":false,"reason":"no rule"}}`
	may, err = client.May(t.Context(), right)
	require.NoError(t, err)
	assert.False(t, may)

	for name, answer := range map[string]struct {
		code int
		body string
		want string
	}{
		"refused":        {403, `{"kind":"Status","status":"Failure","reason":"Forbidden","message":"no","code":403}`, "no"},
		"not served":     {404, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`, ""},
		"does not know":  {201, `{"kind":"SelfSubjectAccessReview","status":{"allowed":false,"evaluationError":"webhook does not answer"}}`, "the API server cannot tell: webhook does not answer"},
		"something else": {200, `{"kind":"Status","status":"Success"}`, ""},
		"no JSON":        {200, `allowed`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, body = answer.code, answer.body
			_, err := client.May(t.Context(), right)
			require.ErrorContains(t, err, `cannot ask whether watch of deployments.apps is allowed (create selfsubjectaccessreviews, group "authorization.k8s.io"): `)
			assert.ErrorContains(t, err, answer.want)
			assert.Equal(t, answer.code == 403, apierrors.IsForbidden(err))
		})
	}
}
