package kubeclient

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/pipenet"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestRequests(t *testing.T) {
	deployments := scope.New(schema.GroupResource{Group: "apps", Resource: "deployments"}, "shop", "app in (a,b)", "metadata.name=x")
	inShop := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "spec.nodeName=n,metadata.namespace==shop")
	notInShop := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "metadata.namespace!=shop")
	shardOfPods := pods.Of(shard.Shard{Index: 1, Total: 4})
	tests := map[string]struct {
		request watchlist.Request
		path    string
		query   string
		accept  string
		unasked bool // see Options.NoShardSelector
	}{
		"snapshot": {
			request: watchlist.Request{Scope: pods, API: podAPI, SendInitialEvents: true, Timeout: 5 * time.Minute},
			path:    "/api/v1/pods",
			query:   "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=300",
		},
		"snapshot not older than": {
			request: watchlist.Request{Scope: pods, API: podAPI, SendInitialEvents: true, ResourceVersion: "42", Timeout: 1500 * time.Millisecond},
			path:    "/api/v1/pods",
			query:   "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=42&timeoutSeconds=2",
		},
		"resume": {
			request: watchlist.Request{Scope: pods, API: podAPI, ResourceVersion: "42", Timeout: 300 * time.Second},
			path:    "/api/v1/pods",
			query:   "watch=1&allowWatchBookmarks=true&resourceVersion=42&timeoutSeconds=300",
		},
		"snapshot of the metadata": {
			request: watchlist.Request{Scope: pods, API: podAPI, SendInitialEvents: true, MetadataOnly: true, ResourceVersion: "42"},
			path:    "/api/v1/pods",
			query:   "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=42",
			accept: "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
				"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
		},
		"page of the metadata": {
			request: watchlist.Request{Scope: pods, API: podAPI, List: true, MetadataOnly: true, Limit: 500},
			path:    "/api/v1/pods",
			query:   "limit=500",
			accept:  "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
		},
		"shard": {
			request: watchlist.Request{Scope: shardOfPods, API: podAPI, SendInitialEvents: true, MetadataOnly: true, ResourceVersion: "42"},
			path:    "/api/v1/pods",
			query: "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=42" +
				"&shardSelector=shardRange%28object.metadata.uid%2C+%270x4000000000000000%27%2C+%270x8000000000000000%27%29",
			accept: "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
				"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
		},
		"shard of a watch": {
			request: watchlist.Request{Scope: shardOfPods, API: podAPI, ResourceVersion: "42"},
			path:    "/api/v1/pods",
			query: "watch=1&allowWatchBookmarks=true&resourceVersion=42" +
				"&shardSelector=shardRange%28object.metadata.uid%2C+%270x4000000000000000%27%2C+%270x8000000000000000%27%29",
		},
		"shard of a page": {
			request: watchlist.Request{Scope: shardOfPods, API: podAPI, List: true, Limit: 500, Continue: "eyJ2Ijo/"},
			path:    "/api/v1/pods",
			query: "limit=500&continue=eyJ2Ijo%2F" +
				"&shardSelector=shardRange%28object.metadata.uid%2C+%270x4000000000000000%27%2C+%270x8000000000000000%27%29",
		},
		"shard that the server is not asked for": {
			request: watchlist.Request{Scope: shardOfPods, API: podAPI, ResourceVersion: "42"},
			path:    "/api/v1/pods",
			query:   "watch=1&allowWatchBookmarks=true&resourceVersion=42",
			unasked: true,
		},
		"server's timeout": {
			request: watchlist.Request{Scope: pods, API: podAPI, ResourceVersion: "42"},
			path:    "/api/v1/pods",
			query:   "watch=1&allowWatchBookmarks=true&resourceVersion=42",
		},
		"scope": {
			request: watchlist.Request{Scope: deployments, API: scope.API{Version: "v1", Namespaced: true}, ResourceVersion: "42"},
			path:    "/apis/apps/v1/namespaces/shop/deployments",
			query:   "watch=1&allowWatchBookmarks=true&resourceVersion=42&labelSelector=app+in+%28a%2Cb%29&fieldSelector=metadata.name%3Dx",
		},
		"first page": {
			request: watchlist.Request{Scope: pods, API: podAPI, List: true, Limit: 500},
			path:    "/api/v1/pods",
			query:   "limit=500",
		},
		"next page": {
			request: watchlist.Request{Scope: pods, API: podAPI, List: true, Limit: 500, Continue: "eyJ2Ijo/", ResourceVersion: "42"},
			path:    "/api/v1/pods",
			query:   "limit=500&continue=eyJ2Ijo%2F",
		},
		"page with a selector for the namespace": {
			request: watchlist.Request{Scope: inShop, API: podAPI, List: true, Limit: 500, Continue: "eyJ2Ijo/"},
			path:    "/api/v1/namespaces/shop/pods",
			query:   "limit=500&continue=eyJ2Ijo%2F&fieldSelector=metadata.namespace%3Dshop%2Cspec.nodeName%3Dn",
		},
		"page with a selector for other namespaces": {
			request: watchlist.Request{Scope: notInShop, API: podAPI, List: true, Limit: 500},
			path:    "/api/v1/pods",
			query:   "limit=500&fieldSelector=metadata.namespace%21%3Dshop",
		},
		"watch with a selector for the namespace": {
			request: watchlist.Request{Scope: inShop, API: podAPI, ResourceVersion: "42"},
			path:    "/api/v1/pods",
			query:   "watch=1&allowWatchBookmarks=true&resourceVersion=42&fieldSelector=metadata.namespace%3Dshop%2Cspec.nodeName%3Dn",
		},
		"page not older than": {
			request: watchlist.Request{Scope: pods, API: podAPI, List: true, ResourceVersion: "42"},
			path:    "/api/v1/pods",
			query:   "resourceVersion=42&resourceVersionMatch=NotOlderThan",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			answer := firstFrame
			if tt.request.List {
				answer = `{"kind":"PodList","items":[]}`
			}
			var got *http.Request
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = r
				_, _ = io.WriteString(w, answer)
			})
			client.noShards = tt.unasked
			client.session.base.Path = "/k8s/clusters/c-1/" // as behind a proxy for several clusters
			body, err := client.Open(t.Context(), tt.request)
			require.NoError(t, err)
			content, err := io.ReadAll(body)
			require.NoError(t, err)
			require.NoError(t, body.Close())

			assert.Equal(t, answer, string(content))
			assert.Equal(t, "/k8s/clusters/c-1"+tt.path, got.URL.Path)
			want, err := url.ParseQuery(tt.query)
			require.NoError(t, err)
			assert.Equal(t, want, got.URL.Query())
			assert.Equal(t, cmp.Or(tt.accept, "application/json"), got.Header.Get("Accept"))
		})
	}
}

// Frames of a watch.
const (
	firstFrame  = `{"type":"ADDED","object":{"metadata":{"name":"first"}}}` + "\n"
	secondFrame = `{"type":"ADDED","object":{"metadata":{"name":"second"}}}` + "\n"
)

// stall answers with one frame and then waits until the client is gone.
func stall(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, firstFrame)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestHeaderTimeout(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		client := newTestClient(t, start(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}), WithHeaderTimeout(100*time.Millisecond))
		_, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
		require.ErrorContains(t, err, `cannot watch pods (group "", version v1) in all namespaces: no answer from 127.0.0.1:`)
		require.ErrorContains(t, err, "within 100ms")
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
	})
}

// A server that cannot be reached has not seen the request, which is another error than that of one that does not answer.
func TestNoConnection(t *testing.T) {
	request := watchlist.Request{Scope: pods, API: podAPI}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close() //nolint:errcheck // nothing was written
	client := newTestClient(t, &rest.Config{Host: "https://" + silent.Addr().String(), QPS: 1000, Burst: 1000}, WithHeaderTimeout(100*time.Millisecond))
	_, err = client.Open(t.Context(), request)
	require.ErrorIs(t, err, watchlist.ErrNoConnection)
	require.ErrorContains(t, err, `in all namespaces: cannot connect: no answer from 127.0.0.1:`)

	client = serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, WithHeaderTimeout(time.Second))
	_, err = client.Open(t.Context(), request)
	require.ErrorContains(t, err, "no answer from")
	require.NotErrorIs(t, err, watchlist.ErrNoConnection)
}

func TestHeaderTimeoutDoesNotBoundTheBody(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		const timeout = time.Second
		client := newTestClient(t, start(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			time.Sleep(2 * timeout)
			_, _ = io.WriteString(w, firstFrame)
		}), WithHeaderTimeout(timeout))
		body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
		require.NoError(t, err)
		defer body.Close()
		content, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, firstFrame, string(content))
	})
}

func TestWatchEndsSoonAfterItsTimeout(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		client := newTestClient(t, start(stall))
		client.watchGrace = 50 * time.Millisecond
		body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, Timeout: 50 * time.Millisecond})
		require.NoError(t, err)
		defer body.Close()
		content, err := io.ReadAll(body)
		assert.Equal(t, firstFrame, string(content))
		require.ErrorContains(t, err, "did not end the response within 100ms")
	})
}

func TestContextEndsTheBody(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		client := newTestClient(t, start(stall))
		ctx, cancel := context.WithCancel(t.Context())
		body, err := client.Open(ctx, watchlist.Request{Scope: pods, API: podAPI})
		require.NoError(t, err)
		defer body.Close()
		line, err := bufio.NewReader(body).ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, firstFrame, line)
		cancel()
		_, err = io.ReadAll(body)
		require.ErrorIs(t, err, context.Canceled)

		_, err = client.Open(ctx, watchlist.Request{Scope: pods, API: podAPI})
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestCloseEndsOpenResponses(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		client := newTestClient(t, start(stall))
		for _, fresh := range []bool{false, true} {
			body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, FreshConnection: fresh})
			require.NoError(t, err)
			client.Close()
			_, err = io.ReadAll(body)
			require.Error(t, err)
			require.NoError(t, body.Close())
		}
	})
}

func TestConnectionRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	client := newTestClient(t, &rest.Config{Host: "http://" + listener.Addr().String(), QPS: 1000, Burst: 1000})
	_, err = client.Open(t.Context(), watchlist.Request{
		Scope: scope.Scope{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}}, API: scope.API{Version: "v1"}, List: true,
	})
	require.EqualError(t, err, `cannot list widgets (group "example.com", version v1): dial tcp `+listener.Addr().String()+`: connect: connection refused`)
}

// While a request waits for its turn, the server does not know about it.
func TestWaitingForTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := pipenet.New()
		var order []string
		stop := network.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			order = append(order, r.URL.Query().Get("labelSelector"))
		}))
		defer stop()
		client, err := New(&rest.Config{Host: "http://api.test", QPS: 0.1, Burst: 1, Dial: network.Dial})
		require.NoError(t, err)
		defer client.Close()

		began := time.Now()
		sent := map[string]time.Duration{}
		var all sync.WaitGroup
		defer all.Wait()
		open := func(name string, request watchlist.Request) {
			request.Scope, request.API = pods, podAPI
			request.Scope.LabelSelector = name
			request.OnSent = func() {
				assert.NotContains(t, sent, name, "called once")
				sent[name] = time.Since(began)
			}
			all.Go(func() {
				body, err := client.Open(t.Context(), request)
				if assert.NoError(t, err) {
					assert.NoError(t, body.Close())
				}
			})
			synctest.Wait()
		}
		open("first", watchlist.Request{ResourceVersion: "1"})
		open("snapshot", watchlist.Request{SendInitialEvents: true})
		open("list", watchlist.Request{List: true})
		open("resume", watchlist.Request{ResourceVersion: "42"})
		assert.Equal(t, map[string]time.Duration{"first": 0}, sent)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = client.Open(ctx, watchlist.Request{Scope: pods, API: podAPI, OnSent: func() { t.Error("it never was sent") }})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "cannot watch pods")

		all.Wait()
		assert.Equal(t, []string{"first", "resume", "snapshot", "list"}, order)
		for name, want := range map[string]float64{"resume": 10, "snapshot": 20, "list": 30} {
			assert.InDelta(t, want, sent[name].Seconds(), 0.01, name)
		}
	})
}

// The opening of streams is paced for all clients of the process together; other requests are not delayed.
func TestOpeningsOfSeveralClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := pipenet.New()
		stop := network.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"PodList","items":[]}`)
		}))
		defer stop()
		openings := NewOpeningPacer()
		var all sync.WaitGroup
		began := time.Now()
		for range 2 {
			client, err := New(&rest.Config{Host: "http://api.test", QPS: 1000, Burst: 1000, Dial: network.Dial}, WithOpenings(openings))
			require.NoError(t, err)
			defer client.Close()
			for range 100 {
				all.Go(func() {
					body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, ResourceVersion: "1"})
					if assert.NoError(t, err) {
						assert.NoError(t, body.Close())
					}
				})
			}
			body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, List: true})
			require.NoError(t, err)
			require.NoError(t, body.Close())
			assert.Zero(t, time.Since(began))
		}
		all.Wait()
		assert.InDelta(t, 10, time.Since(began).Seconds(), 2, "200 streams at 20 a second")
	})
}

// An API server may have a base path, like Rancher's clusters and kcp's workspaces.
func TestBasePaths(t *testing.T) {
	for base, want := range map[string]string{
		"":                                   "",
		"/":                                  "",
		"/k8s/clusters/c-m-abc":              "/k8s/clusters/c-m-abc",
		"/k8s/clusters/c-m-abc/":             "/k8s/clusters/c-m-abc",
		"/clusters/root:org:team-a":          "/clusters/root:org:team-a",
		"/services/apiexport/x/y/clusters/*": "/services/apiexport/x/y/clusters/*",
	} {
		var got []string
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.URL.Path)
			answers{want + "/api": aggregated["/api"], want + "/apis": aggregated["/apis"], want + "/api/v1/pods": firstFrame}.ServeHTTP(w, r)
		})
		client := newTestClient(t, &rest.Config{Host: strings.TrimSuffix(server.session.base.String(), "/") + base, QPS: 1000, Burst: 1000})
		_, err := client.Discover(t.Context())
		require.NoError(t, err)
		body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
		require.NoError(t, err)
		require.NoError(t, body.Close())
		assert.Equal(t, []string{want + "/api", want + "/apis", want + "/api/v1/pods"}, got)
	}
}

// connectionLog records the client's end of each connection with requests, and whether it is open.
type connectionLog struct {
	mu   sync.Mutex
	seen []string
}

func (l *connectionLog) handler(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.seen = append(l.seen, r.RemoteAddr)
	l.mu.Unlock()
	stall(w, r)
}

func TestFreshConnection(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		var log connectionLog
		cfg := start(log.handler)
		dialer := &countingDialer{}
		cfg.Dial = dialer.dial
		client := newTestClient(t, cfg)

		open := func(fresh bool) io.Closer {
			body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, FreshConnection: fresh})
			require.NoError(t, err)
			_, err = bufio.NewReader(body).ReadString('\n')
			require.NoError(t, err)
			return body
		}
		shared := open(false)
		fresh := open(true)
		again := open(true)
		assert.Equal(t, 3, dialer.open())
		assert.NotEqual(t, log.seen[0], log.seen[1])
		assert.NotEqual(t, log.seen[0], log.seen[2])
		assert.NotEqual(t, log.seen[1], log.seen[2])

		require.NoError(t, fresh.Close())
		require.NoError(t, again.Close())
		assert.Eventually(t, func() bool { return dialer.open() == 1 }, 5*time.Second, 5*time.Millisecond,
			"a fresh connection ends with its response")

		if t.Name() == "TestFreshConnection/HTTP2" { // HTTP/1.1 uses one connection for each
			second := open(false)
			assert.Equal(t, log.seen[0], log.seen[3], "ordinary requests share a connection")
			require.NoError(t, second.Close())
		}
		require.NoError(t, shared.Close())
	})
}

// countingDialer counts the open connections.
type countingDialer struct {
	mu sync.Mutex
	n  int
}

func (d *countingDialer) open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

func (d *countingDialer) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n += n
}

func (d *countingDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.add(1)
	return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { d.add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// From Kubernetes 1.37 on a server compresses a WatchList response as a sequence of gzip members, one for
// each flush. https://github.com/kube-rs/kube/issues/2079
func TestCompression(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		release := make(chan struct{})
		cfg := start(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				_, _ = io.WriteString(w, secondFrame)
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			for _, line := range []string{firstFrame, secondFrame} {
				member := gzip.NewWriter(w)
				_, _ = io.WriteString(member, line)
				_ = member.Flush() // like kube-apiserver; without it the line waits for the next member
				_ = member.Close()
				_ = http.NewResponseController(w).Flush()
				<-release
			}
		})
		cfg.DisableCompression = false
		body, err := newTestClient(t, cfg).Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
		require.NoError(t, err)
		defer body.Close()
		lines := bufio.NewReader(body)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, firstFrame, line, "arrives before the second member is written")
		close(release)
		line, err = lines.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, secondFrame, line)
		_, err = lines.ReadByte()
		require.ErrorIs(t, err, io.EOF)

		cfg.DisableCompression = true
		plain, err := newTestClient(t, cfg).Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
		require.NoError(t, err)
		defer plain.Close()
		content, err := io.ReadAll(plain)
		require.NoError(t, err)
		assert.Equal(t, secondFrame, string(content))
	})
}

// Frames are split after decompression.
func TestCompressedMetadata(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		stream, _ := threeFrames(t)
		want, err := linesOf(bytes.NewReader(stream))
		require.NoError(t, err)
		cfg := start(func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, "gzip", r.Header.Get("Accept-Encoding"))
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
			for part := range slices.Chunk(stream, len(stream)/4) { // members end within frames
				member := gzip.NewWriter(w)
				_, _ = member.Write(part)
				_ = member.Close()
			}
		})
		cfg.DisableCompression = false
		body, err := newTestClient(t, cfg).Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI, SendInitialEvents: true, MetadataOnly: true})
		require.NoError(t, err)
		defer body.Close()
		content, err := io.ReadAll(body)
		require.NoError(t, err)
		assert.Equal(t, want, string(content))
	})
}

// A stream without a reader holds little of the connection and does not block other streams.
func TestUnreadStreamsAreSmall(t *testing.T) {
	eachProtocol(t, func(t *testing.T, start func(http.HandlerFunc) *rest.Config) {
		if t.Name() != "TestUnreadStreamsAreSmall/HTTP2" {
			t.Skip("HTTP/1.1 has no streams")
		}
		var mu sync.Mutex
		sent := map[string]int{}
		written := func(name string) int { mu.Lock(); defer mu.Unlock(); return sent[name] }
		client := newTestClient(t, start(func(w http.ResponseWriter, r *http.Request) {
			name := r.URL.Query().Get("labelSelector")
			chunk := bytes.Repeat([]byte(" "), 16<<10)
			for i := 0; i < 8<<20/len(chunk); i++ {
				n, err := w.Write(chunk)
				mu.Lock()
				sent[name] += n
				mu.Unlock()
				if err != nil {
					return
				}
			}
		}))
		unread := pods
		unread.LabelSelector = "unread"
		stalled, err := client.Open(t.Context(), watchlist.Request{Scope: unread, API: podAPI})
		require.NoError(t, err)
		defer stalled.Close()
		body, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
		require.NoError(t, err)
		defer body.Close()
		n, err := io.Copy(io.Discard, body)
		require.NoError(t, err)
		assert.Equal(t, int64(8<<20), n)
		assert.Less(t, written("unread"), receiveBufferPerStream+1<<20)
	})
}

func TestRedirectIsNotFollowed(t *testing.T) {
	followed := false
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { followed = true })
	for _, code := range []int{301, 302, 303, 307, 308} {
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.session.base.String()+"/login?token=sentinel", code)
		})
		_, err := client.Open(t.Context(), watchlist.Request{Scope: pods, API: podAPI})
		require.ErrorContains(t, err, "with a redirect to "+elsewhere.session.base.Host+", which is no answer of the Kubernetes API")
		assert.NotContains(t, err.Error(), "sentinel")
	}
	assert.False(t, followed)
}
