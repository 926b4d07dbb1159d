package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/delivery"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/pipenet"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// A scope that is no longer read, and later is again, continues from its checkpoint, even if the next consumer has not
// accepted yet what was emitted of it.
func TestScopeThatComesBack(t *testing.T) {
	for name, blocked := range map[string]time.Duration{"all was accepted": 0, "the consumer blocks": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &apiServer{widgets: func(time.Duration) bool { return true }, began: time.Now()}
				network := pipenet.New()
				stop := network.Serve(server)
				client, err := kubeclient.New(&rest.Config{Host: "http://apiserver", Dial: network.Dial, QPS: 1000, Burst: 1000})
				require.NoError(t, err)
				keeper := checkpoint.NewKeeper(checkpoint.Options{
					Extension: memstorage.New(), Interval: time.Second, MaxChanges: 100,
					Cluster: func() checkpoint.Cluster { return checkpoint.Cluster{UID: "cluster"} },
					Report:  func(string, error) {}, Logger: zap.NewNop(),
				})
				keeper.Start()
				var mu sync.Mutex
				var emitted []string
				next, err := consumer.NewLogs(func(context.Context, plog.Logs) error {
					time.Sleep(blocked - time.Since(server.began))
					return nil
				})
				require.NoError(t, err)
				queue := delivery.New(delivery.Options[watchlist.Change]{
					MaxBytes: 1000, DrainTimeout: time.Second, Next: next,
					Size:     func(watchlist.Change) int { return 1 },
					IsRecord: func(c watchlist.Change) bool { return c.IsRecord() },
					Build: func(changes []watchlist.Change) plog.Logs {
						logs := plog.NewLogs()
						records := logs.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
						for _, c := range changes {
							if c.IsRecord() {
								records.AppendEmpty()
							}
						}
						return logs
					},
					BeforeDeliver: keeper.BeforeDeliver,
					Accepted: func(changes []watchlist.Change) {
						keeper.Accepted(changes)
						mu.Lock()
						defer mu.Unlock()
						for _, c := range changes {
							if c.Object.UID != "" {
								emitted = append(emitted, fmt.Sprintf("%s of %s", c.Object.UID, c.Scope.Namespace))
							}
						}
					},
				})
				queue.Start()
				slots := watchlist.NewSlots(3)
				c := catalog.New(catalog.Options{
					Server: client,
					NewReader: func(target catalog.Target) catalog.Reader {
						return watchlist.NewReader(watchlist.Options{
							Scope: target.Scope, API: target.API, Knowledge: target.Knowledge, Plan: redact.NewPlan(target.Scope.Group, target.Scope.Resource),
							Opener: client, Emitter: queue, Served: target.Served, SnapshotSlots: slots, Now: time.Now, Logger: zap.NewNop(),
							Restore: keeper.Restore, EmitLast: queue.Append,
						})
					},
					Report: func(string, error) {},
					Logger: zap.NewNop(),
				})
				ctx, cancel := context.WithCancel(t.Context())
				widgets := func(namespaces ...string) catalog.Spec {
					return catalog.Spec{
						GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, GroupKnown: true,
						Namespaces: namespaces, Key: "resources[0]",
					}
				}
				for _, namespaces := range [][]string{{"pay", "shop"}, {"pay"}, {"shop", "pay"}} {
					c.ReadExactly(ctx, widgets(namespaces...))
					time.Sleep(10 * time.Second)
				}
				time.Sleep(blocked)
				cancel()
				c.Wait()
				require.NoError(t, queue.Shutdown(t.Context()))
				require.NoError(t, keeper.Shutdown(t.Context()))
				client.Close()
				stop()
				synctest.Wait()

				var ofShop []string
				for _, watched := range server.watched {
					if at, path, _ := strings.Cut(watched, " "); strings.Contains(path, "/shop/") {
						ofShop = append(ofShop, at+" "+strings.TrimPrefix(path, "/apis/example.com/v1/namespaces/shop/"))
					}
				}
				again := max(20*time.Second, blocked)
				assert.Equal(t, []string{"0s widgets initial", again.String() + " widgets"}, ofShop)
				slices.Sort(emitted)
				assert.Equal(t, []string{"uid-of-w of pay", "uid-of-w of shop"}, emitted)
			})
		})
	}
}
