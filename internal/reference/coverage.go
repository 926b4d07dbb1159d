package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog"
)

// Record is the attributes of a log record and of what it is in, as pcommon.Map.AsRaw returns them.
type Record struct {
	Resource   map[string]any
	ScopeName  string
	Scope      map[string]any
	EventName  string
	Attributes map[string]any
}

// scopeNames are the ends of the scope names that records in other formats have.
var scopeNames = map[string]Place{"/k8sobjectsreceiver": K8sObjects, "/k8seventsreceiver": K8sEvents}

// place returns what kind of record this is, "" if it is of no kind that the receiver emits.
func (r *Record) place() Place {
	switch {
	case strings.HasPrefix(r.EventName, "k8s.object."):
		return Object
	case r.EventName == "k8s.event":
		return Event
	case r.EventName == "k8s.watch.gap":
		return Gap
	case r.EventName == "k8s.snapshot.begin", r.EventName == "k8s.snapshot.end":
		return Set
	case r.EventName == "entity.state", r.EventName == "entity.delete":
		return Entity
	case r.EventName != "":
		return ""
	case r.Attributes["otel.entity.event.type"] != nil:
		return Entity
	}
	for end, place := range scopeNames {
		if strings.HasSuffix(r.ScopeName, end) {
			return place
		}
	}
	return ""
}

// Coverage compares records with the table, and remembers which of its cells they confirm.
type Coverage struct {
	table  *Table
	places map[placed]bool
	types  map[typed]bool
}

type placed struct {
	name  string
	place Place
}

type typed struct{ name, typeName string }

// NewCoverage returns a Coverage without records.
func (t *Table) NewCoverage() *Coverage {
	return &Coverage{table: t, places: map[placed]bool{}, types: map[typed]bool{}}
}

// Add compares a record. It returns a sentence for each attribute that is not in the table, is not there for such records,
// or has another type, and for each empty string. A resource may have attributes of the configuration, if their names cannot
// be mistaken for the receiver's.
func (c *Coverage) Add(r *Record) []string {
	place := r.place()
	if place == "" {
		return []string{fmt.Sprintf("a record with the event name %q and the scope %q is of no kind in the reference", r.EventName, r.ScopeName)}
	}
	found := c.compare(Resource, place, r.Resource)
	found = append(found, c.compare(Scope, place, r.Scope)...)
	return append(found, c.compare(place, place, r.Attributes)...)
}

// AddLogs does the same for all records of a batch.
func (c *Coverage) AddLogs(logs plog.Logs) []string {
	var found []string
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				found = append(found, c.Add(&Record{
					Resource:  resource.Resource().Attributes().AsRaw(),
					ScopeName: scope.Scope().Name(), Scope: scope.Scope().Attributes().AsRaw(),
					EventName: record.EventName(), Attributes: record.Attributes().AsRaw(),
				})...)
			}
		}
	}
	return found
}

// compare compares the attributes at a place with the table. of is the kind of the record.
func (c *Coverage) compare(place, of Place, attributes map[string]any) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		a, ok := c.table.byName[name]
		switch typeName := typeOf(value); {
		case !ok && place == Resource && isConfigured(name):
		case !ok:
			found = append(found, fmt.Sprintf("%s of %s is not in the reference", name, place))
		case !slices.Contains(a.Places, place):
			found = append(found, fmt.Sprintf("%s is in the reference, but not for %s", name, place))
		case !slices.Contains(a.Types, typeName):
			found = append(found, fmt.Sprintf("%s of %s is %s, and not %s as in the reference", name, place, typeName, strings.Join(a.Types, " or ")))
		default:
			if value == "" && of != K8sEvents {
				found = append(found, fmt.Sprintf("%s of %s is an empty string", name, place))
			}
			c.places[placed{name, place}], c.types[typed{name, typeName}] = true, true
		}
	}
	return found
}

// isConfigured reports whether a name can be one that the configuration adds to the resource: the receiver's own all have
// these prefixes.
func isConfigured(name string) bool {
	for _, prefix := range []string{"k8s.", "entity.", "otel.", "event."} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// Missing returns what the table says about attributes at these places, or at all if there are none, and no record has
// confirmed.
func (c *Coverage) Missing(of ...Place) []string {
	var missing []string
	for _, a := range c.table.Attributes {
		for _, place := range a.Places {
			if (len(of) == 0 || slices.Contains(of, place)) && !c.places[placed{a.Name, place}] {
				missing = append(missing, fmt.Sprintf("%s of %s", a.Name, place))
			}
		}
		for _, typeName := range a.Types {
			isAsked := len(of) == 0 || slices.ContainsFunc(a.Places, func(p Place) bool { return slices.Contains(of, p) })
			if len(a.Types) > 1 && isAsked && !c.types[typed{a.Name, typeName}] {
				missing = append(missing, fmt.Sprintf("%s as %s", a.Name, typeName))
			}
		}
	}
	return missing
}

// typeOf returns the name of a value's type in the table.
func typeOf(value any) string {
	switch value := value.(type) {
	case string:
		return "string"
	case int64:
		return "int"
	case bool:
		return "bool"
	case map[string]any:
		return "map"
	case []any:
		element := "string"
		for i, one := range value {
			if of := typeOf(one); i == 0 {
				element = of
			} else if of != element {
				return "mixed[]"
			}
		}
		return element + "[]"
	}
	return fmt.Sprintf("%T", value)
}
