package watchlist

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/watch"
)

// An ERROR event may quote an object, and may ask us to wait for a day.
func TestErrorEventsAreCleaned(t *testing.T) {
	for object, want := range map[string]string{
		`{"kind":"Status","message":"Object 'Kind' is missing in '{\"data\":{\"x\":\"sentinel\"}}'","reason":"InternalError","code":500}`: "server ended the watch: Object 'Kind' is missing in",
		`{"kind":"Status","message":"a\nsentinel","code":500}`:                                                                            "server ended the watch: a",
		`{"kind":"Status","message":"{\"x\":\"sentinel\"}","reason":"Expired","code":410}`:                                                "server ended the watch: status 410 Expired without a readable message",
		`{"kind":"Secret","data":{"x":"sentinel"}}`:                                                                                       "server ended the watch: error event without a status",
		`{"kind":"Secret","data":{"x":"sentinel"},"message":"sentinel"}`:                                                                  "server ended the watch: error event without a status",
	} {
		assert.EqualError(t, statusError([]byte(object)), want)
	}
	err := statusError([]byte(`{"kind":"Status","message":"too many","reason":"TooManyRequests","code":429,"details":{"retryAfterSeconds":86400}}`))
	assert.Equal(t, 5*time.Minute, retryAfter(err))
	assert.ErrorContains(t, err, "24h0m0s")
}

func TestUnknownEventTypesAreNotQuoted(t *testing.T) {
	assert.EqualError(t, errUnknownType("RENAMED"), "unknown watch event type RENAMED")
	for _, event := range []watch.EventType{"{\"x\":1}", watch.EventType(strings.Repeat("A", 100)), "c2VudGluZWw="} {
		assert.NotContains(t, errUnknownType(event).Error(), string(event))
	}
}
