package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// The checkpoint of 100,000 objects is written to a real file and read back, and the file holds nothing else of the
// objects. The time is printed; the required limit allows for the race detector and a busy machine.
func TestCheckpointOf100000ObjectsLoadsInASecond(t *testing.T) {
	const objects, limit = 100_000, time.Minute
	folder := t.TempDir()
	pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")

	keeper, end := openKeeper(t, folder)
	if _, err := keeper.Restore(t.Context(), &pods, func(watchlist.Stored) {}); err != nil {
		t.Fatal(err)
	}
	changes := make([]watchlist.Change, 0, objects+1)
	for i := range objects {
		changes = append(changes, knownObject(&pods, i))
	}
	position := watchlist.Change{Scope: &pods, Type: watchlist.Advanced}
	position.Object.ResourceVersion = "200000"
	began := time.Now()
	keeper.Accepted(append(changes, position))
	end()
	written := time.Since(began)

	began = time.Now()
	keeper, end = openKeeper(t, folder)
	known := 0
	progress, err := keeper.Restore(t.Context(), &pods, func(o watchlist.Stored) {
		want := knownObject(&pods, known).Object
		if o != (watchlist.Stored{Identity: want.Identity, Content: want.Content.Sum}) {
			t.Fatalf("object %d is %+v, want %+v", known, o, want)
		}
		known++
	})
	loaded := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	end()
	if known != objects || progress.ResourceVersion != "200000" {
		t.Errorf("%d objects and %+v were loaded", known, progress)
	}
	size := fileSizes(t, folder)
	t.Logf("%d objects: written in %s, %.1f MB on disk, loaded in %s", objects, written.Round(time.Millisecond), float64(size)/1e6, loaded.Round(time.Millisecond))
	if written > limit || loaded > limit {
		t.Errorf("writing took %s and loading %s", written, loaded)
	}
}

func openKeeper(t *testing.T, folder string) (keeper *checkpoint.Keeper, end func()) {
	t.Helper()
	extension, closeIt := harness.OpenFileStorage(t, folder)
	keeper = newKeeper(t, extension, func(part string, err error) {
		if err != nil {
			t.Errorf("%s: %v", part, err)
		}
	})
	return keeper, func() {
		if err := keeper.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		closeIt()
	}
}

// knownObject returns the i-th object, in the order of the keys.
func knownObject(of *scope.Scope, i int) watchlist.Change {
	c := watchlist.Change{Scope: of, Type: watchlist.Added, Origin: watchlist.Live, Advances: true}
	binary.BigEndian.PutUint32(c.Key[:], uint32(i))
	c.Object.Identity = redact.Identity{
		UID:       fmt.Sprintf("%08x-0000-4000-8000-000000000000", i),
		Namespace: fmt.Sprintf("namespace-%03d", i%200), Name: fmt.Sprintf("checkout-6d4cf56db6-%06d", i),
		ResourceVersion: fmt.Sprint(100000 + i),
	}
	c.Object.Content.Sum = uint64(i+1) << 32
	c.Object.JSON = `{"spec":{"never":"on disk"}}`
	return c
}

// fileSizes returns the total size of the files in a folder.
func fileSizes(t *testing.T, folder string) int64 {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	return total
}
