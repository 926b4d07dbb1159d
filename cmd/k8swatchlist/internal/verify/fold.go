// Package verify folds emitted records and compares the result with the objects of a live cluster, to test the
// receiver's promises from the outside.
package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// Kinds of findings.
const (
	Missing    = "missing"    // exists, but no record of it, or the last one is its deletion
	Stale      = "stale"      // exists in another version than that of its last record
	Extra      = "extra"      // does not exist, but its last record is not its deletion
	Duplicate  = "duplicate"  // a change was emitted twice
	Disorder   = "disorder"   // an older version came after a newer one
	Altered    = "altered"    // a record contradicts itself
	Incomplete = "incomplete" // a set of snapshots has fewer or more records than its end states
	Unreadable = "unreadable" // a line is not OTLP/JSON
)

// Kinds lists the kinds of findings in the order in which they are shown.
var Kinds = []string{Missing, Stale, Extra, Duplicate, Disorder, Altered, Incomplete, Unreadable}

// Place is a line of a file.
type Place struct {
	Path   string
	Line   int
	Offset int64 // of the line's first byte
}

func (p Place) String() string {
	if p.Path == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.Path, p.Line)
}

// Finding is something that should not be so.
type Finding struct {
	Kind      string `json:"kind"`
	Resource  string `json:"resource,omitempty"` // plural, with the group after a dot if there is one
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	Detail    string `json:"detail"`
	Place     string `json:"place,omitempty"` // file and line of the record
}

// Gap is a gap record: the receiver's own statement that it could not observe every change.
type Gap struct {
	Resource string `json:"resource"`
	Reason   string `json:"reason"`
	From     string `json:"from_resource_version,omitempty"`
	To       string `json:"to_resource_version,omitempty"`
	Place    string `json:"place"`
}

// Scope is what one reader of the receiver reads, as its records of gaps and sets state.
type Scope struct {
	Resource      string
	Namespace     string // "" is all
	Among         string // the text of the selected namespaces; "" is all
	LabelSelector string
	FieldSelector string
	Shard         shard.Shard // the zero value is everything
}

// Object is the last state of an object according to the records.
type Object struct {
	fold.Record
	Deleted bool
	Place   Place
}

// Fold applies records in their order.
type Fold struct {
	Objects  map[string]Object // by UID
	Scopes   map[Scope]bool    // whether a complete set of snapshots of the scope was read
	Records  map[string]int    // of objects, by resource
	Gaps     []Gap
	Findings []Finding
	Clusters map[string]int // records by k8s.cluster.uid

	cluster string // records of other clusters are left out
	seen    map[[16]byte]Place
	sets    map[string]*set // by epoch
}

// set is a set of snapshots that has begun.
type set struct {
	scope Scope
	count int64
}

// NewFold returns the state before the first record. Records of other clusters than the one with the UID are only
// counted.
func NewFold(cluster string) *Fold {
	return &Fold{
		Objects:  make(map[string]Object),
		Scopes:   make(map[Scope]bool),
		Records:  make(map[string]int),
		Clusters: make(map[string]int),
		cluster:  cluster,
		seen:     make(map[[16]byte]Place),
		sets:     make(map[string]*set),
	}
}

// AddLine applies a line of OTLP/JSON, as the Collector's file exporter writes it. Place names the line in findings.
func (f *Fold) AddLine(line []byte, place Place) {
	logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
	if err != nil {
		f.find(Finding{Kind: Unreadable, Detail: err.Error(), Place: place.String()})
		return
	}
	for _, resource := range logs.ResourceLogs().All() {
		cluster := text(resource.Resource().Attributes(), "k8s.cluster.uid")
		for _, scope := range resource.ScopeLogs().All() {
			for _, r := range scope.LogRecords().All() {
				f.add(r, cluster, place)
			}
		}
	}
}

func (f *Fold) add(r plog.LogRecord, cluster string, place Place) {
	object, isObject := fold.FromRecord(r)
	if !isObject && !strings.HasPrefix(r.EventName(), "k8s.") {
		return // of something else
	}
	f.Clusters[cluster]++
	switch {
	case f.cluster != "" && cluster != "" && cluster != f.cluster:
	case isObject:
		f.Records[object.Resource]++
		f.addObject(r, object, cluster, place)
	case r.EventName() == "k8s.watch.gap":
		f.addScope(r)
		a := r.Attributes()
		f.Gaps = append(f.Gaps, Gap{
			Resource: fold.Resource(r), Reason: text(a, "k8s.gap.reason"),
			From: text(a, "k8s.gap.from_resource_version"), To: text(a, "k8s.gap.to_resource_version"), Place: place.String(),
		})
	case r.EventName() == "k8s.snapshot.begin":
		f.sets[text(r.Attributes(), "k8s.snapshot.epoch")] = &set{scope: f.addScope(r)}
	case r.EventName() == "k8s.snapshot.end":
		f.endSet(r, place)
	}
}

// addScope notes the scope of a record about a reader.
func (f *Fold) addScope(r plog.LogRecord) Scope {
	a := r.Attributes()
	s := Scope{
		Resource:      fold.Resource(r),
		Namespace:     text(a, "k8s.namespace.name"),
		Among:         text(a, "k8s.resource.namespaces"),
		LabelSelector: text(a, "k8s.resource.label_selector"),
		FieldSelector: text(a, "k8s.resource.field_selector"),
	}
	if total, ok := a.Get("k8s.watchlist.shard.total"); ok {
		index, _ := a.Get("k8s.watchlist.shard.index")
		s.Shard = shard.Shard{Index: int(index.Int()), Total: int(total.Int())}
		if s.Shard.Index < 0 || s.Shard.Index >= s.Shard.Total {
			s.Shard = shard.Shard{} // not the receiver's
		} else if text(a, "k8s.watchlist.shard.by") == shard.Namespace.String() {
			s.Shard.By = shard.Namespace
		}
	}
	if text(a, "k8s.gap.reason") == "undecodable" && text(a, "k8s.object.name")+text(a, "k8s.event.name") != "" {
		return s // the namespace is that of an object
	}
	if _, known := f.Scopes[s]; !known {
		f.Scopes[s] = false
	}
	return s
}

func (f *Fold) endSet(r plog.LogRecord, place Place) {
	a := r.Attributes()
	epoch := text(a, "k8s.snapshot.epoch")
	begun := f.sets[epoch]
	if begun == nil {
		return // it began before the records that were read
	}
	delete(f.sets, epoch)
	f.Scopes[begun.scope] = true
	if want, ok := a.Get("k8s.snapshot.objects"); ok && want.Int() != begun.count {
		f.find(Finding{Kind: Incomplete, Resource: begun.scope.Resource, Namespace: begun.scope.Namespace, Place: place.String(),
			Detail: fmt.Sprintf("the set of snapshots %s has %d records, but its end states %d", epoch, begun.count, want.Int())})
	}
}

func (f *Fold) addObject(r plog.LogRecord, object fold.Record, cluster string, place Place) {
	epoch := text(r.Attributes(), "k8s.snapshot.epoch")
	if s := f.sets[epoch]; s != nil && epoch != "" {
		s.count++
	}
	f.checkItself(r, object, cluster, place)
	if f.repeats(object, epoch, place) {
		return
	}
	before, known := f.Objects[object.UID]
	if known && object.Type != "DELETED" && older(object.ResourceVersion, before.ResourceVersion) {
		f.find(of(object, Disorder, place, fmt.Sprintf("%s at version %s came after version %s in %s", object.Type, object.ResourceVersion, before.ResourceVersion, before.Place)))
	}
	f.Objects[object.UID] = Object{Record: object, Deleted: object.Type == "DELETED", Place: place}
}

// repeats reports whether the same change was read before. An object may be in any number of sets of snapshots. Without
// versions it may change twice.
func (f *Fold) repeats(object fold.Record, epoch string, place Place) bool {
	if object.ResourceVersion == "" {
		return false
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{object.UID, object.ResourceVersion, object.Type, epoch}, "\n")))
	key := [16]byte(sum[:16])
	first, repeated := f.seen[key]
	if !repeated {
		f.seen[key] = place
		return false
	}
	f.find(of(object, Duplicate, place, fmt.Sprintf("%s at version %s is already in %s", object.Type, object.ResourceVersion, first)))
	return true
}

// checkItself compares the parts of a record that have to agree: its identity, its id, and its object.
func (f *Fold) checkItself(r plog.LogRecord, object fold.Record, cluster string, place Place) {
	a := r.Attributes()
	if id := text(a, "k8s.change.id"); id != "" && object.UID != "" && object.ResourceVersion != "" {
		if changeID(cluster, object) != id {
			f.find(of(object, Altered, place, "k8s.change.id does not match the UID, version and type of the record"))
			return
		}
	}
	metadata, ok := metadataIn(objectIn(r))
	if !ok {
		return
	}
	for _, part := range []struct{ key, want, got string }{
		{"uid", object.UID, metadata.UID}, {"name", object.Name, metadata.Name}, {"resourceVersion", object.ResourceVersion, metadata.ResourceVersion},
	} {
		if part.got == "" || part.got == part.want {
			continue
		}
		// A deletion may have the object as it was before: some servers send that, and it is the last known state in one that
		// was inferred, whose version is that of the snapshot.
		if part.key == "resourceVersion" && object.Type == "DELETED" && !older(part.want, part.got) {
			continue
		}
		f.find(of(object, Altered, place, fmt.Sprintf("metadata.%s of the object in the record is %q", part.key, part.got)))
		return
	}
}

// changeID is the id of a change of an object with a UID and a version, according to docs/records.md.
func changeID(cluster string, object fold.Record) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{cluster, object.UID, object.ResourceVersion, object.Type}, "\n")))
	return hex.EncodeToString(sum[:16])
}

func (f *Fold) find(finding Finding) { f.Findings = append(f.Findings, finding) }

func of(object fold.Record, kind string, place Place, detail string) Finding {
	return Finding{Kind: kind, Resource: object.Resource, Namespace: object.Namespace, Name: object.Name, UID: object.UID, Detail: detail, Place: place.String()}
}

func text(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// older reports whether a version is certainly older than another.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
