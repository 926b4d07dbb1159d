package checkpoint

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/memstorage"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Nothing remains in the storage of a resource that is no longer served. If it is served again, it is read afresh.
func TestCheckpointOfAResourceThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, reader := reading(t, extension, zap.NewNop())
		l.Accepted([]watchlist.Change{change(reader, watchlist.Added, 1, "5")})
		time.Sleep(10 * time.Second)
		before := len(extension.Client(clientName))
		l.Accepted([]watchlist.Change{change(reader, watchlist.Deleted, 1, "6"), advanced(reader, ""), ended(reader)})
		time.Sleep(10 * time.Second)
		left := extension.Client(clientName)
		assert.Less(t, len(left), before)
		for key := range left {
			assert.NotContains(t, key, checkpointPrefix)
			assert.NotContains(t, key, objectPrefix)
		}
		progress, known, err := l.restore(t, another(reader))
		require.NoError(t, err)
		assert.True(t, progress.None())
		assert.Empty(t, known)
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// A checkpoint is kept as long as no gap has reported the deletions that were dropped.
func TestCheckpointOfAResourceThatIsGoneAndWhoseDeletionsWereDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extension := memstorage.New()
		l, reader := reading(t, extension, zap.NewNop())
		l.Accepted([]watchlist.Change{change(reader, watchlist.Added, 1, "5")})
		l.Dropped([]watchlist.Change{change(reader, watchlist.Deleted, 1, "6")})
		l.Accepted([]watchlist.Change{advanced(reader, ""), ended(reader)})
		time.Sleep(10 * time.Second)
		progress, _, err := l.restore(t, another(reader))
		require.NoError(t, err)
		require.NotNil(t, progress.Denied)
		assert.Equal(t, 1, progress.Denied.Dropped)
		require.NoError(t, l.Shutdown(t.Context()))
	})
}
