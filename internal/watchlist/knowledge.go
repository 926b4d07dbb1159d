package watchlist

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Knowledge is what has been learned of how a server serves one resource. The readers of all its scopes share it, so
// that what one of them found out the hard way the others need not. It is safe for concurrent use.
type Knowledge struct {
	mu           sync.Mutex
	listUntil    time.Time // no WatchList until then
	pollOnly     bool      // the resource cannot be watched
	noBookmarks  bool      // only the bookmark that ends the initial events comes
	sawBookmark  bool
	sawEndMarker bool // of streamed initial events
	anyVersion   bool // a snapshot cannot be had at a given version
}

// NewKnowledge returns what is known of a resource before anything was asked. With listOnly the server is known not to
// send initial events.
func NewKnowledge(resource schema.GroupResource, listOnly bool) *Knowledge {
	// Events are served straight from etcd, without the cache that makes bookmarks.
	k := &Knowledge{noBookmarks: scope.IsEvents(resource)}
	if listOnly {
		k.listUntil = time.Now().Add(100 * 365 * 24 * time.Hour)
	}
	return k
}

// lists reports whether the server is to be asked for a LIST instead of initial events.
func (k *Knowledge) lists() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Before(k.listUntil)
}

// noWatchList notes that the server does not stream initial events, and reports whether that is news.
func (k *Knowledge) noWatchList() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	news := !time.Now().Before(k.listUntil)
	k.listUntil = time.Now().Add(listMemory)
	return news
}

// polls reports whether the resource cannot be watched.
func (k *Knowledge) polls() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pollOnly
}

// notWatchable notes that the resource cannot be watched, and reports whether that is news.
func (k *Knowledge) notWatchable() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	news := !k.pollOnly
	k.pollOnly = true
	k.listUntil = time.Now().Add(listMemory)
	return news
}

// lacksBookmarks reports whether no bookmarks come but those that end initial events.
func (k *Knowledge) lacksBookmarks() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.noBookmarks
}

func (k *Knowledge) bookmarkSeen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sawBookmark, k.noBookmarks = true, false
}

// silentWatch notes that a watch stayed silent for longer than bookmarks take. Where none has ever come, none will.
func (k *Knowledge) silentWatch() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.noBookmarks = !k.sawBookmark
}

func (k *Knowledge) endMarkerSeen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sawEndMarker = true
}

// sendsEndMarkers reports whether the end of streamed initial events has ever come.
func (k *Knowledge) sendsEndMarkers() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sawEndMarker
}

// takesAnyVersion reports whether a snapshot cannot be had at a given version.
func (k *Knowledge) takesAnyVersion() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.anyVersion
}

func (k *Knowledge) takeAnyVersion() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.anyVersion = true
}
