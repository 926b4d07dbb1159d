package rights

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers questions, and notes them.
type server struct {
	answer func(ctx context.Context, right kubeclient.Right) (bool, error)

	mu    sync.Mutex
	asked []kubeclient.Right
	times []time.Time
}

func (s *server) May(ctx context.Context, right kubeclient.Right) (bool, error) {
	s.mu.Lock()
	s.asked, s.times = append(s.asked, right), append(s.times, time.Now())
	s.mu.Unlock()
	return s.answer(ctx, right)
}

func of(group, resource, namespace string) scope.Scope {
	return scope.New(schema.GroupResource{Group: group, Resource: resource}, namespace, "", "")
}

func needs(scopes ...scope.Scope) []Need {
	all := make([]Need, len(scopes))
	for i, s := range scopes {
		all[i].Scope = s
	}
	return all
}

func nothingIsRead(scope.Scope) bool { return false }

func report(t *testing.T, s *server, qps float64, needs []Need, isRead func(scope.Scope) bool) *observer.ObservedLogs {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	synctest.Test(t, func(t *testing.T) { New(s, qps).Report(t.Context(), needs, isRead, zap.New(core)) })
	return logs
}

// All that is missing is one entry, with rules that are YAML.
func TestOneEntryForEverything(t *testing.T) {
	s := &server{answer: func(_ context.Context, r kubeclient.Right) (bool, error) {
		switch r.Resource {
		case "pods", "deployments", "replicasets", "configmaps", "namespaces", "apiservices":
			return false, nil
		case "nodes":
			return r.Verb != "watch", nil
		case "services":
			return r.Verb != "list", nil
		}
		return true, nil
	}}
	uid := scope.New(schema.GroupResource{Resource: "namespaces"}, "", "", "metadata.name=kube-system")
	logs := report(t, s, 20, append(needs(
		of("", "pods", ""), of("", "nodes", ""), of("", "services", ""), of("apps", "deployments", ""), of("apps", "replicasets", ""),
		of("", "configmaps", "shop"), of("", "configmaps", "pay"), of("", "secrets", "pay"),
	), Need{Scope: uid, Verbs: []string{"get"}, Optional: true}, Need{Scope: of("apiregistration.k8s.io", "apiservices", ""), Optional: true}), nothingIsRead)
	require.Equal(t, 1, logs.Len(), "%v", logs.All())
	entry := logs.All()[0]
	assert.Equal(t, zapcore.WarnLevel, entry.Level)
	assert.Equal(t, []any{"pods", "nodes", "deployments.apps", "replicasets.apps", "configmaps in namespace shop", "configmaps in namespace pay"},
		entry.ContextMap()["resources"])
	const cluster = `[{apiGroups: [""], resources: ["pods"], verbs: [watch, list]}, {apiGroups: [""], resources: ["nodes"], verbs: [watch]}, ` +
		`{apiGroups: ["apps"], resources: ["deployments", "replicasets"], verbs: [watch, list]}]`
	assert.Equal(t, `add to the collector's ClusterRole: rules: `+cluster+
		`; add to the collector's Role in each of the namespaces pay, shop: rules: [{apiGroups: [""], resources: ["configmaps"], verbs: [watch, list]}]`,
		entry.ContextMap()["remedy"])
	const optional = `[{apiGroups: [""], resources: ["services"], verbs: [list]}, ` +
		`{apiGroups: [""], resources: ["namespaces"], resourceNames: ["kube-system"], verbs: [get]}, ` +
		`{apiGroups: ["apiregistration.k8s.io"], resources: ["apiservices"], verbs: [watch, list]}]`
	assert.Equal(t, `add to the collector's ClusterRole: rules: `+optional, entry.ContextMap()["optional"])
	for _, text := range []string{cluster, optional} {
		retrieved, err := confmap.NewRetrievedFromYAML([]byte(text))
		require.NoError(t, err)
		rules, err := retrieved.AsRaw()
		require.NoError(t, err)
		require.Len(t, rules, 3)
		assert.Len(t, rules.([]any)[0].(map[string]any), 3)
	}
}

// What the receiver can do without is information.
func TestOnlyListIsMissing(t *testing.T) {
	s := &server{answer: func(_ context.Context, r kubeclient.Right) (bool, error) { return r.Verb != "list", nil }}
	logs := report(t, s, 20, needs(of("", "pods", ""), of("", "nodes", "")), func(scope.Scope) bool { return true })
	require.Equal(t, 1, logs.Len())
	assert.Equal(t, zapcore.InfoLevel, logs.All()[0].Level)
	assert.Equal(t, `add to the collector's ClusterRole: rules: [{apiGroups: [""], resources: ["pods", "nodes"], verbs: [list]}]`,
		logs.All()[0].ContextMap()["remedy"])
}

// The reader of a single resource logs the same itself. What is read all the same may be read.
func TestEntriesThatAreLeftOut(t *testing.T) {
	s := &server{answer: func(context.Context, kubeclient.Right) (bool, error) { return false, nil }}
	read := map[scope.Scope]bool{of("", "nodes", ""): true, of("", "services", ""): true}
	logs := report(t, s, 20, needs(of("", "pods", ""), of("", "nodes", ""), of("", "services", "")), func(s scope.Scope) bool { return read[s] })
	assert.Empty(t, logs.All())
	assert.Len(t, s.asked, 6)
}

// Hundreds of scopes are asked about slowly, and not all of them; a request that was refused goes first.
func TestPace(t *testing.T) {
	s := &server{answer: func(context.Context, kubeclient.Right) (bool, error) {
		time.Sleep(50 * time.Millisecond)
		return true, nil
	}}
	var many []scope.Scope
	for i := range 500 {
		many = append(many, of("", "pods", fmt.Sprint("ns-", i)))
	}
	synctest.Test(t, func(t *testing.T) {
		c := New(s, 8)
		var run sync.WaitGroup
		run.Go(func() { c.Report(t.Context(), needs(many...), nothingIsRead, zap.NewNop()) })
		time.Sleep(10 * time.Second)
		began := time.Now()
		assert.Empty(t, c.Missing(t.Context(), of("", "nodes", "")))
		assert.Less(t, time.Since(began), 2*time.Second)
		run.Wait()
	})
	assert.Len(t, s.asked, 2*maxNeeds+2)
	assert.GreaterOrEqual(t, s.times[len(s.times)-1].Sub(s.times[0]), 100*time.Second, "a quarter of 8 per second")
}

// A server that refuses to answer, or hangs, is not asked about everything. A later question is asked all the same, and
// ends soon.
func TestNoAnswers(t *testing.T) {
	for name, answer := range map[string]func(context.Context) (bool, error){
		"refused": func(context.Context) (bool, error) { return false, errors.New("forbidden") },
		"hanging": func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{answer: func(ctx context.Context, _ kubeclient.Right) (bool, error) { return answer(ctx) }}
			var many []scope.Scope
			for i := range 50 {
				many = append(many, of("", "pods", fmt.Sprint("ns-", i)))
			}
			core, logs := observer.New(zapcore.DebugLevel)
			synctest.Test(t, func(t *testing.T) {
				c := New(s, 20)
				c.Report(t.Context(), needs(many...), nothingIsRead, zap.New(core))
				began := time.Now()
				assert.Nil(t, c.Missing(t.Context(), of("", "nodes", "")))
				assert.LessOrEqual(t, time.Since(began), refusedTimeout)
			})
			assert.Len(t, s.asked, maxFailures+1)
			require.Equal(t, 1, logs.Len())
			assert.Equal(t, zapcore.InfoLevel, logs.All()[0].Level)
		})
	}
}

// One question without an answer says nothing about the others.
func TestOneAnswerIsMissing(t *testing.T) {
	s := &server{answer: func(_ context.Context, r kubeclient.Right) (bool, error) {
		if r.Resource == "pods" {
			return false, errors.New("timeout")
		}
		return false, nil
	}}
	logs := report(t, s, 20, needs(of("", "nodes", ""), of("", "pods", ""), of("", "services", "")), nothingIsRead)
	require.Equal(t, 1, logs.Len())
	assert.Equal(t, []any{"nodes", "services"}, logs.All()[0].ContextMap()["resources"])
}

// Ending does not wait for answers.
func TestEndsAtOnce(t *testing.T) {
	s := &server{answer: func(ctx context.Context, _ kubeclient.Right) (bool, error) {
		<-ctx.Done()
		return false, ctx.Err()
	}}
	core, logs := observer.New(zapcore.DebugLevel)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		New(s, 20).Report(ctx, needs(of("", "pods", ""), of("", "nodes", "")), nothingIsRead, zap.New(core))
		assert.Equal(t, time.Second, time.Since(began))
	})
	assert.Empty(t, logs.All())
	assert.Len(t, s.asked, 1)
}

// A selector for one name is a request for that object, which a rule may allow by resourceNames.
func TestNameOfASelector(t *testing.T) {
	s := &server{answer: func(context.Context, kubeclient.Right) (bool, error) { return true, nil }}
	New(s, 20).Missing(t.Context(), scope.New(schema.GroupResource{Resource: "namespaces"}, "", "", "metadata.name=shop"))
	require.NotEmpty(t, s.asked)
	assert.Equal(t, kubeclient.Right{Verb: "watch", GroupResource: schema.GroupResource{Resource: "namespaces"}, Name: "shop"}, s.asked[0])
}
