package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
)

// Etcd is a direct client of the cluster's etcd.
type Etcd struct {
	client *clientv3.Client
}

// ConnectEtcd connects to the cluster's etcd until the test ends.
func ConnectEtcd(t testing.TB, c *Cluster) *Etcd {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{c.EtcdEndpoint()}, DialTimeout: startTimeout, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatalf("cannot connect to etcd: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() }) // its error is only that its context has ended
	return &Etcd{client: client}
}

// Compact discards all history.
func (e *Etcd) Compact(t testing.TB) {
	t.Helper()
	e.compact(t, e.Revision(t))
}

// CompactBehind discards all history up to now once the watches have read it; otherwise it would cut them off.
func (e *Etcd) CompactBehind(t testing.TB, watches ...*Truth) {
	t.Helper()
	now := e.Revision(t)
	for _, truth := range watches {
		truth.awaitRevision(t, now, time.Minute)
	}
	e.compact(t, now)
}

// Revision returns the revision of the last change.
func (e *Etcd) Revision(t testing.TB) int64 {
	t.Helper()
	now, err := e.client.Get(t.Context(), "/", clientv3.WithCountOnly())
	if err != nil {
		t.Fatalf("cannot ask etcd for its revision: %v", err)
	}
	return now.Header.Revision
}

func (e *Etcd) compact(t testing.TB, revision int64) {
	t.Helper()
	_, err := e.client.Compact(t.Context(), revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) { // nothing has changed since the last time
		t.Fatalf("cannot compact etcd: %v", err)
	}
}

// Event is a change in etcd. A change of an object at revision N, even a deletion, is a watch event whose object has
// the resourceVersion N.
type Event struct {
	Revision int64
	Type     string // as in k8s.change.type
	UID      string
	Key      string
	Content  string // equal in two versions of an object that differ in nothing that counts; "" of a deletion
}

// Truth is every change of a resource's objects, as reported by etcd.
type Truth struct {
	changes
	client *clientv3.Client
	prefix string
	ctx    context.Context // of the watch; progress requests must use the same one
	cancel context.CancelFunc
	ended  chan struct{}                           // closed when the watch is no longer followed
	each   func(Event, *unstructured.Unstructured) // see Follow

	mu       sync.Mutex
	events   []Event
	present  []Event           // objects that existed when the watch began, as if they had just been modified
	uids     map[string]string // of existing objects, by key
	revision int64             // everything up to it is known
	err      error
}

// Watch begins to follow the objects under a key prefix, such as /registry/pods/, until the test ends. It begins at
// once: changes after Watch has returned are seen.
func (e *Etcd) Watch(t testing.TB, prefix string) *Truth {
	t.Helper()
	return e.Follow(t, prefix, nil)
}

// Follow is Watch that also calls a function with every object as it was stored, in order, and with the objects that exist when
// the watch begins or goes on. nil: nobody needs them.
func (e *Etcd) Follow(t testing.TB, prefix string, each func(Event, *unstructured.Unstructured)) *Truth {
	t.Helper()
	truth := &Truth{client: e.client, prefix: prefix, each: each}
	truth.Resume(t)
	t.Cleanup(truth.Suspend)
	return truth
}

// Suspend stops following while etcd is replaced with an older copy.
func (truth *Truth) Suspend() {
	truth.cancel()
	<-truth.ended
}

// Resume follows changes again from now on. Existing objects are read, but without events.
func (truth *Truth) Resume(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	now, err := truth.client.Get(ctx, truth.prefix, clientv3.WithPrefix())
	if err != nil {
		cancel()
		t.Fatalf("cannot read %s from etcd: %v", truth.prefix, err)
	}
	uids := map[string]string{}
	var present []Event
	for _, kv := range now.Kvs {
		event := Event{Revision: kv.ModRevision, Type: "MODIFIED", Key: string(kv.Key)}
		if err := truth.decode(&event, kv.Value); err != nil {
			cancel()
			t.Fatalf("cannot decode %s: %v", kv.Key, err)
		}
		uids[event.Key] = event.UID
		present = append(present, event)
	}
	truth.mu.Lock()
	truth.present = append(truth.present, present...)
	truth.uids, truth.revision = uids, now.Header.Revision
	truth.mu.Unlock()
	truth.ctx, truth.cancel, truth.ended = ctx, cancel, make(chan struct{})
	watch := truth.client.Watch(ctx, truth.prefix, clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1))
	go func() {
		defer close(truth.ended)
		for response := range watch {
			if ctx.Err() == nil {
				truth.take(response)
			}
		}
	}()
}

// Await waits until everything up to a revision is known.
func (truth *Truth) Await(t testing.TB, revision int64) {
	t.Helper()
	truth.awaitRevision(t, revision, time.Minute)
}

func (truth *Truth) take(response clientv3.WatchResponse) {
	truth.mu.Lock()
	defer truth.mu.Unlock()
	defer truth.happened()
	if truth.err = response.Err(); truth.err != nil {
		return
	}
	for _, change := range response.Events {
		event := Event{Revision: change.Kv.ModRevision, Key: string(change.Kv.Key), Type: "MODIFIED"}
		if change.Type == clientv3.EventTypeDelete {
			event.Type, event.UID = "DELETED", truth.uids[event.Key]
			delete(truth.uids, event.Key)
		} else {
			if change.IsCreate() {
				event.Type = "ADDED"
			}
			if truth.err = truth.decode(&event, change.Kv.Value); truth.err != nil {
				return
			}
			truth.uids[event.Key] = event.UID
		}
		truth.events = append(truth.events, event)
	}
	if response.IsProgressNotify() {
		truth.revision = response.Header.Revision
	}
}

// decode takes over the object that was stored.
func (truth *Truth) decode(e *Event, stored []byte) error {
	object, err := decodeStored(stored)
	if err != nil {
		return err
	}
	e.UID = string(object.GetUID())
	if truth.each != nil {
		truth.each(*e, object)
	}
	e.Content, err = contentOf(e.Key, object)
	return err
}

// awaitRevision waits until everything up to a revision is known.
func (truth *Truth) awaitRevision(t testing.TB, revision int64, within time.Duration) {
	t.Helper()
	Poll(t, within, fmt.Sprintf("etcd to report everything up to %d", revision), func() string {
		// A watch reports its progress only on request.
		if err := truth.client.RequestProgress(truth.ctx); err != nil {
			t.Fatalf("cannot ask etcd for progress: %v", err)
		}
		truth.mu.Lock()
		defer truth.mu.Unlock()
		if truth.err != nil {
			t.Fatalf("the watch of etcd failed: %v", truth.err)
		}
		if truth.revision < revision {
			return fmt.Sprintf("it has reached %d", truth.revision)
		}
		return ""
	})
}

// Between waits until etcd has reported everything up to the resourceVersion to, and returns the events after from and
// up to it.
func (truth *Truth) Between(t testing.TB, from, to string) []Event {
	t.Helper()
	first, last := revision(t, from), revision(t, to)
	truth.awaitRevision(t, last, 30*time.Second)
	truth.mu.Lock()
	defer truth.mu.Unlock()
	var events []Event
	for _, event := range truth.events {
		if event.Revision > first && event.Revision <= last {
			events = append(events, event)
		}
	}
	return events
}

// Contents returns the contents of all versions so far, including those of the objects that existed when the watch began.
func (truth *Truth) Contents() Contents {
	truth.mu.Lock()
	defer truth.mu.Unlock()
	return ContentsOf(slices.Concat(truth.present, truth.events))
}

// All returns the events so far.
func (truth *Truth) All() []Event {
	truth.mu.Lock()
	defer truth.mu.Unlock()
	return truth.events[:len(truth.events):len(truth.events)]
}

// NotEmitted returns the events without a record that has the same UID, resourceVersion and type.
func NotEmitted(events []Event, records []fold.Record) []string {
	emitted := map[Event]bool{}
	for _, record := range records {
		if n, err := strconv.ParseInt(record.ResourceVersion, 10, 64); err == nil {
			emitted[Event{Revision: n, Type: record.Type, UID: record.UID}] = true
		}
	}
	var missing []string
	for _, event := range events {
		if !emitted[Event{Revision: event.Revision, Type: event.Type, UID: event.UID}] {
			missing = append(missing, fmt.Sprintf("%s %s@%d uid=%s", event.Type, strings.TrimPrefix(event.Key, "/registry/"), event.Revision, event.UID))
		}
	}
	return missing
}

// NotHappened returns the records of live origin, up to a resourceVersion, without an event in etcd.
func NotHappened(t testing.TB, events []Event, records []fold.Record, to string) []string {
	t.Helper()
	known := map[Event]bool{}
	for _, event := range events {
		event.Key, event.Content = "", ""
		known[event] = true
	}
	last := revision(t, to)
	var invented []string
	for _, record := range records {
		n := revision(t, record.ResourceVersion)
		if record.Origin == "live" && n <= last && !known[Event{Revision: n, Type: record.Type, UID: record.UID}] {
			invented = append(invented, record.String())
		}
	}
	return invented
}

func revision(t testing.TB, rv string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		t.Fatalf("resourceVersion %q is no etcd revision: %v", rv, err)
	}
	return n
}
