package redaction

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// The phases. The copies of the corpus are named after them.
const (
	initial = "initial" // created before the collector starts
	live    = "live"    // while it runs, and changed while it is down
	down    = "down"    // while it is down
)

// Whatever happens to the objects of the corpus, and however the collector learns of it, none of its output contains a
// sentinel: requests, log, output of the debug exporter, metrics, component status, zPages and checkpoints. The
// innocents are emitted unchanged.
func TestNoSentinelLeavesTheCollector(t *testing.T) {
	t.Parallel()
	entries, left := readCorpus(t)
	if left != len(notCreatable) {
		t.Errorf("%d objects of the corpus cannot be created, not %d", left, len(notCreatable))
	}
	c := harness.StartCluster(t, controlplane.Options{})
	etcd := harness.ConnectEtcd(t, c)
	custom := define(t, c, entries)
	leaking, innocents := divide(entries)
	p := &planter{cluster: c, subresources: served(t, c)}
	for _, phase := range []string{initial, live, down} {
		p.createNamespace(t, phase)
	}
	server := startLeakyServer(t, c)
	p.create(t, initial, entries)
	p.requireServed(t, initial, entries)

	var subjects []*subject
	for _, f := range []form{{"map", "none"}, {"json", "none"}, {"summary", "json"}, {"summary", "map"}} {
		subjects = append(subjects, newSubject(t, c, f, resources(entries)))
	}
	all := func(do func(*subject)) {
		for _, s := range subjects {
			do(s)
		}
	}
	all(func(s *subject) { s.start(t) })
	all(func(s *subject) { s.awaitAll(t, "the initial state", keys(entries, initial, "SNAPSHOT", "initial")) })
	all(func(s *subject) { s.awaitOthers(t, entries, initial, "SNAPSHOT") })
	p.create(t, live, entries)
	all(func(s *subject) { s.awaitAll(t, "what was added", keys(entries, live, "ADDED", "live")) })
	all(func(s *subject) { s.awaitOthers(t, entries, live, "ADDED") })
	p.change(t, initial, entries)
	p.remove(t, initial, entries)
	all(func(s *subject) {
		s.awaitAll(t, "what was modified", keys(entries, initial, "MODIFIED", "live"))
		s.awaitAll(t, "what was deleted", keys(entries, initial, "DELETED", "live"))
		s.awaitOthers(t, entries, initial, "MODIFIED")
		s.awaitOthers(t, entries, initial, "DELETED")
		s.keepPages(t)
		s.collector.Kill(t)
		s.keepFiles(t)
	})

	p.change(t, live, leaking)
	p.remove(t, live, innocents)
	p.create(t, down, leaking)
	etcd.Compact(t)
	c.RestartAPIServer(t)
	awaitServed(t, c, entries)
	all(func(s *subject) { s.start(t) })
	all(func(s *subject) {
		// The killed collector may not have stored yet that it knew an object.
		s.awaitAll(t, "what was modified while it was down", keys(leaking, live, "MODIFIED", "recovered"), keys(leaking, live, "ADDED", "recovered"))
		s.awaitAll(t, "what was added while it was down", keys(leaking, down, "ADDED", "recovered"))
		s.awaitAll(t, "what was deleted while it was down", keys(innocents, live, "DELETED", "recovered"))
		s.awaitOthers(t, leaking, live, "MODIFIED", "ADDED")
		s.awaitOthers(t, leaking, down, "ADDED")
		s.awaitOthers(t, innocents, live, "DELETED")
		harness.Poll(t, timeout, "the collector to be sent every error", func() string {
			return server.unsent(s.userAgent())
		})
		harness.Poll(t, timeout, "the component status to contain an error of the leaky server", func() string {
			if status := get(t, s.status); !bytes.Contains(status, []byte(" is wrong")) {
				return string(status)
			}
			return ""
		})
		s.keepPages(t)
		s.collector.Interrupt(t)
		s.keepFiles(t)
	})

	sentinels := allSentinels(leaking)
	t.Logf("%d objects of %d resources, %d of them custom: %d with %d sentinels, %d innocents; %d lists were left out",
		len(entries), len(resources(entries)), custom, len(leaking), len(sentinels), len(innocents), left)
	all(func(s *subject) {
		requireNoSentinel(t, s, sentinels)
		requireInnocents(t, s, innocents)
	})
}

// requireNoSentinel requires that no output of the collector contains a sentinel, and that each record has its object.
func requireNoSentinel(t *testing.T, s *subject, sentinels []string) {
	t.Helper()
	search := newSearcher(sentinels)
	began, size := time.Now(), 0
	found := map[string][]string{}
	for where, text := range s.everything() {
		size += len(text)
		for _, f := range search.search(text) {
			found[f.sentinel] = append(found[f.sentinel], fmt.Sprintf("%s: %s: %s", where, f.form, f.around))
		}
	}
	for _, sentinel := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("records with %s: %s is in %d places, such as %s", s.form, sentinel, len(found[sentinel]), found[sentinel][0])
	}
	for _, problem := range s.problems() {
		t.Errorf("records with %s: %s", s.form, problem)
	}
	t.Logf("records with %s: searched %.1f MB, and %.1f MB that was packed in it, in %s", s.form,
		float64(size)/1e6, float64(search.searched-int64(size))/1e6, time.Since(began).Round(time.Millisecond))
}

// requireInnocents requires that the innocents were emitted unchanged, as initial state and live.
func requireInnocents(t *testing.T, s *subject, innocents []*entry) {
	t.Helper()
	changes := [][]string{keys(innocents, initial, "SNAPSHOT", "initial"), keys(innocents, live, "ADDED", "live")}
	for i, e := range innocents {
		for _, keys := range changes {
			if found := difference("", e.content(), s.objectOf(t, keys[i])); found != "" {
				t.Errorf("records with %s: %s: %s", s.form, keys[i], found)
			}
		}
	}
}
