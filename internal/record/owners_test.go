package record

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func of(resource string) *scope.Scope {
	return &scope.Scope{GroupResource: schema.ParseGroupResource(resource)}
}

func TestOwners(t *testing.T) {
	controller := func(apiVersion, kind string) redact.Owner {
		return redact.Owner{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: "owner-uid", Controls: true}
	}
	other := controller("apps/v1", "ReplicaSet")
	other.Controls = false
	for name, tt := range map[string]struct {
		resource string
		owner    redact.Owner
		want     map[string]any
	}{
		"of a pod":                     {"pods", controller("apps/v1", "ReplicaSet"), map[string]any{"k8s.replicaset.name": "owner", "k8s.replicaset.uid": "owner-uid"}},
		"that does not control it":     {"pods", other, nil},
		"stateful set":                 {"pods", controller("apps/v1", "StatefulSet"), map[string]any{"k8s.statefulset.name": "owner", "k8s.statefulset.uid": "owner-uid"}},
		"daemon set":                   {"pods", controller("apps/v1", "DaemonSet"), map[string]any{"k8s.daemonset.name": "owner", "k8s.daemonset.uid": "owner-uid"}},
		"replication controller":       {"pods", controller("v1", "ReplicationController"), map[string]any{"k8s.replicationcontroller.name": "owner", "k8s.replicationcontroller.uid": "owner-uid"}},
		"node of a mirror pod":         {"pods", controller("v1", "Node"), map[string]any{"k8s.node.name": "owner", "k8s.node.uid": "owner-uid"}},
		"of a replica set":             {"replicasets.apps", controller("apps/v1", "Deployment"), map[string]any{"k8s.deployment.name": "owner", "k8s.deployment.uid": "owner-uid"}},
		"of a job":                     {"jobs.batch", controller("batch/v1", "CronJob"), map[string]any{"k8s.cronjob.name": "owner", "k8s.cronjob.uid": "owner-uid"}},
		"in an old version":            {"jobs.batch", controller("batch/v1beta1", "CronJob"), map[string]any{"k8s.cronjob.name": "owner", "k8s.cronjob.uid": "owner-uid"}},
		"of a custom resource":         {"widgets.example.com", controller("apps/v1", "Deployment"), map[string]any{"k8s.deployment.name": "owner", "k8s.deployment.uid": "owner-uid"}},
		"custom":                       {"replicasets.apps", controller("argoproj.io/v1alpha1", "Rollout"), nil},
		"custom, called like built-in": {"pods", controller("batch.volcano.sh/v1alpha1", "Job"), nil},
		"of the same kind":             {"pods", controller("v1", "Pod"), nil},
		"namespace":                    {"resourcequotas", controller("v1", "Namespace"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			record := build(t, Options{}, watchlist.Change{Scope: of(tt.resource), Type: watchlist.Added, ReadAt: read, Object: redact.Object{
				Identity: redact.Identity{Namespace: "shop", Name: "own", UID: "own-uid"}, Owner: tt.owner,
			}})[0]
			want := map[string]any{
				"k8s.object.name": "own", "k8s.object.uid": "own-uid", "k8s.namespace.name": "shop",
				"k8s.owner.kind": tt.owner.Kind, "k8s.owner.name": "owner", "k8s.owner.uid": "owner-uid", "k8s.owner.api_version": tt.owner.APIVersion,
			}
			if own, ok := kinds[of(tt.resource).GroupResource]; ok {
				want[own.name], want[own.uid] = "own", "own-uid"
			}
			for key, value := range tt.want {
				want[key] = value
			}
			assert.Equal(t, want, what(record))
		})
	}
}

func TestPlaceOfAPod(t *testing.T) {
	change := watchlist.Change{Scope: pods, Type: watchlist.Added, ReadAt: read, Object: pod()}
	get := func(o Options, key string) any { return build(t, o, change)[0].Attributes().AsRaw()[key] }
	assert.Equal(t, "n1", get(Options{}, "k8s.node.name"))
	assert.Equal(t, "Running", get(Options{}, "k8s.pod.status.phase"))
	assert.Equal(t, "2026-03-01T08:00:01Z", get(Options{}, "k8s.pod.start_time"))
	assert.Nil(t, get(Options{}, "k8s.pod.ip"))
	assert.Equal(t, "10.0.0.7", get(Options{PodIP: true}, "k8s.pod.ip"))
}

func TestDeploymentByName(t *testing.T) {
	for _, tt := range []struct{ replicaSet, hash, want string }{
		{"web-7c9d5f8b6d", "7c9d5f8b6d", "web"},
		{"web-api-7c9d5f8b6d", "7c9d5f8b6d", "web-api"},
		{"web-7c9d5f8b6d-7c9d5f8b6d", "7c9d5f8b6d", "web-7c9d5f8b6d"},
		{"web-7c9d5f8b6d", "", ""},
		{"web-", "", ""},
		{"web-7c9d5f8b6d", "5f8b6d", ""},
		{"adopted", "7c9d5f8b6d", ""},
		{"-7c9d5f8b6d", "7c9d5f8b6d", ""},
		{strings.Repeat("a", 241) + "-7c9d5f8b6d", "7c9d5f8b6d", strings.Repeat("a", 241)},
		{strings.Repeat("a", 242) + "-7c9d5f8b6d", "7c9d5f8b6d", ""}, // it may have been cut
	} {
		assert.Equal(t, tt.want, deploymentOf(tt.replicaSet, tt.hash), tt.replicaSet)
	}
}

func TestCronJobByName(t *testing.T) {
	scheduled := time.Date(2026, 7, 30, 9, 15, 0, 0, time.UTC)
	minutes := scheduled.Unix() / 60
	job := func(name string, minutes int64) string { return fmt.Sprintf("%s-%d", name, minutes) }
	for _, tt := range []struct {
		job     string
		created time.Time
		want    string
	}{
		{job("report", minutes), scheduled.Add(2 * time.Second), "report"},
		{job("nightly-report", minutes), scheduled, "nightly-report"},
		{job("report", minutes), scheduled.Add(23 * time.Hour), "report"},
		{job("report", minutes), scheduled.Add(25 * time.Hour), ""},
		{job("report", minutes), scheduled.Add(-time.Hour), ""},
		{job("report", minutes), time.Time{}, ""},
		{job("report", 20260730), scheduled, ""}, // a date
		{"report-0" + fmt.Sprint(minutes), scheduled, ""},
		{"report-" + fmt.Sprint(minutes) + "x", scheduled, ""},
		{"report-", scheduled, ""}, {"report", scheduled, ""}, {job("", minutes), scheduled, ""}, {"", scheduled, ""},
		{"report-99999999999999999999", scheduled, ""},
		{job(strings.Repeat("a", 52), minutes), scheduled, strings.Repeat("a", 52)},
		{job(strings.Repeat("a", 53), minutes), scheduled, ""}, // no CronJob's
	} {
		assert.Equal(t, tt.want, cronJobOf(tt.job, tt.created), "%s at %s", tt.job, tt.created)
	}
}

const (
	setUID, jobUID = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
)

// podOf is a pod that the object controls.
func podOf(apiVersion, kind, name, uid string) watchlist.Change {
	return watchlist.Change{Scope: pods, Type: watchlist.Added, ReadAt: read, Object: redact.Object{
		Identity: redact.Identity{Namespace: "shop", Name: "p", UID: "p-uid"}, Times: redact.Times{Created: created},
		Owner: redact.Owner{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controls: true},
		Pod:   &redact.Pod{TemplateHash: "7c9d"},
	}}
}

func inBetween(resource string, change watchlist.Type, uid string, owner redact.Owner) watchlist.Change {
	return watchlist.Change{Scope: of(resource), Type: change, ReadAt: read, Object: redact.Object{
		Identity: redact.Identity{Namespace: "shop", Name: "x", UID: uid}, Owner: owner, JSON: "{}",
	}}
}

func TestTopWorkload(t *testing.T) {
	deployment := redact.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d-uid", Controls: true}
	cronJob := redact.Owner{APIVersion: "batch/v1", Kind: "CronJob", Name: "report", UID: "c-uid", Controls: true}
	rollout := redact.Owner{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "web", UID: "r-uid", Controls: true}
	manual := podOf("batch/v1", "Job", "manual", jobUID)
	adopted := podOf("apps/v1", "ReplicaSet", "adopted", setUID)
	named := podOf("apps/v1", "ReplicaSet", "web-7c9d", setUID)
	set := func(change watchlist.Type, owner redact.Owner) watchlist.Change {
		return inBetween("replicasets.apps", change, setUID, owner)
	}
	for name, tt := range map[string]struct {
		before []watchlist.Change
		pod    watchlist.Change
		want   map[string]any
	}{
		"by name": {nil, named, map[string]any{"k8s.deployment.name": "web"}},
		"not certain by name, and the replica set is not read": {nil, adopted, nil},
		"replica set that is read": {[]watchlist.Change{set(watchlist.Snapshot, deployment)}, adopted,
			map[string]any{"k8s.deployment.name": "web", "k8s.deployment.uid": "d-uid"}},
		"replica set that was just deleted": {[]watchlist.Change{set(watchlist.Added, deployment), set(watchlist.Deleted, deployment)}, adopted,
			map[string]any{"k8s.deployment.name": "web", "k8s.deployment.uid": "d-uid"}},
		"replica set that nothing controls": {[]watchlist.Change{set(watchlist.Added, redact.Owner{})}, named, nil},
		"replica set of a rollout":          {[]watchlist.Change{set(watchlist.Added, rollout)}, named, nil},
		"replica set that was adopted":      {[]watchlist.Change{set(watchlist.Added, redact.Owner{}), set(watchlist.Modified, deployment)}, adopted, map[string]any{"k8s.deployment.name": "web", "k8s.deployment.uid": "d-uid"}},
		"job that is read": {[]watchlist.Change{inBetween("jobs.batch", watchlist.Added, jobUID, cronJob)}, manual,
			map[string]any{"k8s.cronjob.name": "report", "k8s.cronjob.uid": "c-uid"}},
		"job that is not read": {nil, manual, nil},
		"job by name": {nil, podOf("batch/v1", "Job", fmt.Sprintf("report-%d", created.Unix()/60), jobUID),
			map[string]any{"k8s.cronjob.name": "report"}},
		"replica set of another API": {nil, podOf("apps.example.com/v1", "ReplicaSet", "web-7c9d", setUID), nil},
		"replica set whose owner cannot be read": {[]watchlist.Change{func() watchlist.Change {
			c := set(watchlist.Added, redact.Owner{})
			c.Object.RedactionFailed = true
			return c
		}()}, named, map[string]any{"k8s.deployment.name": "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			changes := append(tt.before, tt.pod)
			records := build(t, Options{}, changes...)
			got := map[string]any{}
			for key, value := range records[len(records)-1].Attributes().All() {
				if strings.HasPrefix(key, "k8s.deployment.") || strings.HasPrefix(key, "k8s.cronjob.") {
					got[key] = value.AsRaw()
				}
			}
			if tt.want == nil {
				tt.want = map[string]any{}
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// A ReplicaSet names the Deployment of its pods in whichever format its own records are.
func TestTopWorkloadAcrossFormats(t *testing.T) {
	deployment := redact.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d-uid", Controls: true}
	b := NewBuilder(Options{FormatOf: func(s *scope.Scope) Format {
		if s.Resource == "replicasets" {
			return FormatK8sObjects
		}
		return FormatWatchlist
	}})
	b.Build([]watchlist.Change{inBetween("replicasets.apps", watchlist.Added, setUID, deployment)})
	logs := b.Build([]watchlist.Change{podOf("apps/v1", "ReplicaSet", "adopted", setUID)})
	attributes := logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().AsRaw()
	assert.Equal(t, "web", attributes["k8s.deployment.name"])
	assert.Equal(t, "d-uid", attributes["k8s.deployment.uid"])
}

// What is remembered of deleted ReplicaSets is bounded.
func TestWorkloadsForgetWhatIsGone(t *testing.T) {
	var w workloads
	deployment := redact.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d-uid", Controls: true}
	for n := range 3 * maxGone {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		for _, change := range []watchlist.Type{watchlist.Added, watchlist.Modified, watchlist.Deleted} {
			c := inBetween("replicasets.apps", change, uid, deployment)
			w.learn(&c)
		}
		assert.LessOrEqual(t, len(w.of), maxGone+1)
	}
	assert.Len(t, w.of, maxGone)
}
