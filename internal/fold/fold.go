// Package fold is the oracle of the tests: it applies change records as a consumer would, so that the resulting state
// can be compared with what an API server holds.
package fold

import (
	"fmt"
	"sort"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Record is the part of an object's change record that the oracle needs. In the record of an Event the object is the
// Event, not the object that the Event is about.
type Record struct {
	UID             string
	Resource        string // plural, with the group after a dot if there is one
	Namespace, Name string
	ResourceVersion string
	Type            string // SNAPSHOT, ADDED, MODIFIED, DELETED
	Origin          string
	Inferred        bool
}

func (r Record) String() string {
	s := fmt.Sprintf("%s %s %s/%s@%s uid=%s", r.Type, r.Origin, r.Namespace, r.Name, r.ResourceVersion, r.UID)
	if r.Inferred {
		s += " inferred"
	}
	return s
}

// FromLogs returns the change records of objects in logs, in order, without gaps and snapshot frames.
func FromLogs(logs plog.Logs) []Record {
	var records []Record
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				if r, ok := FromRecord(record); ok {
					records = append(records, r)
				}
			}
		}
	}
	return records
}

// FromRecord returns false for a record that is not of an object.
func FromRecord(record plog.LogRecord) (Record, bool) {
	attribute := func(key string) string { return text(record, key) }
	if attribute("k8s.change.type") == "" {
		return Record{}, false
	}
	r := Record{
		UID:             attribute("k8s.object.uid"),
		Resource:        Resource(record),
		Namespace:       attribute("k8s.namespace.name"),
		Name:            attribute("k8s.object.name"),
		ResourceVersion: attribute("k8s.object.resource_version"),
		Type:            attribute("k8s.change.type"),
		Origin:          attribute("k8s.change.origin"),
		Inferred:        attribute("k8s.change.inferred") == "true",
	}
	if uid := attribute("k8s.event.uid"); uid != "" {
		r.UID, r.Name, r.ResourceVersion = uid, attribute("k8s.event.name"), attribute("k8s.event.resource_version")
	}
	return r, true
}

// Resource returns the resource of any record as name and group: "pods", "deployments.apps".
func Resource(record plog.LogRecord) string {
	name := text(record, "k8s.resource.name")
	if group := text(record, "k8s.resource.group"); group != "" {
		name += "." + group
	}
	return name
}

func text(record plog.LogRecord, key string) string {
	v, ok := record.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// State is the state of a consumer: by UID, the resourceVersion of the last record. If changes that change nothing are
// suppressed, the object itself may be at a later version.
type State map[string]string

// Fold applies the records in order: upsert by UID, remove on DELETED. The UID is k8s.event.uid where there is one, and else
// k8s.object.uid.
func Fold(records []Record) State {
	state := State{}
	for _, r := range records {
		if r.Type == "DELETED" {
			delete(state, r.UID)
			continue
		}
		state[r.UID] = r.ResourceVersion
	}
	return state
}

// Differences returns how the state differs from what the server lists; nothing if they are equal.
func (s State) Differences(listed State) []string { return s.DifferencesBut(listed, nil) }

// Same reports whether an object has the same content in two versions, except for what is ignored. It must not rely on
// the receiver.
type Same func(uid, one, other string) bool

// DifferencesBut is Differences by content: an object may be listed at a later version than the one in the state if both
// have the same content, since changes that change nothing are suppressed. With nil, versions have to be equal.
func (s State) DifferencesBut(listed State, same Same) []string {
	var found []string
	for uid, rv := range listed {
		switch believed, ok := s[uid]; {
		case !ok:
			found = append(found, fmt.Sprintf("%s@%s exists and was not emitted", uid, rv))
		case believed == rv:
		case same != nil && isOlder(believed, rv) && same(uid, believed, rv):
		default:
			found = append(found, fmt.Sprintf("%s is at %s but was emitted at %s", uid, rv, believed))
		}
	}
	for uid, rv := range s {
		if _, ok := listed[uid]; !ok {
			found = append(found, fmt.Sprintf("%s@%s is gone but its deletion was not emitted", uid, rv))
		}
	}
	sort.Strings(found)
	return found
}

func isOlder(rv, than string) bool {
	order, err := resourceversion.CompareResourceVersion(rv, than)
	return err == nil && order < 0
}

// Duplicates returns the records that came more than once with the same (UID, resourceVersion, type). SNAPSHOT records
// of a relist repeat by design, and so do records of objects that enter and leave a selection with their namespace; these do
// not count.
func Duplicates(records []Record) []string {
	seen := map[string]int{}
	for _, r := range records {
		// Without versions, an object may change twice.
		if (r.Type != "SNAPSHOT" || r.Origin != "relist") && r.Origin != "selected" && r.ResourceVersion != "" {
			seen[strings.Join([]string{r.UID, r.ResourceVersion, r.Type}, " ")]++
		}
	}
	var found []string
	for key, n := range seen {
		if n > 1 {
			found = append(found, fmt.Sprintf("%d times: %s", n, key))
		}
	}
	sort.Strings(found)
	return found
}

// Disorder returns the records of an object that came after one with a later resourceVersion. A deletion may: some
// servers send it with an earlier version of the object (https://github.com/kubernetes/kubernetes/issues/63356). So may an
// object that enters the selection again with its namespace.
func Disorder(records []Record) []string {
	latest := map[string]Record{}
	var found []string
	for _, r := range records {
		if before, ok := latest[r.UID]; ok && r.Type != "DELETED" && r.Origin != "selected" {
			if order, err := resourceversion.CompareResourceVersion(before.ResourceVersion, r.ResourceVersion); err == nil && order > 0 {
				found = append(found, fmt.Sprintf("%s came after %s", r, before))
			}
		}
		latest[r.UID] = r
	}
	return found
}
