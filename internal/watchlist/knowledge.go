package watchlist

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

const (
	// What is learned of a server is forgotten, since servers are upgraded, proxies are replaced and rights are
	// granted: at first after firstMemory, and each time that it turns out to be true again after twice as long.
	firstMemory = 5 * time.Minute
	maxMemory   = 24 * time.Hour
	// unwatchableMemory is the first memory where the server has stated that the resource cannot be watched.
	unwatchableMemory = time.Hour
	// muteMemory is the first memory where watches deliver nothing. To find out costs two minutes without changes.
	muteMemory = 30 * time.Minute

	// maxSilentStreams is how many streams have to begin and then stay silent before the server is known to send no
	// end marker. A single one may have met a slow server.
	maxSilentStreams = 3
)

// Knowledge is what has been learned of how a server serves one resource. The readers of all its scopes share it, so
// that what one of them found out the hard way the others need not. It is safe for concurrent use.
type Knowledge struct {
	watchDelivers atomic.Bool // a watch has delivered something since the last snapshot found differences

	mu            sync.Mutex
	listOnly      bool    // the server is known not to send initial events
	list          learned // no WatchList, or none that can be relied on
	listForbidden learned
	unwatchable   learned   // the server refuses to let the resource be watched
	mute          learned   // watches deliver nothing
	silentStreams int       // of initial events, that began and never came to their end
	silentAt      time.Time // of the last of them
	noBookmarks   bool      // only the bookmark that ends the initial events comes
	sawBookmark   bool
	sawEndMarker  bool // of streamed initial events
	anyVersion    bool // a snapshot cannot be had at a given version

	gone   version // the latest version from which the history was found expired
	goneAt time.Time
}

// learned is something found out about a server that need not stay true.
type learned struct {
	until  time.Time
	memory time.Duration // how long it was remembered last; 0: it was never learned
}

func (l *learned) holds() bool { return time.Now().Before(l.until) }

// note remembers it, for first if it is new, and reports whether it is.
func (l *learned) note(first time.Duration) (news bool) {
	if l.holds() {
		return false // another reader has just noted it
	}
	news = l.memory == 0
	l.memory = min(max(2*l.memory, first), maxMemory)
	l.until = time.Now().Add(l.memory)
	return news
}

// doubt makes it be found out again.
func (l *learned) doubt() { l.until = time.Time{} }

// NewKnowledge returns what is known of a resource before anything was asked. With listOnly the server is known not to
// send initial events.
func NewKnowledge(resource schema.GroupResource, listOnly bool) *Knowledge {
	// Events are served straight from etcd, without the cache that makes bookmarks.
	return &Knowledge{listOnly: listOnly, noBookmarks: scope.IsEvents(resource)}
}

// lists reports whether the server is to be asked for a LIST instead of initial events.
func (k *Knowledge) lists() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.listOnly || k.list.holds() || k.unwatchable.holds() || k.mute.holds()
	return known && !k.listForbidden.holds()
}

// noWatchList notes that the server does not stream initial events that can be relied on, and reports whether that is
// news.
func (k *Knowledge) noWatchList() (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list.note(firstMemory)
}

// silentStream notes that initial events began and then nothing came for too long. It reports whether that has happened
// often enough to prove that the server sends no end marker, and whether this was the first time.
func (k *Knowledge) silentStream() (proven, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silentStreams++
	k.silentAt = time.Now()
	if k.silentStreams < maxSilentStreams {
		return false, k.silentStreams == 1
	}
	k.list.note(firstMemory)
	return true, false
}

// wasSilent reports whether a stream of initial events stayed silent lately, and none has ever come to its end marker.
func (k *Knowledge) wasSilent() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.silentAt.IsZero() && time.Since(k.silentAt) < firstMemory && !k.sawEndMarker
}

// doubtLists makes the next snapshot a stream again, because LISTs fail. Where the server is known to send no initial
// events it changes nothing.
func (k *Knowledge) doubtLists() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list.doubt()
}

// noList notes that the right to list is missing, and reports whether that is news. Whatever else was learned, the
// resource is streamed then.
func (k *Knowledge) noList() (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list.doubt()
	return k.listForbidden.note(firstMemory)
}

// listsForbidden reports whether the right to list is known to be missing.
func (k *Knowledge) listsForbidden() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.listForbidden.holds()
}

// polls reports whether the resource has to be listed at intervals, since it cannot be watched.
func (k *Knowledge) polls() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return (k.unwatchable.holds() || k.mute.holds()) && !k.listForbidden.holds()
}

// notWatchable notes that the server does not let the resource be watched, and reports whether that is news.
func (k *Knowledge) notWatchable() (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unwatchable.note(unwatchableMemory)
}

// watchesAreMute notes that watches deliver nothing although there is something to deliver, and reports whether that is
// news.
func (k *Knowledge) watchesAreMute() (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mute.note(muteMemory)
}

// doubtsWatches reports whether watches were mute when they were tried last.
func (k *Knowledge) doubtsWatches() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mute.memory > 0
}

// watchDelivered notes that a watch has delivered something.
func (k *Knowledge) watchDelivered() {
	if k.watchDelivers.Load() && !k.doubtsWatches() {
		return
	}
	k.watchDelivers.Store(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mute, k.unwatchable = learned{}, learned{}
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
	k.silentStreams = 0
}

// streamCompleted notes that a streamed snapshot came to its end and was believed: WatchList works.
func (k *Knowledge) streamCompleted() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = learned{}
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

// takeAnyVersion reports whether it is news.
func (k *Knowledge) takeAnyVersion() (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	news = !k.anyVersion
	k.anyVersion = true
	return news
}

// goneMemory is for how long readers need not ask whether the history is gone, since one of them has.
const goneMemory = 30 * time.Second

// historyGone notes that the server has no history from that version on.
func (k *Knowledge) historyGone(from version) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.goneAt) > goneMemory || k.gone.before(from) {
		k.gone = from
	}
	k.goneAt = time.Now()
}

// isHistoryGone reports whether a reader has just learned that the server has no history from that version on. A version
// means the same to all readers of a resource.
func (k *Knowledge) isHistoryGone(from version) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.goneAt) <= goneMemory && k.gone.comparable() && k.gone.atLeast(from)
}
