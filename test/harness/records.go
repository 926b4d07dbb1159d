package harness

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
)

// Record is one log record: of an object, or of the stream (a gap, the begin or end of a snapshot).
type Record struct {
	Event    string
	Resource string // plural, with the group after a dot if there is one

	Object *fold.Record   // nil in records of the stream
	Stream map[string]any // the attributes of records of the stream
}

// Records holds log records in their order of arrival. It may grow while it is read.
type Records struct {
	changes

	mu  sync.Mutex
	all []Record
}

// Add appends delivered records.
func (r *Records) Add(logs plog.Logs) {
	r.mu.Lock()
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				r.all = append(r.all, newRecord(record))
			}
		}
	}
	r.mu.Unlock()
	r.happened()
}

func newRecord(record plog.LogRecord) Record {
	n := Record{Event: record.EventName()}
	if object, ok := fold.FromRecord(record); ok {
		n.Object, n.Resource = &object, object.Resource
		return n
	}
	n.Stream = record.Attributes().AsRaw()
	n.Resource = fold.Resource(record)
	return n
}

func (r Record) text(key string) string {
	s, _ := r.Stream[key].(string)
	return s
}

func (r Record) String() string {
	if r.Object != nil {
		return r.Resource + " " + r.Object.String()
	}
	return fmt.Sprintf("%s %s %v", r.Resource, r.Event, r.Stream)
}

// All returns the records so far.
func (r *Records) All() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[:len(r.all):len(r.all)]
}

// Len returns the number of records so far, as a mark for After.
func (r *Records) Len() int { return len(r.All()) }

// After returns the records after the mark.
func (r *Records) After(mark int) []Record { return r.All()[mark:] }

// Objects returns the records of objects of the resource.
func Objects(records []Record, resource string) []fold.Record {
	var objects []fold.Record
	for _, record := range records {
		if record.Object != nil && record.Resource == resource {
			objects = append(objects, *record.Object)
		}
	}
	return objects
}

// OfStream returns the records of the resource's stream with the event name.
func OfStream(records []Record, resource, event string) []Record {
	var found []Record
	for _, record := range records {
		if record.Object == nil && record.Resource == resource && record.Event == event {
			found = append(found, record)
		}
	}
	return found
}

// Await waits until nothing is missing from the records.
func (r *Records) Await(t testing.TB, within time.Duration, what string, missing func([]Record) string) {
	t.Helper()
	r.await(t, within, what, func() string { return missing(r.All()) })
}

// AwaitSnapshot waits for the first end of a snapshot of the resource and returns the snapshot's resourceVersion.
func (r *Records) AwaitSnapshot(t testing.TB, resource string, within time.Duration) string {
	t.Helper()
	var rv string
	r.Await(t, within, "the end of the first snapshot of "+resource, func(records []Record) string {
		ends := OfStream(records, resource, "k8s.snapshot.end")
		if len(ends) == 0 {
			return fmt.Sprintf("%d records of objects have arrived", len(Objects(records, resource)))
		}
		rv = ends[0].text("k8s.snapshot.resource_version")
		return ""
	})
	return rv
}

// AwaitFold waits until the fold of the records equals what the API server listed.
func (r *Records) AwaitFold(t testing.TB, resource string, listed fold.State, within time.Duration) {
	t.Helper()
	r.Await(t, within, "the fold of "+resource+" to equal the LIST", func(records []Record) string {
		return some(fold.Fold(Objects(records, resource)).Differences(listed))
	})
}

// AwaitObject waits for a record of the object of that name, and returns it.
func (r *Records) AwaitObject(t testing.TB, resource, name, changeType string, within time.Duration) fold.Record {
	t.Helper()
	var found fold.Record
	r.Await(t, within, fmt.Sprintf("%s %s to be %s", resource, name, changeType), func(records []Record) string {
		for _, object := range Objects(records, resource) {
			if object.Name == name && object.Type == changeType {
				found = object
				return ""
			}
		}
		return fmt.Sprintf("%d records have arrived", len(records))
	})
	return found
}

// some returns the first few of many findings in one line; "" if there are none.
func some(findings []string) string {
	if len(findings) == 0 {
		return ""
	}
	return fmt.Sprintf("%d: %s", len(findings), strings.Join(findings[:min(len(findings), 5)], "; "))
}
