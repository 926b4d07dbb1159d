package k8swatchlistreceiver

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
)

// benchPod is an ordinary pod; the placeholder is its resourceVersion.
const benchPod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"cart-7d9f8","generateName":"cart-","namespace":"shop",` +
	`"uid":"1b4e28ba-2fa1-11d2-883f-0016d3cca427","resourceVersion":"%d","generation":1,"creationTimestamp":"2026-01-05T08:12:03Z",` +
	`"labels":{"app":"cart","pod-template-hash":"7d9f8"},"annotations":{"prometheus.io/scrape":"true","checksum/config":"9f86d081884c7d65"},` +
	`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart-7d9","uid":"2b4e28ba-2fa1-11d2-883f-0016d3cca427","controller":true}],` +
	`"managedFields":[{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-05T08:12:09Z","fieldsType":"FieldsV1",` +
	`"fieldsV1":{"f:status":{"f:phase":{},"f:podIP":{}}},"subresource":"status"}]},` +
	`"spec":{"nodeName":"node-17","serviceAccountName":"cart","containers":[{"name":"cart","image":"registry.example.com/cart:1.4.2",` +
	`"args":["--listen=:8080","--db","postgres://cart:hunter2hunter2@db:5432/cart"],"ports":[{"containerPort":8080,"protocol":"TCP"}],` +
	`"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"DB_PASSWORD","valueFrom":{"secretKeyRef":{"name":"db","key":"password"}}}],` +
	`"resources":{"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"tmp","mountPath":"/tmp"}]}],` +
	`"volumes":[{"name":"tmp","emptyDir":{}}]},"status":{"phase":"Running","podIP":"10.2.3.4","conditions":[{"type":"Ready","status":"True",` +
	`"lastTransitionTime":"2026-01-05T08:12:09Z"}],"containerStatuses":[{"name":"cart","ready":true,"restartCount":0,` +
	`"state":{"running":{"startedAt":"2026-01-05T08:12:08Z"}}}],"startTime":"2026-01-05T08:12:03Z"}}`

// Frames of a live watch on their whole way, from the API server's socket to the next consumer. tools/frame-path.sh runs
// it to list the files on that way.
func BenchmarkLiveFrames(b *testing.B) {
	begin := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api":
			fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[`+
				`{"resource":"pods","responseKind":{"kind":"Pod"},"scope":"Namespaced","verbs":["list","watch"]}]}]}]}`)
		case r.URL.Path == "/apis":
			fmt.Fprint(w, `{"kind":"APIGroupDiscoveryList","items":[]}`)
		case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"):
			fmt.Fprint(w, `{"metadata":{"uid":"uid-of-the-cluster"}}`)
		default:
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", fmt.Sprintf(benchPod, 5))
			fmt.Fprint(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
			w.(http.Flusher).Flush()
			<-begin
			for i := range b.N {
				fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", fmt.Sprintf(benchPod, 10+i))
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()

	var received atomic.Int64
	initial, all := make(chan struct{}), make(chan struct{})
	next, err := consumer.NewLogs(func(_ context.Context, logs plog.Logs) error {
		before := received.Add(int64(logs.LogRecordCount())) - int64(logs.LogRecordCount())
		after := before + int64(logs.LogRecordCount())
		for at, reached := range map[int64]chan struct{}{3: initial, int64(b.N) + 3: all} { // 3: the begin and end of the set, and its object
			if before < at && after >= at {
				close(reached)
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	cfg := podsConfig(server.URL)
	cfg.Batch.Timeout = time.Millisecond
	r, err := NewFactory().CreateLogs(b.Context(), receivertest.NewNopSettings(metadata.Type), cfg, next)
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Start(b.Context(), componenttest.NewNopHost()); err != nil {
		b.Fatal(err)
	}
	<-initial
	b.SetBytes(int64(len(benchPod)))
	b.ResetTimer()
	close(begin)
	<-all
	b.StopTimer()
	if err := r.Shutdown(context.Background()); err != nil {
		b.Fatal(err)
	}
}
