package record

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

func TestTimestamp(t *testing.T) {
	future := read.Add(30 * time.Second)
	selected := &scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}, LabelSelector: "team=web"}
	for _, tt := range []struct {
		name     string
		resource *scope.Scope
		of       watchlist.Type
		times    redact.Times
		want     time.Time
	}{
		{"added", pods, watchlist.Added, redact.Times{Created: created, Updated: updated}, created},
		{"added by a clock ahead of ours", pods, watchlist.Added, redact.Times{Created: future}, read},
		{"added, time unknown", pods, watchlist.Added, redact.Times{}, read},
		{"entered the selection", selected, watchlist.Added, redact.Times{Created: created, Updated: updated}, updated},
		{"entered the selection, no managedFields", selected, watchlist.Added, redact.Times{Created: created}, created},
		{"snapshot", pods, watchlist.Snapshot, redact.Times{Created: created, Updated: updated}, updated},
		{"snapshot without managedFields", pods, watchlist.Snapshot, redact.Times{Created: created}, created},
		{"snapshot, marked for deletion", pods, watchlist.Snapshot, redact.Times{Created: created, Updated: updated, Deleted: marked}, marked},
		{"snapshot, time unknown", pods, watchlist.Snapshot, redact.Times{}, read},
		{"modified", pods, watchlist.Modified, redact.Times{Created: created, Updated: updated}, updated},
		{"modified without managedFields", pods, watchlist.Modified, redact.Times{Created: created}, read},
		{"marked for deletion in the future", pods, watchlist.Modified, redact.Times{Created: created, Updated: updated, Deleted: future}, read},
		{"modified while it waits for a finalizer", pods, watchlist.Modified, redact.Times{Created: created, Updated: marked, Deleted: updated}, marked},
		{"deleted", pods, watchlist.Deleted, redact.Times{Created: created, Updated: updated, Deleted: marked}, marked},
		{"deleted before its grace period was over", pods, watchlist.Deleted, redact.Times{Created: created, Updated: updated, Deleted: future}, read},
		{"deleted without being marked", pods, watchlist.Deleted, redact.Times{Created: created, Updated: updated}, read},
		{"deleted after its finalizers", pods, watchlist.Deleted, redact.Times{Created: created, Updated: marked, Deleted: updated}, marked},
		{"event", events, watchlist.Modified, redact.Times{Created: created, Updated: marked, Observed: updated}, updated},
		{"event, deleted", events2, watchlist.Deleted, redact.Times{Created: created, Observed: updated}, updated},
		{"event without times", events, watchlist.Added, redact.Times{Created: created}, created},
		{"event, observed by a clock ahead of ours", events, watchlist.Added, redact.Times{Observed: future}, read},
		{"event observed before 1970", events, watchlist.Added, redact.Times{Created: created, Observed: time.Unix(-1, 0)}, created},
		{"event of the year 1", events, watchlist.Modified, redact.Times{Created: time.Time{}.Add(time.Hour), Observed: time.Time{}.Add(time.Hour)}, read},
		{"created before 1970", pods, watchlist.Added, redact.Times{Created: time.Date(1969, 7, 20, 0, 0, 0, 0, time.UTC)}, read},
		{"observed times count only for events", pods, watchlist.Added, redact.Times{Created: created, Observed: updated}, created},
	} {
		t.Run(tt.name, func(t *testing.T) {
			record := build(t, Options{}, watchlist.Change{Scope: tt.resource, Type: tt.of, ReadAt: read,
				Object: redact.Object{Times: tt.times}})[0]
			if got := record.Timestamp().AsTime(); !got.Equal(tt.want) {
				t.Errorf("timestamp is %v, want %v", got, tt.want)
			}
			if got := record.ObservedTimestamp().AsTime(); !got.Equal(read) {
				t.Errorf("observed timestamp is %v", got)
			}
		})
	}
}

// A change that left no time in the object, such as a scaling, has the time of reading, not that of an earlier change.
func TestTimestampOfAnUndatedChange(t *testing.T) {
	for undated, want := range map[bool]time.Time{true: read, false: updated} {
		record := build(t, Options{}, watchlist.Change{Scope: pods, Type: watchlist.Modified, ReadAt: read, Undated: undated,
			Object: redact.Object{Times: redact.Times{Created: created, Updated: updated}}})[0]
		if got := record.Timestamp().AsTime(); !got.Equal(want) {
			t.Errorf("the timestamp is %v, want %v", got, want)
		}
	}
}

func TestNoTimestampWithoutATime(t *testing.T) {
	record := build(t, Options{}, watchlist.Change{Scope: pods, Type: watchlist.Modified})[0]
	if record.Timestamp() != 0 || record.ObservedTimestamp() != 0 {
		t.Errorf("timestamps are %v and %v", record.Timestamp(), record.ObservedTimestamp())
	}
}
