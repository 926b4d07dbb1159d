// Package etcdrestore replaces the data of a test's etcd with an older copy, as an operator does after a disaster. It
// is a separate package because it links etcd's server.
package etcdrestore

import (
	"context"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

const (
	// Bump is how much the revisions grow with a restore, as recommended by etcd's documentation for Kubernetes.
	// https://etcd.io/docs/latest/op-guide/recovery/#restoring-with-revision-bump
	Bump = 1_000_000_000

	timeout = time.Minute
	member  = "default"
	peer    = "http://127.0.0.1:0" // a single member has no peers
)

// Save writes a copy of the current data of the cluster's etcd to a file.
func Save(t testing.TB, c *harness.Cluster, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	config := clientv3.Config{Endpoints: []string{c.EtcdEndpoint()}, DialTimeout: timeout, Logger: zap.NewNop()}
	if _, err := snapshot.NewV3(zap.NewNop()).Save(ctx, config, path); err != nil {
		t.Fatalf("cannot save a copy of etcd: %v", err)
	}
}

// Restore stops the cluster's etcd and starts it again with the copy at path, like "etcdutl snapshot restore
// --bump-revision --mark-compacted": no revision is ever lower than an earlier one, and all history is gone. No API
// server may run during it.
func Restore(t testing.TB, c *harness.Cluster, path string) {
	t.Helper()
	restore(t, c, snapshot.RestoreConfig{SnapshotPath: path, RevisionBump: Bump, MarkCompacted: true})
}

// SetBack is Restore without a bump: the next revisions are those that the undone changes had.
func SetBack(t testing.TB, c *harness.Cluster, path string) {
	t.Helper()
	restore(t, c, snapshot.RestoreConfig{SnapshotPath: path})
}

func restore(t testing.TB, c *harness.Cluster, config snapshot.RestoreConfig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := c.StopEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(c.EtcdDataDir()); err != nil {
		t.Fatalf("cannot remove etcd's data: %v", err)
	}
	config.OutputDataDir, config.Name, config.PeerURLs = c.EtcdDataDir(), member, []string{peer}
	config.InitialCluster, config.InitialClusterToken = member+"="+peer, "etcd-cluster"
	if err := snapshot.NewV3(zap.NewNop()).Restore(config); err != nil {
		t.Fatalf("cannot restore etcd: %v", err)
	}
	if err := c.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
}
