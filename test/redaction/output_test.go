package redaction

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otlp"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// output is what a collector has sent: the bytes of every request, and their records.
type output struct {
	harness.Records // that can be waited for

	address string
	form    form

	mu       sync.Mutex
	requests [][]byte
	objects  map[string]string // JSON, by key
	others   map[string]bool   // changes in the formats of other receivers, by otherKey
	broken   []string          // records without a redacted object
}

// startOutput starts an OTLP server that ends with the test.
func startOutput(t *testing.T, f form) *output {
	t.Helper()
	o := &output{form: f, objects: map[string]string{}, others: map[string]bool{}}
	sink, err := otlp.Listen("127.0.0.1:0", o.take, grpc.ForceServerCodecV2(tap{encoding.GetCodecV2("proto"), o}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sink.Stop(); err != nil {
			t.Error(err)
		}
	})
	o.address = sink.Address()
	return o
}

// tap keeps the bytes of each request before they are decoded.
type tap struct {
	encoding.CodecV2
	output *output
}

func (t tap) Unmarshal(data mem.BufferSlice, into any) error {
	request := data.Materialize()
	t.output.mu.Lock()
	t.output.requests = append(t.output.requests, request)
	t.output.mu.Unlock()
	return t.CodecV2.Unmarshal(data, into)
}

func (o *output) take(_ context.Context, logs plog.Logs) error {
	o.mu.Lock()
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				o.takeObject(record)
				o.takeOther(resource.Resource(), record)
			}
		}
	}
	o.mu.Unlock()
	o.Add(logs)
	return nil
}

func (o *output) takeObject(record plog.LogRecord) {
	of, ok := fold.FromRecord(record)
	if !ok || of.Inferred {
		return
	}
	for _, problem := range []string{"k8s.redaction.failed", "k8s.body.error"} {
		if _, ok := record.Attributes().Get(problem); ok {
			o.broken = append(o.broken, fmt.Sprintf("%s: %s", key(of), problem))
		}
	}
	object := record.Body()
	if o.form.attribute != "none" {
		if object.Type() != pcommon.ValueTypeStr || object.Str() == "" || strings.HasPrefix(object.Str(), "{") {
			o.broken = append(o.broken, fmt.Sprintf("%s: its body is no sentence: %s", key(of), object.AsString()))
		}
		object, _ = record.Attributes().Get("k8s.object.manifest")
	}
	switch object.Type() {
	case pcommon.ValueTypeMap:
		data, err := json.Marshal(object.Map().AsRaw())
		if err != nil {
			o.broken = append(o.broken, fmt.Sprintf("%s: %v", key(of), err))
		}
		o.objects[key(of)] = string(data)
	case pcommon.ValueTypeStr:
		o.objects[key(of)] = object.Str()
	default:
		o.broken = append(o.broken, fmt.Sprintf("%s: its object is of the type %s", key(of), object.Type()))
	}
}

// takeOther notes a record in the format of another receiver.
func (o *output) takeOther(resource pcommon.Resource, record plog.LogRecord) {
	text := func(attributes pcommon.Map, key string) string {
		if value, ok := attributes.Get(key); ok {
			return value.AsString()
		}
		return ""
	}
	of := record.Attributes()
	switch {
	case text(of, "k8s.change.type") != "" || record.EventName() != "":
	case text(of, "k8s.event.uid") != "": // k8sevents
		o.others[otherKey("", "event", text(of, "k8s.namespace.name"), text(of, "k8s.event.name"))] = true
	case record.Body().Type() == pcommon.ValueTypeMap: // k8sobjects
		object := record.Body().Map().AsRaw()
		changeType := "SNAPSHOT"
		if inner, ok := object["object"].(map[string]any); ok && text(of, "event.domain") != "" {
			changeType, object = fmt.Sprint(object["type"]), inner
		}
		name, _, _ := unstructured.NestedString(object, "metadata", "name")
		o.others[otherKey(changeType, text(of, "k8s.resource.name"), text(resource.Attributes(), "k8s.namespace.name"), name)] = true
	}
}

// otherKey names a change of an object in the format of another receiver.
func otherKey(changeType, resource, namespace, name string) string {
	return fmt.Sprintf("%s of %s %s/%s", changeType, resource, namespace, name)
}

// awaitOthers waits until the copies of a phase have a change of one of the types in the formats of other receivers, if
// the collector emits them.
// Those of Events do not name the type.
func (o *output) awaitOthers(t *testing.T, entries []*entry, phase string, types ...string) {
	t.Helper()
	if !o.form.hasOthers() {
		return
	}
	harness.Poll(t, timeout, fmt.Sprintf("%v in the formats of other receivers", types), func() string {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, e := range entries {
			object, resource, wanted := e.copy(phase), e.resource.Resource, types
			if e.resource == newEvents {
				resource, wanted = "event", []string{""}
			}
			if !slices.ContainsFunc(wanted, func(changeType string) bool {
				return o.others[otherKey(changeType, resource, object.GetNamespace(), object.GetName())]
			}) {
				return fmt.Sprintf("%s %s/%s is missing", resource, object.GetNamespace(), object.GetName())
			}
		}
		return ""
	})
}

// key names a change of an object.
func key(of fold.Record) string {
	return fmt.Sprintf("%s of %s %s/%s, %s", of.Type, of.Resource, of.Namespace, of.Name, of.Origin)
}

// keys are the changes of a kind of all copies of a phase.
func keys(entries []*entry, phase, changeType, origin string) []string {
	var all []string
	for _, e := range entries {
		object := e.copy(phase)
		all = append(all, key(fold.Record{
			Type: changeType, Origin: origin, Resource: harness.Name(e.resource), Namespace: object.GetNamespace(), Name: object.GetName(),
		}))
	}
	return all
}

// awaitAll waits until each set of changes has a record of at least one of them.
func (o *output) awaitAll(t *testing.T, what string, sets ...[]string) {
	t.Helper()
	o.Await(t, timeout, what, func(records []harness.Record) string {
		have := map[string]bool{}
		for _, record := range records {
			if record.Object != nil {
				have[key(*record.Object)] = true
			}
		}
		var missing []string
		for i, wanted := range sets[0] {
			if !slices.ContainsFunc(sets, func(set []string) bool { return have[set[i]] }) {
				missing = append(missing, wanted)
			}
		}
		if len(missing) == 0 {
			return ""
		}
		return fmt.Sprintf("%d are missing, such as %s", len(missing), missing[0])
	})
}

// problems describes the records without a redacted object.
func (o *output) problems() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.broken)
}

// objectOf returns the object in the record of a change.
func (o *output) objectOf(t *testing.T, key string) map[string]any {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var object map[string]any
	if err := json.Unmarshal([]byte(o.objects[key]), &object); err != nil {
		t.Fatalf("cannot read the object of %s: %v", key, err)
	}
	return object
}
