package watchlist

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

const (
	// What was learned of a server expires, because servers are upgraded, proxies replaced and rights granted: at first
	// after firstMemory, and after twice as long each time that it proves true again.
	firstMemory = 5 * time.Minute
	maxMemory   = 24 * time.Hour
	// unwatchableMemory is the first memory if the server has stated that the resource cannot be watched.
	unwatchableMemory = time.Hour
	// muteMemory is the first memory if watches deliver nothing. Finding that out costs two minutes without changes.
	muteMemory = 30 * time.Minute

	// maxSilentStreams is how many streams have to begin and then stay silent before we conclude that the server sends
	// no end marker. A single one may just have met a slow server.
	maxSilentStreams = 3
)

// Knowledge is what has been learned of how a server serves one resource. The readers of all its scopes share it, so
// that only one of them has to find it out. It is safe for concurrent use.
type Knowledge struct {
	watchDelivers atomic.Bool // a watch has delivered something since the last snapshot found differences

	mu            sync.Mutex
	listOnly      bool    // the server is known not to send initial events
	list          learned // WatchList is missing or unreliable
	listForbidden learned
	unwatchable   learned   // the server refuses to let the resource be watched
	mute          learned   // watches deliver nothing
	silentStreams int       // streams of initial events that began and never ended
	silentAt      time.Time // time of the last of them
	noBookmarks   bool      // no bookmarks come but the end marker
	sawBookmark   bool
	sawEndMarker  bool // of streamed initial events
	anyVersion    bool // the server refuses a resourceVersion for a snapshot

	gone   version // the latest version whose following history was found expired
	goneAt time.Time
}

// learned is a fact about a server that may stop being true.
type learned struct {
	until  time.Time
	memory time.Duration // how long it was last remembered; 0: never learned
}

func (l *learned) holds() bool { return time.Now().Before(l.until) }

// note remembers the fact, for the duration first if it is new, and reports whether it is new.
func (l *learned) note(first time.Duration) (news bool) {
	if l.holds() {
		return false // another reader has just noted it
	}
	news = l.memory == 0
	l.memory = min(max(2*l.memory, first), maxMemory)
	l.until = time.Now().Add(l.memory)
	return news
}

// doubt expires the fact, so that it is tried again.
func (l *learned) doubt() { l.until = time.Time{} }

// NewKnowledge returns the knowledge about a resource before any request. listOnly means that the server is known not
// to send initial events.
func NewKnowledge(resource schema.GroupResource, listOnly bool) *Knowledge {
	// Events are served directly from etcd, without the watch cache that creates bookmarks.
	return &Knowledge{listOnly: listOnly, noBookmarks: scope.IsEvents(resource)}
}

// lists reports whether to send a LIST instead of asking for initial events.
func (k *Knowledge) lists() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.listOnly || k.list.holds() || k.unwatchable.holds() || k.mute.holds()
	return known && !k.listForbidden.holds()
}

// noWatchList notes that the server does not reliably stream initial events, and reports whether that is new.
func (k *Knowledge) noWatchList() (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list.note(firstMemory)
}

// silentStream notes that a stream of initial events began and then stayed silent for too long. It reports whether that
// has happened often enough to prove that the server sends no end marker, and whether this was the first time.
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

// wasSilent reports whether a stream of initial events recently stayed silent and none has ever reached its end marker.
func (k *Knowledge) wasSilent() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.silentAt.IsZero() && time.Since(k.silentAt) < firstMemory && !k.sawEndMarker
}

// doubtLists makes the next snapshot a stream again, because LISTs fail. It has no effect if the server is known to
// send no initial events.
func (k *Knowledge) doubtLists() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list.doubt()
}

// noList notes that the right to list is missing, and reports whether that is new. The resource is then streamed,
// whatever else was learned.
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

// polls reports whether the resource has to be listed at intervals because it cannot be watched.
func (k *Knowledge) polls() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return (k.unwatchable.holds() || k.mute.holds()) && !k.listForbidden.holds()
}

// notWatchable notes that the server does not allow watching the resource, and reports whether that is new.
func (k *Knowledge) notWatchable() (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unwatchable.note(unwatchableMemory)
}

// watchesAreMute notes that watches deliver nothing although there are changes, and reports whether that is new.
func (k *Knowledge) watchesAreMute() (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mute.note(muteMemory)
}

// doubtsWatches reports whether watches were mute when last tried.
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

// lacksBookmarks reports whether the server sends no bookmarks except end markers.
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

// silentWatch notes that a watch stayed silent for longer than the interval between bookmarks. If none has ever come,
// none will.
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

// streamCompleted notes that a streamed snapshot reached its end and was accepted: WatchList works.
func (k *Knowledge) streamCompleted() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = learned{}
}

// sendsEndMarkers reports whether the server has ever sent the end marker of streamed initial events.
func (k *Knowledge) sendsEndMarkers() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sawEndMarker
}

// takesAnyVersion reports whether snapshots have to be requested without a resourceVersion.
func (k *Knowledge) takesAnyVersion() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.anyVersion
}

// takeAnyVersion notes that the server refuses a resourceVersion for a snapshot, and reports whether that is new.
func (k *Knowledge) takeAnyVersion() (news bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	news = !k.anyVersion
	k.anyVersion = true
	return news
}

// goneMemory is how long readers rely on another reader's finding that the history is gone.
const goneMemory = 30 * time.Second

// historyGone notes that the server no longer has the history since that version.
func (k *Knowledge) historyGone(from version) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.goneAt) > goneMemory || k.gone.before(from) {
		k.gone = from
	}
	k.goneAt = time.Now()
}

// isHistoryGone reports whether some reader has just learned that the server no longer has the history since that
// version. A version means the same to all readers of a resource.
func (k *Knowledge) isHistoryGone(from version) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.goneAt) <= goneMemory && k.gone.comparable() && k.gone.atLeast(from)
}
