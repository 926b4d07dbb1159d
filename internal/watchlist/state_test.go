package watchlist

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

func loggingReader() (*Reader, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.DebugLevel)
	return NewReader(Options{Scope: scope.New(schema.GroupResource{Resource: "pods"}, "", "", ""), Logger: zap.New(core)}), logs
}

func messages(logs *observer.ObservedLogs) []string {
	var all []string
	for _, entry := range logs.TakeAll() {
		all = append(all, entry.Level.String()+" "+entry.Message)
	}
	return all
}

func TestSlowConsumerIsLoggedPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, logs := loggingReader()
		r.setState(Reading, nil)
		logs.TakeAll()
		for range 25 * 60 / 40 {
			r.setState(Paused, nil)
			time.Sleep(30 * time.Second)
			r.setState(Reading, nil)
			time.Sleep(10 * time.Second)
		}
		assert.Equal(t, []string{
			"warn next consumer is too slow, stream is closed until there is room in the queue",
			"warn next consumer is still too slow, stream is closed again and again",
			"warn next consumer is still too slow, stream is closed again and again",
		}, messages(logs), "25 minutes with a pause every 40 seconds")
		time.Sleep(2 * time.Minute)
		r.setState(Reading, nil)
		r.setState(Reading, nil)
		assert.Equal(t, []string{"info reading resource again"}, messages(logs))
	})
}

func TestNewCauseWithinACondition(t *testing.T) {
	r, logs := loggingReader()
	status := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}}
	}
	refused := errors.New("connection refused")
	for range 3 {
		r.setState(Unreachable, refused)
		r.setState(Unreachable, status(http.StatusBadGateway))
		r.setState(Unreachable, status(http.StatusGatewayTimeout))
	}
	assert.Len(t, messages(logs), 2, "the server that does not answer and the one that fails are each logged once")
	r.setState(Forbidden, status(http.StatusForbidden))
	r.setState(Forbidden, status(http.StatusUnauthorized))
	r.setState(Forbidden, status(http.StatusForbidden))
	assert.Len(t, messages(logs), 2)
	r.setState(Reading, nil)
	r.setState(Unreachable, refused)
	assert.Equal(t, []string{"info reading resource again", "warn cannot read resource, will try again"}, messages(logs))
}

// A server that briefly asks clients to wait, as it does while a CRD is edited, causes no warning.
func TestThrottlingIsNotAWarning(t *testing.T) {
	r, logs := loggingReader()
	r.setState(Unreachable, apierrors.NewTooManyRequests("storage is (re)initializing", 1))
	assert.Equal(t, []string{"info cannot read resource, will try again"}, messages(logs))
}

// One that keeps asking does.
func TestLongThrottlingIsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, logs := loggingReader()
		for range 20 {
			r.setState(Unreachable, apierrors.NewTooManyRequests("busy", 1))
			time.Sleep(5 * time.Second)
		}
		assert.Equal(t, []string{
			"info cannot read resource, will try again", "warn API server keeps asking clients to wait, will try again",
		}, messages(logs))
	})
}
