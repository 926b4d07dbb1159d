package main

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/cmd/k8swatchlist/internal/preflight"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// checked runs check and returns the report on the only receiver.
func checked(t *testing.T, s *apiServer, config string, wantCode int) *preflight.Report {
	t.Helper()
	r := execute(t, "receivers: {k8s_watchlist: "+config+"}", "check", "--config", "-", "--kubeconfig", s.start(t), "-o", "json")
	require.Equal(t, wantCode, r.code, r.out+r.err)
	var reports []*preflight.Report
	require.NoError(t, json.Unmarshal([]byte(r.out), &reports))
	require.Len(t, reports, 1)
	return reports[0]
}

func TestCheckCounts(t *testing.T) {
	t.Parallel()
	s := &apiServer{version: "v1.37.2", counts: true, objects: map[string]int{"pods": 148_212, "secrets": 7}}
	r := checked(t, s, "{resources: [pods, secrets, nodes]}", exitFine)
	require.Len(t, r.Resources, 3)
	pods, secrets, nodes := r.Resources[0], r.Resources[1], r.Resources[2]
	assert.Equal(t, int64(148_212), *pods.Objects)
	assert.Greater(t, *pods.Bytes, int64(148_212*20))
	assert.Equal(t, int64(7), *secrets.Objects)
	assert.Nil(t, secrets.Bytes, "their size would have to be read")
	assert.Contains(t, secrets.Notes, "values are masked")
	assert.Zero(t, *nodes.Objects)
	assert.Equal(t, int64(148_219), r.Estimate.Objects)
	assert.Equal(t, int64(148_219*105), r.Estimate.InventoryBytes)
	assert.False(t, r.Estimate.Complete, "without the size of Secrets")
	assert.Equal(t, 3, r.Estimate.Streams)
	require.Len(t, r.Warnings, 1)
	assert.Regexp(t, `^pods has 148,212 objects: expect about \d+ CPU seconds here and \d+ in kube-apiserver at the first start$`, r.Warnings[0])
	assert.Equal(t, "tester", r.User)
	assert.True(t, r.StreamsInitialState)
}

// A server does not count what a selector selects, or what another API server serves.
func TestCheckCountsPages(t *testing.T) {
	t.Parallel()
	s := &apiServer{version: "v1.37.2", objects: map[string]int{"pods": 1234}}
	r := checked(t, s, "{resources: [{name: pods, label_selector: a=b}]}", exitFine)
	assert.Equal(t, int64(1234), *r.Resources[0].Objects)
	assert.False(t, r.Resources[0].More)
	assert.True(t, r.Estimate.Complete)

	s = &apiServer{version: "v1.37.2", objects: map[string]int{"pods": 12_345}}
	r = checked(t, s, "{resources: [{name: pods, label_selector: a=b}]}", exitFine)
	assert.Equal(t, int64(5010), *r.Resources[0].Objects)
	assert.True(t, r.Resources[0].More)
	assert.False(t, r.Estimate.Complete)
}

// A server that selects a shard does not count, and its answer would be a part.
func TestCheckOfAShard(t *testing.T) {
	t.Parallel()
	s := &apiServer{version: "v1.37.2", counts: true, objects: map[string]int{"pods": 148_212}}
	r := checked(t, s, "{resources: [pods], shard: {total: 4, index: 1, by: namespace}}", exitFine)
	assert.Equal(t, "1 of 4 by namespace", r.Shard)
	assert.Equal(t, int64(148_212), *r.Resources[0].Objects)
	text := execute(t, "receivers: {k8s_watchlist: {resources: [pods], shard: {total: 4, index: 1}}}", "check", "--config", "-", "--kubeconfig", s.start(t)).out
	assert.Contains(t, text, "Shard     1 of 4; objects and costs below are those of all shards\n")
}

// The right to list is needed only where nothing is streamed.
func TestCheckRights(t *testing.T) {
	t.Parallel()
	onlyWatch := func(verb, _ string) bool { return verb == "watch" }
	r := checked(t, &apiServer{version: "v1.37.2", may: onlyWatch}, "{resources: [pods]}", exitFine)
	assert.Equal(t, preflight.Readable, r.Resources[0].State)
	assert.Nil(t, r.Resources[0].Objects)
	assert.Empty(t, r.Missing)

	for _, version := range []string{"v1.33.1", "v1.30.0", "", "v2.0.0"} {
		r = checked(t, &apiServer{version: version, may: onlyWatch}, "{resources: [pods]}", exitFindings)
		assert.Equal(t, preflight.Forbidden, r.Resources[0].State)
		assert.Equal(t, []string{"list"}, r.Resources[0].Lacks)
		assert.Equal(t, map[string]string{"": "  # resources[0]\n  - apiGroups: [\"\"]\n    resources: [pods]\n    verbs: [list, watch]\n"}, r.Missing)
	}

	s := &apiServer{version: "v1.37.2", may: func(verb, resource string) bool {
		return verb == "list" && resource != "pods" || verb == "watch" && resource == "pods"
	}}
	r = checked(t, s, `{resources: [pods.metrics.k8s.io, {name: pods, namespaces: [b, a]}, widgets.example.com]}`, exitFindings)
	assert.Equal(t, preflight.Readable, r.Resources[0].State, "what cannot be watched needs no right to watch")
	assert.Equal(t, []string{"served by another API server", "cannot be watched, and is listed every five minutes"}, r.Resources[0].Notes)
	assert.Equal(t, "2 namespaces", r.Resources[1].Scope)
	assert.Equal(t, preflight.Readable, r.Resources[1].State)
	assert.Equal(t, []string{"watch"}, r.Resources[2].Lacks)
	assert.Contains(t, r.Missing[""], "widgets")
	assert.Contains(t, r.Optional[""], "customresourcedefinitions")
	assert.Len(t, r.Missing, 1)
}

func TestCheckTable(t *testing.T) {
	t.Parallel()
	s := &apiServer{version: "v1.37.2", counts: true, objects: map[string]int{"pods": 1234}, may: func(_, resource string) bool { return resource != "nodes" }}
	r := execute(t, `receivers: {k8s_watchlist: {resources: [pods, nodes, gizmos.example.com]}, k8s_watchlist/b: {resources: [pods], auth_type: kubeConfig}}`,
		"check", "--config", "-", "--kubeconfig", s.start(t))
	assert.Equal(t, exitFindings, r.code, r.err)
	for _, want := range []string{
		`(?m)^Receiver  k8s_watchlist: the configuration is valid$`,
		`(?m)^Receiver  k8s_watchlist/b: the configuration is valid$`,
		`(?m)^Cluster   http://127\.0\.0\.1:\d+, version v1\.37\.2, UID c1; the initial state is streamed$`,
		`(?m)^RESOURCE +MATCHED BY +SCOPE +OBJECTS +STREAMS +RIGHTS +NOTE$`,
		`(?m)^pods +resources\[0\] +cluster +1,234 +1 +watch list$`,
		`(?m)^nodes +resources\[1\] +cluster +\? +1 +✗ watch$`,
		`(?m)^gizmos\.example\.com +resources\[2\] +- +- +- +- +gizmos\.example\.com is not served; the receiver waits for it$`,
		`(?m)^3 resources, 4 streams on 1 connection, at least 1,234 objects$`,
		`(?m)^✗ Rights are missing\. Add to the ClusterRole:$`,
	} {
		assert.Regexp(t, regexp.MustCompile(want), r.out)
	}
	assert.Equal(t, 1, strings.Count(r.out, "✗ Rights"))
	assert.NotRegexp(t, regexp.MustCompile(`(?m) $`), r.out, "no line ends in spaces")

	r = execute(t, podsConfig, "check", "--config", "-", "--kubeconfig", s.start(t), "-o", "yaml")
	assert.Equal(t, exitFine, r.code)
	assert.Contains(t, r.out, "- cluster_uid: c1\n")
}

// What the server says cannot control a terminal, and quotes no object.
func TestCheckOutputIsSafeToPrint(t *testing.T) {
	t.Parallel()
	s := &apiServer{version: "v1.37.2", list: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":400,"reason":"BadRequest","message":"no \u001b[31m {\"password\":\"blue\"}"}`))
		return true
	}}
	r := execute(t, podsConfig, "check", "--config", "-", "--kubeconfig", s.start(t))
	assert.Equal(t, exitFine, r.code, r.err)
	assert.Contains(t, r.out, "cannot be counted")
	assert.NotContains(t, r.out, "\x1b")
	assert.NotContains(t, r.out, "blue")

	s.list = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{},"items":{"blue":1}}`))
		return true
	}
	r = execute(t, podsConfig, "check", "--config", "-", "--kubeconfig", s.start(t))
	assert.Equal(t, exitFine, r.code, r.err)
	assert.Contains(t, r.out, "cannot be counted")
	assert.NotContains(t, r.out, "blue")
}

func TestCheckOfAnotherUser(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	s := &apiServer{version: "v1.37.2", list: func(_ http.ResponseWriter, r *http.Request) bool {
		asked <- r.Header.Get("Impersonate-User")
		return false
	}}
	r := execute(t, podsConfig, "check", "--config", "-", "--kubeconfig", s.start(t), "--as", "someone")
	require.Equal(t, exitFine, r.code, r.err)
	require.NotEmpty(t, asked, r.out)
	assert.Equal(t, "someone", <-asked)
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 9949: "9.9 kB", 9960: "10 kB", 19_000_000: "19 MB", 1_500_000_000: "1.5 GB"} {
		assert.Equal(t, want, size(bytes))
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		assert.Equal(t, want, preflight.Thousands(n))
	}
}

// Replicas need rights to Leases, each shard to its own. The pod's namespace is that of the service account.
func TestCheckOfReplicas(t *testing.T) {
	t.Parallel()
	const election = "leader_election: {enabled: true, lease_namespace: logs}"
	lacking := func(lacks string) *apiServer {
		return &apiServer{version: "v1.37.2", may: func(verb, resource string) bool {
			return resource != "leases.coordination.k8s.io" || !strings.Contains(lacks, verb)
		}}
	}
	const create = "  # to create the Leases of the replicas\n  - apiGroups: [coordination.k8s.io]\n    resources: [leases]\n    verbs: [create]\n"
	use := func(names string) string {
		return "  # to elect the leader, and to publish and read how far records were accepted\n  - apiGroups: [coordination.k8s.io]\n    resources: [leases]\n    resourceNames: [" +
			names + "]\n    verbs: [get, update]\n"
	}
	assert.Empty(t, checked(t, lacking(""), "{resources: [pods], "+election+"}", exitFine).Missing)
	assert.Empty(t, checked(t, lacking("create get update"), "{resources: [pods]}", exitFine).Missing, "there is one replica")
	r := checked(t, lacking("create"), "{resources: [pods], "+election+"}", exitFindings)
	assert.Equal(t, map[string]string{"logs": create}, r.Missing)
	assert.Equal(t, preflight.Readable, r.Resources[0].State)
	r = checked(t, lacking("update"), "{resources: [pods], shard: {total: 2, index: 0}, "+election+"}", exitFindings)
	assert.Equal(t, map[string]string{"logs": use("k8s-watchlist-0-of-2, k8s-watchlist-0-of-2-progress, k8s-watchlist-1-of-2, k8s-watchlist-1-of-2-progress, k8s-watchlist-shards")}, r.Missing)
	r = checked(t, lacking("create get"), "{resources: [pods], k8s_leader_elector: e, standby: {progress: audit/positions}}", exitFindings)
	assert.Equal(t, map[string]string{"audit": create + use("positions")}, r.Missing)

	const inPod = "{resources: [pods], leader_election: {enabled: true}}"
	r = checked(t, lacking("create"), inPod, exitFine)
	assert.Contains(t, strings.Join(r.Warnings, "\n"), "namespace of the pod, which is not known")
	s := lacking("create get update")
	s.user = "system:serviceaccount:observability:otelcol"
	r = checked(t, s, inPod, exitFindings)
	assert.Equal(t, map[string]string{"observability": create + use("k8s-watchlist, k8s-watchlist-progress")}, r.Missing)
}
