package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Values of body.
const (
	bodyMap     = "map"
	bodyJSON    = "json"
	bodySummary = "summary"
	bodyNone    = "none"
)

var bodyModes = map[string]record.BodyMode{
	bodyMap: record.BodyMap, bodyJSON: record.BodyJSON, bodySummary: record.BodySummary, bodyNone: record.BodyNone,
}

// Values of object_attribute.
const (
	objectNone = "none"
	objectJSON = "json"
	objectMap  = "map"
)

var objectModes = map[string]record.ObjectMode{
	objectNone: record.ObjectNone, objectJSON: record.ObjectJSON, objectMap: record.ObjectMap,
}

// Values of resource_grouping.
const (
	groupCluster   = "cluster"
	groupNamespace = "namespace"
	groupObject    = "object"
)

var groupings = map[string]record.Grouping{
	groupCluster: record.ByCluster, groupNamespace: record.ByNamespace, groupObject: record.ByObject,
}

const (
	defaultMaxRecordBytes = 1 << 20
	// minMaxRecordBytes is about the size of the attributes of a record, which are never cut.
	minMaxRecordBytes = 1 << 10
)

// changeTypes are the names of the types that exclude_types may have, in the order of the documentation.
var changeTypes = []struct {
	name string
	of   watchlist.Type
}{
	{"SNAPSHOT", watchlist.Snapshot}, {"ADDED", watchlist.Added}, {"MODIFIED", watchlist.Modified}, {"DELETED", watchlist.Deleted},
}

const changeTypeNames = "SNAPSHOT, ADDED, MODIFIED, DELETED"

func changeType(name string) (watchlist.Type, bool) {
	for _, t := range changeTypes {
		if t.name == name {
			return t.of, true
		}
	}
	return 0, false
}

// excludedTypeName returns the name of a type in the metric of excluded changes.
func excludedTypeName(of watchlist.Type) string {
	for _, t := range changeTypes {
		if t.of == of {
			return t.name
		}
	}
	if of == watchlist.SnapshotBegin {
		return "SNAPSHOT_BEGIN"
	}
	return "SNAPSHOT_END"
}

// recordOptions configure the records, but for what is learned at Start.
func (c *Config) recordOptions() record.Options {
	return record.Options{
		ClusterName: c.ClusterName,
		Body:        bodyModes[c.Body],
		Object:      objectModes[c.ObjectAttribute],
		Grouping:    groupings[c.ResourceGrouping],
		Resource:    c.ResourceAttributes,
		EventBody:   c.Events.recordBody(),
		MaxBytes:    c.MaxRecordBytes,
		PodIP:       c.PodIP,
		Entities:    c.Entities.Enabled,

		FormatOf:      c.recordFormats(),
		StreamRecords: c.StreamRecords,
	}
}

// fields returns which parts of the objects of a scope are kept.
func (c *Config) fields(of scope.Scope) redact.Fields {
	if entry := c.entryOf(of); entry != nil {
		return redact.Fields{Drop: entry.DropFields, Keep: entry.KeepFields}
	}
	return redact.Fields{}
}

// FieldsOf returns which parts of the objects of a resource in a namespace, "" for those without one, are emitted: one answer
// for each entry that may read them.
func (c *Config) FieldsOf(resource schema.GroupResource, namespace string) []redact.Fields {
	var fields []redact.Fields
	for _, spec := range c.Specs() {
		for _, read := range []string{"", namespace} {
			entry := c.entryOf(scope.New(resource, read, spec.LabelSelector, spec.FieldSelector))
			if entry == nil {
				continue
			}
			f := redact.Fields{Drop: entry.DropFields, Keep: entry.KeepFields}
			if !slices.ContainsFunc(fields, func(other redact.Fields) bool { return reflect.DeepEqual(f, other) }) {
				fields = append(fields, f)
			}
		}
	}
	return fields
}

// excludedTypes returns the types of changes of a scope that do not become records.
func (c *Config) excludedTypes(of scope.Scope) watchlist.TypeSet {
	names := c.ExcludeTypes
	if entry := c.entryOf(of); entry != nil {
		names = append(slices.Clone(names), entry.ExcludeTypes...)
	}
	var excluded watchlist.TypeSet
	for _, name := range names {
		if t, ok := changeType(name); ok {
			excluded = excluded.With(t)
		}
	}
	return excluded
}

// validateRecords checks what records are made of.
func (c *Config) validateRecords() []error {
	var errs []error
	if _, ok := bodyModes[c.Body]; !ok {
		errs = append(errs, fmt.Errorf("body: %q is not one of map, json, summary, none", c.Body))
	}
	if _, ok := objectModes[c.ObjectAttribute]; !ok {
		errs = append(errs, fmt.Errorf("object_attribute: %q is not one of none, json, map", c.ObjectAttribute))
	} else if c.ObjectAttribute != objectNone && (c.Body == bodyMap || c.Body == bodyJSON) {
		errs = append(errs, errors.New("object_attribute: is used only if the body is not the object; write body: summary or body: none, or leave object_attribute out"))
	}
	switch {
	case c.MaxRecordBytes < 0:
		errs = append(errs, fmt.Errorf("max_record_bytes: %d is negative; write 0 for no limit (the default is %d)", c.MaxRecordBytes, defaultMaxRecordBytes))
	case c.MaxRecordBytes > 0 && c.MaxRecordBytes < minMaxRecordBytes:
		errs = append(errs, fmt.Errorf("max_record_bytes: %d is less than %d, which the attributes of a record may take; write 0 for no limit (the default is %d)",
			c.MaxRecordBytes, minMaxRecordBytes, defaultMaxRecordBytes))
	}
	errs = append(errs, checkTypes(c.ExcludeTypes)...)
	for i := range c.Resources {
		own := c.Resources[i].ExcludeTypes
		if !excludeAll(c.ExcludeTypes) && !excludeAll(own) && excludeAll(append(slices.Clone(own), c.ExcludeTypes...)) {
			errs = append(errs, fmt.Errorf("resources[%d].exclude_types: excludes every change, together with exclude_types of the receiver; leave a type out", i))
		}
	}
	if c.Events.Body == eventsObject && (c.Body == bodySummary || c.Body == bodyNone) {
		errs = append(errs, fmt.Errorf("events.body: object has no effect with body: %s; leave it out, and write object_attribute to have Events in an attribute", c.Body))
	}
	if c.Relist.Emit == emitSnapshot && slices.Contains(c.ExcludeTypes, "SNAPSHOT") {
		errs = append(errs, errors.New("exclude_types: without SNAPSHOT there is nothing that relist.emit: snapshot could emit; leave one of them out"))
	}
	if _, ok := groupings[c.ResourceGrouping]; !ok {
		errs = append(errs, fmt.Errorf("resource_grouping: %q is not one of cluster, namespace, object", c.ResourceGrouping))
	}
	return append(errs, c.validateResourceAttributes()...)
}

// validateRecords returns errors that begin with the key inside the entry.
func (r *ResourceConfig) validateRecords() []error {
	errs := checkTypes(r.ExcludeTypes)
	for _, list := range []struct {
		key   string
		paths []string
	}{{"drop_fields", r.DropFields}, {"keep_fields", r.KeepFields}} {
		for i, path := range list.paths {
			if err := redact.CheckPath(path); err != nil {
				errs = append(errs, fmt.Errorf("%s[%d]: %w", list.key, i, err))
			}
		}
	}
	for i, drop := range r.DropFields {
		for j, keep := range r.KeepFields {
			if keep == drop || strings.HasPrefix(keep, drop+".") {
				errs = append(errs, fmt.Errorf("keep_fields[%d]: %q is dropped by drop_fields[%d], %q; leave one of them out", j, keep, i, drop))
			}
		}
	}
	return errs
}

func checkTypes(names []string) []error {
	var errs []error
	for i, name := range names {
		upper := strings.ToUpper(name)
		_, known := changeType(name)
		_, meant := changeType(upper)
		switch {
		case known:
		case meant:
			errs = append(errs, fmt.Errorf("exclude_types[%d]: %q is not one of %s; write %s", i, name, changeTypeNames, upper))
		case upper == "BOOKMARK" || upper == "ERROR":
			errs = append(errs, fmt.Errorf("exclude_types[%d]: %s never becomes a record; leave it out", i, upper))
		case upper == "GAP":
			errs = append(errs, fmt.Errorf("exclude_types[%d]: gaps cannot be excluded, since nothing else shows that changes are missing", i))
		default:
			errs = append(errs, fmt.Errorf("exclude_types[%d]: %q is not one of %s", i, name, changeTypeNames))
		}
	}
	if excludeAll(names) {
		errs = append(errs, errors.New("exclude_types: excludes every change; leave a type out"))
	}
	return errs
}

// excludeAll reports whether no type of changes is left.
func excludeAll(names []string) bool {
	for _, t := range changeTypes {
		if !slices.Contains(names, t.name) {
			return false
		}
	}
	return true
}

// receiverAttributes are the resource attributes that the receiver sets, and what to do instead of setting them.
var receiverAttributes = map[string]string{
	"k8s.cluster.name":   "write cluster_name instead",
	"k8s.cluster.uid":    "it is read from the cluster",
	"k8s.namespace.name": "resource_grouping: namespace sets it",
	"k8s.redaction.key":  "the receiver sets it",
}

func (c *Config) validateResourceAttributes() []error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(c.ResourceAttributes)) {
		value := c.ResourceAttributes[key]
		instead, isOurs := receiverAttributes[key]
		switch {
		case key == "":
			errs = append(errs, errors.New("resource_attributes: has an empty key"))
			continue
		case isOurs:
			errs = append(errs, fmt.Errorf("resource_attributes: %s cannot be set; %s", key, instead))
		case strings.HasPrefix(key, "k8s.object."):
			errs = append(errs, fmt.Errorf("resource_attributes: %s cannot be set; resource_grouping: object sets it", key))
		}
		switch value := value.(type) {
		case string:
			if value == "" {
				errs = append(errs, fmt.Errorf("resource_attributes: %s is empty; write a value or leave it out", key))
			}
		case bool, int, int64, uint64, float64:
		case nil:
			errs = append(errs, fmt.Errorf("resource_attributes: %s is empty; write a value or leave it out", key))
		default:
			errs = append(errs, fmt.Errorf("resource_attributes: %s is a list or map; write a string, a number, true or false", key))
		}
	}
	return errs
}
