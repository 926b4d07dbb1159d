package corpus

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manager is a field manager and the parts of an object that it last set.
type manager struct {
	name, subresource string
	parts             []string // of the object
}

// managed adds the managedFields that the API server would store for an object.
func managed(o object, apiVersion string, managers ...manager) {
	content, err := json.Marshal(o)
	if err != nil {
		panic(err) // the corpus is not data
	}
	var tree map[string]any
	if err := json.Unmarshal(content, &tree); err != nil {
		panic(err)
	}
	meta, _ := tree["metadata"].(map[string]any)
	for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation"} {
		delete(meta, key)
	}
	var entries []metav1.ManagedFieldsEntry
	for _, m := range managers {
		part := map[string]any{}
		for _, key := range m.parts {
			if value, ok := tree[key]; ok {
				part[key] = value
			}
		}
		raw, err := json.Marshal(fields(part))
		if err != nil {
			panic(err)
		}
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: m.name, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: apiVersion, Time: &created,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)), Subresource: m.subresource,
		})
	}
	o.SetManagedFields(entries)
}

// mergeKeys lists the keys that identify list items; the first existing one is used.
var mergeKeys = []string{"name", "mountPath", "containerPort", "type", "ip", "uid"}

// atomic lists have one owner as a whole.
var atomic = []string{"args", "containerStatuses", "images", "metrics", "sources", "tolerations"}

// fields returns the set of fields of a value as the API server writes it (FieldsV1).
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
func fields(value any) map[string]any {
	set := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if set["f:"+key] = fields(field); slices.Contains(atomic, key) {
				set["f:"+key] = map[string]any{}
			}
		}
	case []any:
		for _, item := range value {
			entry, ok := item.(map[string]any)
			if !ok {
				return map[string]any{} // an atomic list
			}
			at := slices.IndexFunc(mergeKeys, func(key string) bool { return entry[key] != nil })
			if at < 0 {
				return map[string]any{}
			}
			of := fields(entry)
			of["."] = map[string]any{}
			key, _ := json.Marshal(map[string]any{mergeKeys[at]: entry[mergeKeys[at]]}) //nolint:errchkjson // it was JSON before
			set[fmt.Sprintf("k:%s", key)] = of
		}
	}
	return set
}
