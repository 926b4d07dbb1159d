package redaction

import (
	"bytes"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// The phases, by which copies of the corpus are called. Those of the phase live are changed while the collector is down.
const (
	initial = "initial" // created before the collector starts
	live    = "live"    // while it runs
	down    = "down"    // while it is down
)

// TestNoSentinelLeavesTheCollector: whatever happens to the objects of the corpus, and however the collector learns of
// it, no sentinel is in what leaves it: requests, log, output of the debug exporter, metrics, component status, zPages and
// checkpoints. The innocents go out as they are.
func TestNoSentinelLeavesTheCollector(t *testing.T) {
	t.Parallel()
	entries, left := readCorpus(t)
	c := harness.StartCluster(t, controlplane.Options{})
	etcd := harness.ConnectEtcd(t, c)
	custom := define(t, c, entries)
	leaking, innocents := divide(entries)
	p := &planter{cluster: c, subresources: served(t, c)}
	for _, phase := range []string{initial, live, down} {
		p.createNamespace(t, phase)
	}
	server := startTalkative(t, c)
	p.create(t, initial, entries)
	p.requireServed(t, initial, entries)

	subjects := []*subject{newSubject(t, c, "map", resources(entries)), newSubject(t, c, "json", resources(entries))}
	all := func(do func(*subject)) {
		for _, s := range subjects {
			do(s)
		}
	}
	all(func(s *subject) { s.start(t) })
	all(func(s *subject) { s.awaitAll(t, "the initial state", keys(entries, initial, "SNAPSHOT", "initial")) })
	p.create(t, live, entries)
	all(func(s *subject) { s.awaitAll(t, "what was added", keys(entries, live, "ADDED", "live")) })
	p.change(t, initial, entries)
	p.remove(t, initial, entries)
	all(func(s *subject) {
		s.awaitAll(t, "what was modified", keys(entries, initial, "MODIFIED", "live"))
		s.awaitAll(t, "what was deleted", keys(entries, initial, "DELETED", "live"))
		s.visit(t)
		s.collector.Kill(t)
		s.bury(t)
	})

	p.change(t, live, leaking)
	p.remove(t, live, innocents)
	p.create(t, down, leaking)
	etcd.Compact(t)
	c.RestartAPIServer(t)
	awaitServed(t, c, entries)
	all(func(s *subject) { s.start(t) })
	all(func(s *subject) {
		// What was killed may not have stored yet that an object is known.
		s.awaitAll(t, "what was modified while it was down", keys(leaking, live, "MODIFIED", "recovered"), keys(leaking, live, "ADDED", "recovered"))
		s.awaitAll(t, "what was added while it was down", keys(leaking, down, "ADDED", "recovered"))
		s.awaitAll(t, "what was deleted while it was down", keys(innocents, live, "DELETED", "recovered"))
		harness.Poll(t, patience, "the collector to hear every error", func() string {
			return server.unheard(s.userAgent())
		})
		harness.Poll(t, patience, "the component status to have a reason without its secrets", func() string {
			if status := get(t, s.status); !bytes.Contains(status, []byte("password=[REDACTED] is wrong")) {
				return string(status)
			}
			return ""
		})
		s.visit(t)
		s.collector.Interrupt(t)
		s.bury(t)
	})

	sentinels := allSentinels(leaking)
	search := newSearcher(sentinels)
	began, bytesLeft := time.Now(), 0
	all(func(s *subject) {
		for where, text := range s.everything() {
			bytesLeft += len(text)
			for _, found := range search.search(text) {
				t.Errorf("body %s, %s: %s", s.body, where, found)
			}
		}
		for _, problem := range s.broken {
			t.Errorf("body %s: %s", s.body, problem)
		}
		for _, e := range innocents {
			for _, change := range append(keys([]*entry{e}, initial, "SNAPSHOT", "initial"), keys([]*entry{e}, live, "ADDED", "live")...) {
				if difference := differs("", e.content(), s.bodyOf(t, change)); difference != "" {
					t.Errorf("body %s: %s: %s", s.body, change, difference)
				}
			}
		}
	})
	t.Logf("%d objects of %d resources, %d of them custom (and %d lists, which no client can create), with %d sentinels; %d innocents",
		len(entries), len(resources(entries)), custom, left, len(sentinels), len(innocents))
	t.Logf("searched %.1f MB, %.1f MB with what was unpacked, in %s", float64(bytesLeft)/1e6, float64(search.searched)/1e6, time.Since(began).Round(time.Millisecond))
}
