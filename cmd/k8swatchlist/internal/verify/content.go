package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// Sameness is the result of the comparison of an object with the body of its last record.
type Sameness int

// Results of a comparison. The zero value is the one that nothing proves wrong.
const (
	Different     Sameness = iota
	Same                   // in what counts; docs/records.md, "Changes that change nothing"
	SameButMasked          // the same, except perhaps for values that are masked in the record, or were too large for it
)

// Contents compares objects of one resource.
type Contents struct {
	plan    *redact.Plan
	ignored []string
}

// NewContents returns the comparison for a resource, with the parts that its records have, and with what does not count as
// a change.
func NewContents(resource schema.GroupResource, fields redact.Fields, ignored []redact.Ignored) *Contents {
	c := &Contents{
		plan:    redact.NewPolicy(redact.Options{}).Plan(resource.Group, resource.Resource, nil).WithFields(fields),
		ignored: []string{"apiVersion", "kind", "metadata.resourceVersion", "metadata.managedFields"},
	}
	for _, i := range ignored {
		if i.Resource != "" && (i.Group != resource.Group || i.Resource != resource.Resource) {
			continue
		}
		c.ignored = append(c.ignored, i.Paths...)
	}
	// The API server raises the generation with each change of what is neither metadata nor status.
	if slices.ContainsFunc(c.ignored[4:], func(path string) bool {
		return !strings.HasPrefix(path, "metadata.") && !strings.HasPrefix(path, "status.") && path != "metadata" && path != "status"
	}) {
		c.ignored = append(c.ignored, "metadata.generation")
	}
	return c
}

// Body is the object in a record.
type Body struct {
	Object map[string]any // nil if the record holds none
	// Truncated are the paths of what is missing from it because it was too large.
	Truncated []string
}

// isUnknown reports whether so much is missing that it is not even stated what.
func (b Body) isUnknown() bool {
	return slices.ContainsFunc(b.Truncated, func(path string) bool {
		return path == "*" || strings.HasPrefix(path, "and ") && strings.HasSuffix(path, " more")
	})
}

// Compare compares an object of the cluster, as JSON, with the one in a record.
func (c *Contents) Compare(live []byte, body Body) (Sameness, error) {
	if body.Object == nil {
		return Different, nil
	}
	if body.isUnknown() {
		return SameButMasked, nil
	}
	redacted, _, err := c.plan.Decode(live)
	if err != nil {
		return Different, fmt.Errorf("cannot read an object of the cluster: %w", err)
	}
	now, err := decode([]byte(redacted.JSON))
	if err != nil {
		return Different, fmt.Errorf("cannot read an object of the cluster: %w", err)
	}
	var a, b any = now, body.Object
	for _, path := range slices.Concat(c.ignored, body.Truncated) {
		a, _ = without(a, path)
		b, _ = without(b, path)
	}
	masked := len(body.Truncated) > 0
	switch {
	case !equal(a, b, &masked):
		return Different, nil
	case masked:
		return SameButMasked, nil
	}
	return Same, nil
}

// decode decodes an object. Numbers stay as they are written, so that large ones that differ do not look alike.
func decode(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	err := decoder.Decode(&object)
	return object, err
}

// objectIn returns the object in a record: an attribute, or else the body, which may be something else too.
func objectIn(r plog.LogRecord) pcommon.Value {
	if object, ok := r.Attributes().Get("k8s.object.manifest"); ok {
		return object
	}
	return r.Body()
}

// metadataIn returns what identifies an object, which is a map or JSON. It returns false if the value is neither, such as the
// message of an Event.
func metadataIn(value pcommon.Value) (metadata struct{ UID, Name, ResourceVersion string }, ok bool) {
	switch value.Type() {
	case pcommon.ValueTypeMap:
		m, ok := value.Map().Get("metadata")
		if !ok || m.Type() != pcommon.ValueTypeMap {
			return metadata, false
		}
		metadata.UID, metadata.Name, metadata.ResourceVersion = text(m.Map(), "uid"), text(m.Map(), "name"), text(m.Map(), "resourceVersion")
		return metadata, true
	case pcommon.ValueTypeStr:
		var object struct {
			Metadata *struct{ UID, Name, ResourceVersion string }
		}
		if !strings.HasPrefix(value.Str(), "{") || json.Unmarshal([]byte(value.Str()), &object) != nil || object.Metadata == nil {
			return metadata, false
		}
		return *object.Metadata, true
	}
	return metadata, false
}

// bodyOf returns the object in a record on a line of OTLP/JSON.
func bodyOf(line []byte, of Object) Body {
	logs, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
	if err != nil {
		return Body{}
	}
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, r := range scope.LogRecords().All() {
				if record, ok := fold.FromRecord(r); !ok || record != of.Record {
					continue
				}
				value := objectIn(r)
				text := value.AsString()
				if value.Type() == pcommon.ValueTypeMap {
					raw, err := json.Marshal(value.Map().AsRaw())
					if err != nil {
						return Body{}
					}
					text = string(raw)
				}
				object, err := decode([]byte(text))
				if err != nil {
					return Body{} // such as the message of an Event, or a summary
				}
				return Body{Object: object, Truncated: truncated(r)}
			}
		}
	}
	return Body{}
}

// truncated returns the paths of what is missing from the object in a record.
func truncated(r plog.LogRecord) []string {
	value, ok := r.Attributes().Get("k8s.record.truncated")
	if !ok || value.Type() != pcommon.ValueTypeSlice {
		return nil
	}
	var paths []string
	for _, path := range value.Slice().All() {
		paths = append(paths, path.AsString())
	}
	return paths
}

// without removes what a path leads to: keys joined by dots, which may contain dots themselves, indexes and names of
// elements, or * for any of them. An object on the way that has nothing else is removed too, as is one that is empty. A
// string that is JSON is looked into. It reports whether nothing is left.
func without(v any, path string) (rest any, nothing bool) {
	switch v := v.(type) {
	case map[string]any:
		return withoutKeys(v, path)
	case []any:
		for i, element := range v {
			for _, name := range append([]string{"*", strconv.Itoa(i)}, namesOf(element)...) {
				if after, ok := strings.CutPrefix(path, name+"."); ok {
					v[i], _ = without(v[i], after)
				} else if path == name {
					v[i] = nil
				}
			}
		}
	case string:
		var inside any
		decoder := json.NewDecoder(strings.NewReader(v))
		decoder.UseNumber()
		if trimmed := strings.TrimSpace(v); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(v)) && decoder.Decode(&inside) == nil {
			return without(inside, path)
		}
	}
	return v, false
}

func withoutKeys(v map[string]any, path string) (rest any, nothing bool) {
	for key, value := range v {
		for _, name := range []string{key, "*"} {
			if path == name {
				delete(v, key)
				break
			}
			after, ok := strings.CutPrefix(path, name+".")
			if !ok {
				continue
			}
			if left, nothing := without(value, after); nothing {
				delete(v, key)
			} else {
				v[key] = left
			}
		}
	}
	return v, len(v) == 0
}

// namesOf returns the name of an element of a list.
func namesOf(element any) []string {
	fields, _ := element.(map[string]any)
	for _, key := range []string{"name", "key", "path"} {
		if name, ok := fields[key].(string); ok {
			return []string{name}
		}
	}
	return nil
}

// equal reports whether two values are equal, where a masked text equals any. masked is set if a text was masked.
func equal(a, b any, masked *bool) bool {
	if isMasked(a) || isMasked(b) {
		*masked = true
		return true
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			other, ok := b[key]
			if !ok || !equal(value, other, masked) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(x, y any) bool { return equal(x, y, masked) })
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	}
	return reflect.DeepEqual(a, b)
}

// sameNumber compares numbers that may be written in two ways: 1 and 1.0.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	_, errA := a.Int64()
	_, errB := b.Int64()
	if errA == nil && errB == nil {
		return false
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}

// isMasked reports whether the receiver has masked a text, or a part of it.
func isMasked(v any) bool {
	s, ok := v.(string)
	return ok && strings.Contains(s, strings.TrimSuffix(redact.Masked, "]"))
}
