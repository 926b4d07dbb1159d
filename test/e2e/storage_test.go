package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// The possible outcomes for a Collector whose file of file_storage was damaged while it was down.
const (
	goesOn  = "continues where it stopped"
	afresh  = "starts afresh and keeps checkpoints"
	without = "starts afresh and keeps no checkpoints"
	crashes = "crashes"
)

// damagedFolder and damagedRecreate pass the folder, and whether recreate is set, to the process that opens it.
const damagedFolder, damagedRecreate = "K8S_WATCHLIST_TEST_FOLDER", "K8S_WATCHLIST_TEST_RECREATE"

// Which damage to a file is survived, and what the option recreate of file_storage changes. Each case runs in a process
// of its own, because bbolt panics in its own goroutines.
func TestDamagedFileOfFileStorage(t *testing.T) {
	t.Parallel()
	if folder := os.Getenv(damagedFolder); folder != "" {
		fmt.Println("outcome:", openDamaged(t, folder, os.Getenv(damagedRecreate) != ""))
		return
	}
	page := os.Getpagesize()
	overwrite := func(from, to int) func([]byte) []byte {
		return func(file []byte) []byte {
			for i := from; i < min(to, len(file)); i++ {
				file[i] = byte(i * 7919 >> 3)
			}
			return file
		}
	}
	erase := func(from, to int) func([]byte) []byte {
		return func(file []byte) []byte {
			clear(file[from:to])
			return file
		}
	}
	cut := func(to func(size int) int) func([]byte) []byte {
		return func(file []byte) []byte { return file[:to(len(file))] }
	}
	const all = 1 << 30
	for name, test := range map[string]struct {
		damage       func([]byte) []byte
		want         string
		withRecreate string
	}{
		"none":                       {cut(func(size int) int { return size }), goesOn, goesOn},
		"the unused end is cut off":  {cut(func(size int) int { return size - page }), goesOn, goesOn},
		"one of the two first pages": {overwrite(0, page), goesOn, goesOn},
		"inside of a value": {func(b []byte) []byte {
			return bytes.Replace(b, []byte("checkout-"), []byte("checkXXX-"), 1)
		}, goesOn, goesOn}, // it is not detectable
		"everything is cut off": {cut(func(int) int { return 0 }), afresh, afresh},
		// Zeros, as after a power failure. Of other bytes bbolt may take some for offsets beyond the file, and crash.
		"inside of a page":             {erase(21*page+100, 21*page+2000), without, afresh},
		"both of the first pages":      {overwrite(0, 2*page), without, without},
		"cut within the first page":    {cut(func(int) int { return 100 }), without, without},
		"everything":                   {overwrite(0, all), without, without},
		"half is cut off":              {cut(func(size int) int { return size / 2 }), crashes, crashes},
		"all but two pages is cut off": {cut(func(int) int { return 2 * page }), crashes, crashes},
		"a whole page":                 {overwrite(10*page, 11*page), crashes, crashes},
		"all but the first pages":      {overwrite(2*page, all), crashes, crashes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for recreate, want := range map[bool]string{false: test.want, true: test.withRecreate} {
				t.Run(fmt.Sprint("recreate ", recreate), func(t *testing.T) {
					t.Parallel()
					if got := outcomeOfDamage(t, test.damage, recreate); got != want {
						t.Errorf("it %s, want %s", got, want)
					}
				})
			}
		})
	}
}

// outcomeOfDamage makes a keeper write a file, damages the file, and opens it again in another process.
func outcomeOfDamage(t *testing.T, damage func([]byte) []byte, recreate bool) string {
	t.Helper()
	folder := t.TempDir()
	keeper, end := openKeeper(t, folder)
	pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	if _, err := keeper.Restore(t.Context(), &pods, func(watchlist.Stored) {}); err != nil {
		t.Fatal(err)
	}
	var changes []watchlist.Change
	for i := range 2000 {
		changes = append(changes, knownObject(&pods, i))
	}
	keeper.Accepted(changes)
	end()
	file := checkpointFile(t, folder)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, damage(content), 0o600); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDamagedFileOfFileStorage$", "-test.v")
	command.Env = append(os.Environ(), damagedFolder+"="+folder)
	if recreate {
		command.Env = append(command.Env, damagedRecreate+"=yes")
	}
	output, err := command.CombinedOutput()
	_, outcome, found := strings.Cut(string(output), "outcome: ")
	switch {
	case found:
		outcome, _, _ = strings.Cut(outcome, "\n")
		return outcome
	case err != nil && (strings.Contains(string(output), "panic: ") || strings.Contains(string(output), "fatal error: ") || strings.Contains(string(output), "unexpected fault")):
		return crashes
	}
	t.Fatalf("%v: %s", err, output)
	return ""
}

func checkpointFile(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*checkpoints_v2"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the files are %v (%v)", files, err)
	}
	return files[0]
}

func openDamaged(t *testing.T, folder string, recreate bool) string {
	open := func() (*checkpoint.Keeper, func()) {
		extension, closeIt := harness.OpenFileStorage(t, folder, func(c *filestorage.Config) { c.Recreate = recreate })
		return newKeeper(t, extension, func(string, error) {}), closeIt
	}
	pods := scope.New(schema.GroupResource{Resource: "pods"}, "", "", "")
	keeper, closeIt := open()
	known := 0
	progress, err := keeper.Restore(t.Context(), &pods, func(watchlist.Stored) { known++ })
	t.Logf("%d objects, %+v, %v", known, progress, err)
	restored := err == nil && known == 2000 && progress.ResourceVersion != ""
	change := knownObject(&pods, 2001)
	keeper.Accepted([]watchlist.Change{change})
	if err := keeper.Shutdown(t.Context()); err != nil {
		t.Log(err)
	}
	closeIt()
	if restored {
		return goesOn
	}
	if progress.Later != nil {
		return without // retries change nothing
	}
	keeper, closeIt = open()
	progress, err = keeper.Restore(t.Context(), &pods, func(watchlist.Stored) {})
	_ = keeper.Shutdown(t.Context())
	closeIt()
	if err == nil && progress.ResourceVersion == change.Object.ResourceVersion {
		return afresh
	}
	return without
}

func newKeeper(t *testing.T, extension storage.Extension, report func(string, error)) *checkpoint.Keeper {
	t.Helper()
	keeper := checkpoint.NewKeeper(checkpoint.Options{
		Extension: extension, Receiver: component.MustNewID("k8s_watchlist"), Interval: time.Second, MaxChanges: 1000,
		Cluster: func() checkpoint.Cluster { return checkpoint.Cluster{UID: "cluster"} },
		Report:  report, Logger: zap.NewNop(),
	})
	keeper.Start()
	return keeper
}
