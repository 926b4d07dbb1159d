package kubeclient

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestLease(t *testing.T) {
	const path = "/apis/coordination.k8s.io/v1/namespaces/observe/leases"
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	var asked []string
	answers := []struct {
		code int
		body string
	}{
		{404, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`},
		{201, `{"kind":"Lease","metadata":{"name":"lock","resourceVersion":"7","labels":{"team":"a"}},"spec":{"holderIdentity":"one","leaseDurationSeconds":15,"acquireTime":"2026-05-04T03:02:01.123456Z","renewTime":"2026-05-04T03:02:01.123456Z","leaseTransitions":1,"strategy":"kept"}}`},
		{409, `{"kind":"Status","status":"Failure","reason":"Conflict","code":409}`},
		{200, `{"kind":"Pod"}`},
	}
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(content))
		answer := answers[0]
		answers = answers[1:]
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.code)
		_, _ = io.WriteString(w, answer.body)
	})
	leases := Leases{Client: client, Namespace: "observe", Name: "lock"}

	_, err := leases.Get(t.Context())
	require.True(t, apierrors.IsNotFound(err))
	assert.ErrorContains(t, err, "cannot get leases (group coordination.k8s.io, version v1) named lock in namespace observe: ")

	lease, err := leases.Put(t.Context(), Lease{Holder: "one", Duration: 15 * time.Second, Acquired: at, Renewed: at, Transitions: 1})
	require.NoError(t, err)
	assert.Equal(t, "one", lease.Holder)
	assert.Equal(t, 15*time.Second, lease.Duration)
	assert.Equal(t, 1, lease.Transitions)
	assert.Equal(t, at, lease.Renewed)

	lease.Holder, lease.Renewed = "two", at.Add(time.Second)
	_, err = leases.Put(t.Context(), lease)
	require.True(t, apierrors.IsConflict(err))
	assert.ErrorContains(t, err, "cannot update leases ")

	_, err = leases.Get(t.Context())
	require.Error(t, err, "something other than a Lease")

	require.Len(t, asked, 4)
	assert.Equal(t, "GET "+path+"/lock  ", asked[0])
	wanted := []string{
		"POST " + path + ` application/json {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"lock","namespace":"observe"},` +
			`"spec":{"acquireTime":"2026-05-04T03:02:01.123456Z","holderIdentity":"one","leaseDurationSeconds":15,"leaseTransitions":1,"renewTime":"2026-05-04T03:02:01.123456Z"}}`,
		"PUT " + path + `/lock application/json {"kind":"Lease","metadata":{"labels":{"team":"a"},"name":"lock","resourceVersion":"7"},` +
			`"spec":{"acquireTime":"2026-05-04T03:02:01.123456Z","holderIdentity":"two","leaseDurationSeconds":15,"leaseTransitions":1,"renewTime":"2026-05-04T03:02:02.123456Z","strategy":"kept"}}`,
	}
	assert.Equal(t, wanted, asked[1:3])
}

// failures notes the failed requests.
type failures struct{ seen []string }

func (f *failures) RequestFailed(verb, code string) { f.seen = append(f.seen, verb+" "+code) }
func (f *failures) RequestWaited(time.Duration)     {}

// Failed requests are counted by what they were to do.
func TestVerbsOfFailedLeaseRequests(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`)
	})
	f := &failures{}
	client.observer = f
	leases := Leases{Client: client, Namespace: "observe", Name: "lock"}
	for _, lease := range []Lease{{}, {object: map[string]any{}}} {
		_, err := leases.Put(t.Context(), lease)
		require.True(t, apierrors.IsForbidden(err))
	}
	_, err := leases.Get(t.Context())
	require.True(t, apierrors.IsForbidden(err))
	assert.Equal(t, []string{"create 403", "update 403", "get 403"}, f.seen)
}
