package redaction

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const corpusFolder = "../../internal/redact/testdata/corpus/"

// entry is an object of the corpus.
type entry struct {
	resource  schema.GroupVersionResource
	object    *unstructured.Unstructured
	innocent  bool     // must be emitted unchanged
	sentinels []string // must not be emitted
}

// notCreatable are the kinds of the corpus that no client can create: lists exist only in answers of the API server.
// They are in the corpus because other objects and aggregated API servers may contain one.
var notCreatable = []string{"List", "SecretList", "ConfigMapList"}

// sentinel matches a sentinel of the corpus in clear text.
var sentinel = regexp.MustCompile(`SENTINEL-?\d{4}-?[kK]V7[qQ]`)

// readCorpus returns the objects of the corpus that a client can create, and the number of those that it cannot.
func readCorpus(t *testing.T) (entries []*entry, left int) {
	t.Helper()
	for _, file := range []string{"core", "shapes", "custom", "innocents"} {
		data, err := os.ReadFile(corpusFolder + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var objects []struct {
			Resource string
			Object   map[string]any
		}
		if err := json.Unmarshal(data, &objects); err != nil {
			t.Fatalf("cannot read the corpus: %v", err)
		}
		for _, o := range objects {
			object := &unstructured.Unstructured{Object: o.Object}
			if slices.Contains(notCreatable, object.GetKind()) {
				left++
				continue
			}
			entries = append(entries, &entry{
				resource:  schema.ParseGroupResource(o.Resource).WithVersion(object.GroupVersionKind().Version),
				object:    object,
				innocent:  file == "innocents",
				sentinels: sentinelsIn(t, o.Object),
			})
		}
	}
	return entries, left
}

// sentinelsIn returns the sentinels of an object, including those in its encoded or compressed parts.
func sentinelsIn(t *testing.T, object map[string]any) []string {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	unpack(data, func(_, text []byte) { found = append(found, sentinel.FindAllString(string(text), -1)...) })
	slices.Sort(found)
	return slices.Compact(found)
}

// divide separates the entries with sentinels from the innocent ones.
func divide(entries []*entry) (leaking, innocents []*entry) {
	for _, e := range entries {
		if e.innocent {
			innocents = append(innocents, e)
		} else {
			leaking = append(leaking, e)
		}
	}
	return leaking, innocents
}

// allSentinels returns the sentinels of the entries and of the errors of the leaky server.
func allSentinels(entries []*entry) []string {
	all := slices.Clone(errorSentinels)
	for _, e := range entries {
		all = append(all, e.sentinels...)
	}
	return all
}

// content returns the object without the parts that differ from copy to copy.
func (e *entry) content() map[string]any {
	object := e.copy("")
	for _, own := range [][]string{{"metadata", "name"}, {"metadata", "namespace"}, {"involvedObject", "namespace"}, {"regarding", "namespace"}, {"spec", "group"}} {
		if own[0] != "spec" || object.GetKind() == "CustomResourceDefinition" {
			unstructured.RemoveNestedField(object.Object, own...)
		}
	}
	return object.Object
}

// difference describes where a body lacks a part of an object, or has another value. Additions by the API server do not
// count.
func difference(path string, want, have any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := have.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, not an object", path, have)
		}
		for name, value := range want {
			if found := difference(path+"."+name, value, object[name]); found != "" {
				return found
			}
		}
		return ""
	case []any:
		list, ok := have.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%s is %v, not a list of %d", path, have, len(want))
		}
		for i, value := range want {
			if found := difference(fmt.Sprintf("%s[%d]", path, i), value, list[i]); found != "" {
				return found
			}
		}
		return ""
	default:
		if want != have {
			return fmt.Sprintf("%s is %v, want %v", path, have, want)
		}
		return ""
	}
}

// resources returns the resources of the entries, each once.
func resources(entries []*entry) []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, e := range entries {
		if !slices.Contains(all, e.resource) {
			all = append(all, e.resource)
		}
	}
	return all
}
