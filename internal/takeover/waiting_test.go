package takeover

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// A change that waits is what it was, without what a checkpoint does not need, and takes little memory.
func TestWaiting(t *testing.T) {
	now := time.Unix(1_700_000_000, 5)
	for _, c := range []watchlist.Change{
		object(watchlist.Added, "a", 5), ofSnapshot(watchlist.Known, "a", 5), advanced(7, true), advanced(8, false), suspected(),
		{Type: watchlist.Selecting, Selected: watchlist.SelectedNamespaces{"a": "5"}},
		{Type: watchlist.Deleted, Origin: watchlist.Recovered, Inferred: true, Rewinds: true},
		{Type: watchlist.Gap, Gap: &watchlist.GapInfo{FromRV: "5", ToRV: "9"}, Verifies: true},
	} {
		c.ReadAt = now
		want := c
		want.Object = redact.Object{Identity: c.Object.Identity}
		w := waitingOf(&c)
		assert.Equal(t, want, w.change())
		assert.Equal(t, max(c.Object.ResourceVersion, c.ReachedVersion()), w.version())
	}
	assert.LessOrEqual(t, unsafe.Sizeof(waiting{}), uintptr(144))
}
