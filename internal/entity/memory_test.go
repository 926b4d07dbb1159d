//go:build !race

package entity

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// What is remembered of an entity is its key and a hash, whatever its size.
func TestEntitiesTakeFewBytes(t *testing.T) {
	const objects = 100_000
	e := New(Options{})
	c := change(t, "pods", watchlist.Added, pod)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range objects {
		c.Key = watchlist.KeyOf(fmt.Sprint(i))
		e.Append([]watchlist.Change{c}, func() plog.ScopeLogs { return plog.NewLogs().ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty() })
		e.Accepted()
	}
	each := float64(heap()-before) / objects
	t.Logf("%.0f bytes for each entity", each)
	assert.Less(t, each, 64.0)
	runtime.KeepAlive(e)
}
