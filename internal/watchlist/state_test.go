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

// Every condition has a word, and every fault a message and a remedy.
func TestConditions(t *testing.T) {
	of := scope.New(schema.GroupResource{Group: "apps", Resource: "deployments"}, "shop", "", "")
	for _, c := range Conditions() {
		assert.NotEqual(t, "unknown", c.String())
		assert.Equal(t, c.IsFault(), c.message() != "", c)
		assert.Equal(t, c.IsFault(), State{Condition: c, Err: errSilent}.Remedy(of) != "", c)
	}
	assert.Equal(t, `add this rule to the collector's Role in namespace shop: - {apiGroups: ["apps"], resources: ["deployments"], verbs: [watch, list]}`,
		State{Condition: Forbidden, Err: apierrors.NewForbidden(of.GroupResource, "", nil)}.Remedy(of))
	assert.Contains(t, State{Condition: Forbidden, Err: apierrors.NewUnauthorized("expired")}.Remedy(of), "credentials")
}

func TestInitialStateIsAState(t *testing.T) {
	r, logs := loggingReader()
	r.nowReading()
	assert.Equal(t, Initializing, r.state.Condition)
	r.setState(Unreachable, errors.New("connection refused"))
	r.nowReading()
	assert.Equal(t, Initializing, r.state.Condition)
	r.position = closedPosition(parseVersion("7"))
	r.nowReading()
	assert.Equal(t, Reading, r.state.Condition)
	r.Knowledge.notWatchable()
	r.nowReading()
	assert.Equal(t, Polling, r.state.Condition)
	assert.Equal(t, []string{"warn cannot read resource, will try again", "info reading resource again", "info reading resource"}, messages(logs))
}
