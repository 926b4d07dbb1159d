package checkpoint

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// podsIn returns the scope of the pods in a namespace; "" means all namespaces.
func podsIn(namespace, labels string) scope.Scope {
	return scope.New(schema.GroupResource{Resource: "pods"}, namespace, labels, "")
}

// in returns a change of the n-th object in a namespace.
func in(namespace string, r *scope.Scope, t watchlist.Type, n int, rv string) watchlist.Change {
	c := change(r, t, n, rv)
	c.Object.Namespace = namespace
	return c
}

// restored is what one scope received.
type restored struct {
	watchlist.Progress
	known map[string]string
	logs  string
}

// config plays one run of a receiver with the given scopes, in their order. Each is restored and then receives its
// changes.
func config(t *testing.T, extension *memstorage.Extension, cluster Cluster, scopes []scope.Scope, changes ...watchlist.Change) map[scope.Scope]restored {
	t.Helper()
	logger, logs := observed()
	l := beginIn(cluster, extension, logger, scopes...)
	all, readers := make(map[scope.Scope]restored), make(map[scope.Scope]*scope.Scope)
	for _, of := range scopes {
		readers[of] = &of
		progress, known, err := l.restore(t, &of)
		require.NoError(t, err)
		text := ""
		for _, entry := range logs.TakeAll() {
			text += fmt.Sprintln(entry.Message, entry.ContextMap())
		}
		all[of] = restored{progress, known, text}
	}
	for i := range changes {
		changes[i].Scope = readers[*changes[i].Scope]
	}
	l.Accepted(changes)
	require.NoError(t, l.Shutdown(t.Context()))
	return all
}

// ids returns the ids of the stored checkpoints by scope.
func ids(t *testing.T, extension *memstorage.Extension) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for key, value := range extension.Client(clientName) {
		rest, _ := strings.CutPrefix(key, checkpointPrefix)
		if id, ok := strings.CutSuffix(rest, scopeSuffix); ok {
			e, err := decodeEntry(id, value)
			require.NoError(t, err)
			found[id] = e.scope().String()
		}
	}
	for key := range extension.Client(clientName) {
		if id, _, ok := splitObjectKey(key); ok {
			assert.Contains(t, found, id, "an object of a removed checkpoint")
		}
	}
	return found
}

var one = Cluster{UID: "cluster", Fingerprint: "server"}

func requireScopeChanged(t *testing.T, got restored) {
	t.Helper()
	require.NotNil(t, got.Lost, "it has to be compared")
	assert.Equal(t, "scope_changed", got.Lost.Gap.Reason)
}

// A reader with another scope has another checkpoint.
func TestReadersDoNotShareACheckpoint(t *testing.T) {
	extension := memstorage.New()
	events := schema.GroupResource{Resource: "events"}
	scopes := []scope.Scope{
		{GroupResource: events},
		{GroupResource: schema.GroupResource{Resource: "events", Group: "events.k8s.io"}},
		podsIn("a", ""), podsIn("b", ""), podsIn("a", "team=x"), podsIn("a", "team=y"),
		scope.New(schema.GroupResource{Resource: "pods"}, "a", "", "spec.nodeName=n"),
		scope.New(schema.GroupResource{Resource: "pods"}, "a", "team=x", "spec.nodeName=n"),
	}
	var changes []watchlist.Change
	for i := range scopes {
		changes = append(changes, in(scopes[i].Namespace, &scopes[i], watchlist.Added, i, "5"), settled(&scopes[i], fmt.Sprint(100+i)))
	}
	for _, of := range config(t, extension, one, scopes, changes...) {
		assert.True(t, of.None())
		assert.Empty(t, of.logs, "nothing else starts afresh")
	}
	for i, of := range scopes {
		got := config(t, extension, one, scopes)[of]
		assert.Equal(t, fmt.Sprint(100+i), got.ResourceVersion)
		assert.Len(t, got.known, 1)
	}
}

func TestSpellingsOfASelectorAreOneCheckpoint(t *testing.T) {
	extension := memstorage.New()
	first := podsIn("", "team in (x), a=b")
	config(t, extension, one, []scope.Scope{first}, in("a", &first, watchlist.Added, 1, "5"), settled(&first, "7"))
	again := podsIn("", "a==b,team=x")
	got := config(t, extension, one, []scope.Scope{again})[again]
	assert.Equal(t, "7", got.ResourceVersion)
	assert.Nil(t, got.Lost)
	assert.False(t, got.Unconfirmed)
	assert.Len(t, got.known, 1)
	assert.Empty(t, got.logs)
}

// Some namespaces were read, and now all of them are: the inventories of the namespaces are included, and have to be
// compared.
func TestNamespacesGrowToAll(t *testing.T) {
	extension := memstorage.New()
	a, b, all := podsIn("a", ""), podsIn("b", ""), podsIn("", "")
	config(t, extension, one, []scope.Scope{a, b},
		in("a", &a, watchlist.Added, 1, "5"), settled(&a, "70"),
		in("b", &b, watchlist.Added, 2, "6"), settled(&b, "80"), in("b", &b, watchlist.Added, 3, "81"))
	got := config(t, extension, one, []scope.Scope{all})[all]
	assert.Equal(t, map[string]string{"uid-1": "a/name-1@5", "uid-2": "b/name-2@6", "uid-3": "b/name-3@81"}, got.known)
	assert.Equal(t, "81", got.ResourceVersion, "a snapshot must not be older than the inventory")
	requireScopeChanged(t, got)
	assert.Contains(t, got.logs, "going on with what was read of other scopes")
	assert.Contains(t, got.logs, "pods in namespace a")
	assert.Len(t, ids(t, extension), 1, "checkpoints that were taken over are removed")

	got = config(t, extension, one, []scope.Scope{all}, settled(&all, "90"))[all]
	requireScopeChanged(t, got)
	assert.Len(t, got.known, 3)
	got = config(t, extension, one, []scope.Scope{all})[all]
	assert.Equal(t, "90", got.ResourceVersion)
	assert.Nil(t, got.Lost)
	assert.False(t, got.Unconfirmed)
	assert.Len(t, got.known, 3)
}

// Checkpoints that are taken over are written, and the old ones removed, in one transaction, even if it is delayed.
func TestTakeoverOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		a, b, all := podsIn("a", ""), podsIn("b", ""), podsIn("", "")
		config(t, extension, one, []scope.Scope{a, b}, in("a", &a, watchlist.Added, 1, "5"), settled(&a, "7"), in("b", &b, watchlist.Added, 2, "6"), settled(&b, "7"))
		for heal := range 2 {
			logger, _ := observed()
			l := beginIn(one, extension, logger, all)
			time.Sleep(2 * time.Second)
			extension.FailWrites(storage.ErrStorageFull)
			_, known, err := l.restore(t, &all)
			require.NoError(t, err)
			assert.Len(t, known, 2)
			time.Sleep(time.Minute)
			if heal == 1 {
				extension.FailWrites(nil)
				time.Sleep(time.Minute)
			}
			_ = l.Shutdown(t.Context())
			extension.FailWrites(nil)
			assert.Len(t, ids(t, extension), 2-heal)
		}
		assert.Len(t, config(t, extension, one, []scope.Scope{all})[all].known, 2)
	})
}

// All namespaces were read, and now only some are: each of them is known up to the same version.
func TestAllShrinksToNamespacesAndGrowsAgain(t *testing.T) {
	extension := memstorage.New()
	a, b, all := podsIn("a", ""), podsIn("b", ""), podsIn("", "")
	config(t, extension, one, []scope.Scope{all},
		in("a", &all, watchlist.Added, 1, "5"), in("b", &all, watchlist.Added, 2, "6"), in("c", &all, watchlist.Added, 3, "7"),
		settled(&all, "8"), in("a", &all, watchlist.Modified, 1, "9"))
	got := config(t, extension, one, []scope.Scope{a, b}, in("a", &a, watchlist.Deleted, 1, "20"), in("a", &a, watchlist.Added, 4, "21"))
	for of, want := range map[scope.Scope]map[string]string{a: {"uid-1": "a/name-1@9"}, b: {"uid-2": "b/name-2@6"}} {
		assert.Equal(t, want, got[of].known)
		assert.Equal(t, "9", got[of].ResourceVersion)
		assert.Equal(t, []watchlist.Key{{1}}, got[of].At)
		assert.Nil(t, got[of].Lost, "the history since then is resumed")
		assert.False(t, got[of].Unconfirmed, "the history since then is resumed")
	}
	got = config(t, extension, one, []scope.Scope{a, b})
	assert.Equal(t, map[string]string{"uid-4": "a/name-4@21"}, got[a].known)
	assert.Equal(t, "21", got[a].ResourceVersion)
	assert.Len(t, ids(t, extension), 3, "the state of the other namespaces is kept for a while")

	back := config(t, extension, one, []scope.Scope{all})[all]
	assert.Equal(t, map[string]string{"uid-2": "b/name-2@6", "uid-3": "c/name-3@7", "uid-4": "a/name-4@21"}, back.known,
		"objects deleted in the meantime do not come back")
	assert.Equal(t, "21", back.ResourceVersion)
	requireScopeChanged(t, back)
	assert.Len(t, ids(t, extension), 1)
}

// among returns the scope of the pods in selected namespaces.
func among(text string) scope.Scope { return podsIn("", "").In(scope.ParseNamespaces(text)) }

// All namespaces were read, and now some of them: these are known up to the same version, and the others not at all.
func TestAllShrinksToSelectedNamespaces(t *testing.T) {
	extension := memstorage.New()
	all, web, rest := podsIn("", ""), among("web-*"), among("!web-*,!kube")
	config(t, extension, one, []scope.Scope{all},
		in("web-a", &all, watchlist.Added, 1, "5"), in("pay", &all, watchlist.Added, 2, "6"), in("kube", &all, watchlist.Added, 3, "7"),
		settled(&all, "8"))
	got := config(t, extension, one, []scope.Scope{web, rest}, in("web-a", &web, watchlist.Deleted, 1, "20"), settled(&web, "21"))
	for of, want := range map[scope.Scope]map[string]string{web: {"uid-1": "web-a/name-1@5"}, rest: {"uid-2": "pay/name-2@6"}} {
		assert.Equal(t, want, got[of].known)
		assert.Equal(t, "8", got[of].ResourceVersion)
		assert.Nil(t, got[of].Lost, "the history since then is resumed")
	}
	again := config(t, extension, one, []scope.Scope{web})[web]
	assert.Equal(t, "21", again.ResourceVersion)
	assert.Nil(t, again.Lost)
	assert.Empty(t, again.known)

	back := config(t, extension, one, []scope.Scope{all})[all]
	assert.Equal(t, map[string]string{"uid-2": "pay/name-2@6", "uid-3": "kube/name-3@7"}, back.known, "a deleted object does not come back")
	requireScopeChanged(t, back)
	assert.Len(t, ids(t, extension), 1)
}

// The selected namespaces become others, or a single one that is requested.
func TestSelectedNamespacesBecomeOthers(t *testing.T) {
	extension := memstorage.New()
	teams := among("team-*")
	config(t, extension, one, []scope.Scope{teams},
		in("team-a", &teams, watchlist.Added, 1, "5"), in("team-b", &teams, watchlist.Added, 2, "6"), settled(&teams, "8"))
	others := among("team-b,web-*")
	got := config(t, extension, one, []scope.Scope{others}, settled(&others, "30"))[others]
	assert.Equal(t, map[string]string{"uid-2": "team-b/name-2@6"}, got.known)
	assert.Equal(t, "8", got.ResourceVersion)
	requireScopeChanged(t, got)

	b := podsIn("team-b", "")
	single := config(t, extension, one, []scope.Scope{b})[b]
	assert.Equal(t, map[string]string{"uid-2": "team-b/name-2@6"}, single.known)
	assert.Equal(t, "30", single.ResourceVersion)
	assert.Nil(t, single.Lost, "the history since then is resumed")

	none := among("shop-*")
	fresh := config(t, extension, one, []scope.Scope{none})[none]
	assert.True(t, fresh.None())
	assert.Empty(t, fresh.known)
}

// If the checkpoint of a lent namespace is lost, the rest does not claim to cover all namespaces.
func TestLostLentNamespaceIsNotCovered(t *testing.T) {
	extension := memstorage.New()
	a, all := podsIn("a", ""), podsIn("", "")
	config(t, extension, one, []scope.Scope{all}, in("a", &all, watchlist.Added, 1, "5"), in("b", &all, watchlist.Added, 2, "6"), settled(&all, "8"))
	config(t, extension, one, []scope.Scope{a})
	got := config(t, extension, one, []scope.Scope{all, a})[all] // a is read by another reader, as if it were lost
	requireScopeChanged(t, got)
	assert.Len(t, got.known, 1)
}

// With another selector, the inventory of the previous one is compared: objects that no longer match are gone from the
// scope.
func TestSelectorChanges(t *testing.T) {
	f := func(from, to string) {
		t.Helper()
		extension := memstorage.New()
		before, after := podsIn("", from), podsIn("", to)
		config(t, extension, one, []scope.Scope{before}, in("a", &before, watchlist.Added, 1, "5"), settled(&before, "8"))
		got := config(t, extension, one, []scope.Scope{after})[after]
		assert.Equal(t, map[string]string{"uid-1": "a/name-1@5"}, got.known)
		assert.Equal(t, "8", got.ResourceVersion)
		requireScopeChanged(t, got)
		assert.Len(t, ids(t, extension), 1)
	}
	f("team=x", "")
	f("", "team=x")
	f("team=x", "team=y")
}

// The checkpoint of a scope that is still configured is not used for another one, in whatever order the readers start.
func TestConfiguredScopesKeepTheirCheckpoints(t *testing.T) {
	extension := memstorage.New()
	x, y, z := podsIn("", "team=x"), podsIn("", "team=y"), podsIn("", "team=z")
	config(t, extension, one, []scope.Scope{x, y}, in("a", &x, watchlist.Added, 1, "5"), settled(&x, "8"),
		in("a", &y, watchlist.Added, 2, "6"), settled(&y, "9"))
	got := config(t, extension, one, []scope.Scope{z, x})
	assert.Equal(t, map[string]string{"uid-2": "a/name-2@6"}, got[z].known)
	requireScopeChanged(t, got[z])
	assert.Equal(t, map[string]string{"uid-1": "a/name-1@5"}, got[x].known)
	assert.Nil(t, got[x].Lost)
	assert.False(t, got[x].Unconfirmed)
}

// Another scope cannot continue the set of an initial state that was cut short: the objects are emitted again in a set
// of its own, and deleted ones are not forgotten.
func TestInitialStateOfAnotherScopeCutShort(t *testing.T) {
	extension := memstorage.New()
	a, all := podsIn("a", ""), podsIn("", "")
	info := &watchlist.SnapshotInfo{Epoch: "the epoch"}
	first := in("a", &a, watchlist.Snapshot, 1, "5")
	first.Origin, first.Advances, first.Snapshot = watchlist.Initial, false, info
	config(t, extension, one, []scope.Scope{a}, watchlist.Change{Scope: &a, Type: watchlist.SnapshotBegin, Origin: watchlist.Initial, Snapshot: info}, first)
	got := config(t, extension, one, []scope.Scope{all})[all]
	assert.True(t, got.None())
	assert.Equal(t, map[string]string{"uid-1": "a/name-1@"}, got.known)
}

// A reader that starts afresh although its resource has checkpoints logs the reason once.
func TestStartingAfreshIsLogged(t *testing.T) {
	f := func(want string, before, after Cluster, beforeIn, afterIn scope.Scope) {
		t.Helper()
		extension := memstorage.New()
		config(t, extension, before, []scope.Scope{beforeIn}, in("a", &beforeIn, watchlist.Added, 1, "5"), settled(&beforeIn, "8"))
		got := config(t, extension, after, []scope.Scope{afterIn})[afterIn]
		assert.True(t, got.None())
		assert.Empty(t, got.known)
		assert.Equal(t, 1, strings.Count(got.logs, "starting afresh although there are checkpoints"), "%s", got.logs)
		assert.Contains(t, got.logs, want)
	}
	a, b := podsIn("a", ""), podsIn("b", "")
	f("the checkpoint is of another cluster: its UID is one", Cluster{UID: "one", Fingerprint: "x"}, Cluster{UID: "two", Fingerprint: "x"}, a, a)
	f("another URL or certificate authority", Cluster{Fingerprint: "x"}, Cluster{Fingerprint: "y"}, a, a)
	f("another URL or certificate authority", Cluster{Fingerprint: "x"}, Cluster{UID: "two", Fingerprint: "y"}, a, a)
	f("hold other objects", one, one, a, b)
	f("another cluster", one, Cluster{UID: "two"}, a, podsIn("", ""))
}

// A checkpoint is bound to the known identity of the cluster. If that is not its UID, the inventory has to be compared.
func TestCheckpointIsBoundToItsCluster(t *testing.T) {
	a := podsIn("a", "")
	f := func(before, after Cluster, unconfirmed bool) {
		t.Helper()
		extension := memstorage.New()
		config(t, extension, before, []scope.Scope{a}, in("a", &a, watchlist.Added, 1, "5"), settled(&a, "8"))
		got := config(t, extension, after, []scope.Scope{a}, in("a", &a, watchlist.Modified, 1, "9"))[a]
		assert.Equal(t, "8", got.ResourceVersion)
		assert.Len(t, got.known, 1)
		assert.Equal(t, unconfirmed, got.Unconfirmed)
		assert.Empty(t, got.logs)
		got = config(t, extension, after, []scope.Scope{a}, verified(&a, "9"))[a]
		assert.Equal(t, "9", got.ResourceVersion)
		assert.Equal(t, unconfirmed, got.Unconfirmed, "it has not been compared since")
		got = config(t, extension, after, []scope.Scope{a})[a]
		if after.UID != "" {
			unconfirmed = false // it is bound to the UID now
		}
		assert.Equal(t, unconfirmed, got.Unconfirmed)
		assert.Len(t, ids(t, extension), 1)
	}
	f(Cluster{UID: "u", Fingerprint: "x"}, Cluster{UID: "u", Fingerprint: "x"}, false)
	f(Cluster{UID: "u", Fingerprint: "x"}, Cluster{UID: "u", Fingerprint: "y"}, false)
	f(Cluster{Fingerprint: "x"}, Cluster{Fingerprint: "x"}, true)
	f(Cluster{Fingerprint: "x"}, Cluster{UID: "u", Fingerprint: "x"}, true)
	f(Cluster{UID: "u", Fingerprint: "x"}, Cluster{Fingerprint: "x"}, true)
}

// A UID that becomes known while the receiver runs binds the checkpoint too.
func TestClusterUIDLearnedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		a := podsIn("a", "")
		l := beginIn(Cluster{Fingerprint: "x"}, extension, zap.NewNop())
		_, _, err := l.restore(t, &a)
		require.NoError(t, err)
		l.Accepted([]watchlist.Change{settled(&a, "8")})
		synctest.Wait()
		l.cluster.UID = "u"
		require.NoError(t, l.Shutdown(t.Context()))
		assert.False(t, config(t, extension, Cluster{UID: "u", Fingerprint: "y"}, []scope.Scope{a})[a].Unconfirmed)
	})
}

func TestUnreadCheckpointsAreRemovedAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		a, b, c := podsIn("a", ""), podsIn("b", ""), podsIn("c", "")
		var changes []watchlist.Change
		for _, of := range []*scope.Scope{&a, &b, &c} {
			changes = append(changes, in(of.Namespace, of, watchlist.Added, 1, "5"), settled(of, "8"))
		}
		config(t, extension, one, []scope.Scope{a, b, c}, changes...)

		logger, logs := observed()
		l := beginIn(one, extension, logger, a, c) // c is configured, but not read
		_, _, err := l.restore(t, &a)
		require.NoError(t, err)
		time.Sleep(29 * 24 * time.Hour)
		assert.Len(t, ids(t, extension), 3)
		time.Sleep(3 * 24 * time.Hour)
		assert.Len(t, ids(t, extension), 2)
		assert.Equal(t, 1, logs.FilterMessageSnippet("has had no reader for a long time").Len())
		require.NoError(t, l.Shutdown(t.Context()))

		time.Sleep(40 * 24 * time.Hour)
		got := config(t, extension, one, []scope.Scope{a, c})
		assert.Len(t, got[a].known, 1, "a configured scope is kept, however long the Collector was away")
		assert.Len(t, got[c].known, 1)
		assert.NotContains(t, fmt.Sprint(ids(t, extension)), "namespace b")
	})
}
