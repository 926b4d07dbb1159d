package replay_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/floor"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/library"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/reflection"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/replay"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

const (
	objects = 1000
	changes = 200
	timeout = time.Minute
)

var resources = []replay.Serves{
	{Kind: corpus.Pods2K, Count: objects}, {Kind: corpus.Nodes, Count: 10}, {Kind: corpus.Deployments, Count: 10}, {Kind: corpus.Rollouts, Count: 10},
}

func start(t *testing.T) (*replay.Server, contender.Options) {
	t.Helper()
	s, err := replay.Start(1, resources...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	folder := t.TempDir()
	o := contender.Options{
		Server: s.URL(), CA: filepath.Join(folder, "ca.pem"), Kubeconfig: filepath.Join(folder, "kubeconfig"),
		Resources: "api/v1/pods", Stamps: "kept",
	}
	if err := os.WriteFile(o.CA, s.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteKubeconfig(o.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return s, o
}

type run func(context.Context, contender.Options) ([]contender.Stamp, error)

// read lets a contender read the initial state of the pods and then the changes, and requires that it has read all of
// both.
func read(t *testing.T, s *replay.Server, o contender.Options, run run) []contender.Stamp {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	o.Progress = contender.NewProgress(1)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var stamps []contender.Stamp
	ended := make(chan error, 1)
	go func() {
		var err error
		stamps, err = run(reading, o)
		ended <- err
	}()
	select {
	case <-o.Progress.Complete():
	case err := <-ended:
		t.Fatalf("it ended before the initial state: %v", err)
	case <-ctx.Done():
		t.Fatal("the initial state did not arrive in time")
	}
	for i := range changes {
		s.Change(s.Resource("pods"), i)
	}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for o.Progress.Changes.Load() < changes && ctx.Err() == nil {
		<-ticker.C
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n, m := o.Progress.Objects.Load(), o.Progress.Changes.Load(); n != objects || m != changes {
		t.Errorf("it read %d objects and %d changes, want %d and %d", n, m, objects, changes)
	}
	return stamps
}

// requireEveryChange requires that each change arrived, in order, and after it happened.
func requireEveryChange(t *testing.T, s *replay.Server, stamps []contender.Stamp) {
	t.Helper()
	times := s.Times(s.Resource("pods"))
	last := uint64(0)
	for _, stamp := range stamps {
		happened, ok := times[stamp.Version]
		if !ok || stamp.At < happened || stamp.Version <= last {
			t.Errorf("version %d arrived at %s, after %d; it happened at %s", stamp.Version, stamp.At, last, happened)
		}
		last = stamp.Version
	}
	if len(stamps) != changes {
		t.Errorf("%d changes came", len(stamps))
	}
}

func TestFloorReadsEverything(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		s, o := start(t)
		o.Gzip = gzip
		requireEveryChange(t, s, read(t, s, o, floor.Run))
	}
}

func TestFloorReadsMetadata(t *testing.T) {
	for _, json := range []bool{false, true} {
		for _, gzip := range []bool{false, true} {
			s, o := start(t)
			o.Metadata, o.JSON, o.Gzip = true, json, gzip
			requireEveryChange(t, s, read(t, s, o, floor.Run))
		}
	}
}

// The metadata that our receiver's relist reads identifies every object.
func TestOurClientReadsMetadata(t *testing.T) {
	_, o := start(t)
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 1, 1
	client, err := kubeclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	body, err := client.Open(t.Context(), watchlist.Request{
		Scope: scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}}, API: scope.API{Version: "v1"}, SendInitialEvents: true, MetadataOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close() //nolint:errcheck // it was only read
	var first string
	uids := map[types.UID]bool{}
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		var event struct {
			Type   watch.EventType
			Object metav1.PartialObjectMetadata
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		if event.Type == watch.Bookmark {
			break
		}
		uids[event.Object.UID] = true
		if first == "" {
			first = lines.Text()
		}
	}
	if len(uids) != objects {
		t.Errorf("%d different objects arrived, want %d: %v", len(uids), objects, lines.Err())
	}
	const want = `{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":` +
		`{"name":"pods-0000000","namespace":"team-00","uid":`
	if !strings.HasPrefix(first, want) || strings.Contains(first, "annotations") {
		t.Errorf("the first line is %s", first)
	}
}

// The server answers in the first requested form.
func TestFormsOfMetadata(t *testing.T) {
	const asMetadata = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	s, o := start(t)
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	for accept, want := range map[string]string{
		"application/vnd.kubernetes.protobuf" + asMetadata + ",application/json": "application/vnd.kubernetes.protobuf;stream=watch",
		"application/json" + asMetadata + ",application/json":                    "application/json",
		"application/json":                    "application/json",
		"application/vnd.kubernetes.protobuf": "application/json", // whole objects are always JSON here
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/api/v1/nodes?watch=1&sendInitialEvents=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if got := res.Header.Get("Content-Type"); got != want {
			t.Errorf("%q is answered with %q, want %q", accept, got, want)
		}
	}
}

func TestReflectorReadsEverything(t *testing.T) {
	s, o := start(t)
	o.Gzip = true
	read(t, s, o, reflection.Run)
}

func TestReceiverReadsEverything(t *testing.T) {
	for _, json := range []bool{false, true} {
		s, o := start(t)
		o.JSON, o.SmallestBatch = json, json
		var sink *library.Sink
		requireEveryChange(t, s, read(t, s, o, func(ctx context.Context, o contender.Options) ([]contender.Stamp, error) {
			sink = library.NewSink(o.Progress)
			sink.KeepUIDs()
			return library.RunInto(ctx, o, sink)
		}))
		if n := sink.UIDs(); n != objects {
			t.Errorf("%d different objects arrived, want %d", n, objects)
		}
	}
}

func TestDiscovery(t *testing.T) {
	_, o := start(t)
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, legacy := range []bool{false, true} {
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		client.UseLegacyDiscovery = legacy
		lists, err := client.ServerPreferredResources()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, list := range lists {
			for _, r := range list.APIResources {
				names = append(names, r.Name)
			}
		}
		slices.Sort(names)
		if want := []string{"deployments", "nodes", "pods", "rollouts"}; !slices.Equal(names, want) {
			t.Errorf("the resources are %v, want %v", names, want)
		}
	}
}

// Leases can be created once, and are updated only on top of what was read.
func TestLeases(t *testing.T) {
	_, o := start(t)
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 100, 100
	client, err := kubeclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	leases := kubeclient.Leases{Client: client, Namespace: "bench", Name: "watchlist"}
	if _, err := leases.Get(ctx); !apierrors.IsNotFound(err) {
		t.Errorf("a Lease that does not exist: %v", err)
	}
	first, err := leases.Put(ctx, kubeclient.Lease{Holder: "one", Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Put(ctx, kubeclient.Lease{Holder: "two"}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a Lease that exists: %v", err)
	}
	elsewhere := leases
	elsewhere.Namespace = "other"
	if _, err := elsewhere.Get(ctx); !apierrors.IsNotFound(err) {
		t.Errorf("a Lease of another namespace: %v", err)
	}
	first.Holder = "three"
	if _, err := leases.Put(ctx, first); err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Put(ctx, first); !apierrors.IsConflict(err) {
		t.Errorf("an update of what was changed since: %v", err)
	}
	if now, err := leases.Get(ctx); err != nil || now.Holder != "three" {
		t.Errorf("it is %+v, %v", now, err)
	}
}
