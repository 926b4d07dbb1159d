package harness

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
)

// decodeStored decodes an object as the API server stores it: protobuf behind a prefix, or JSON for custom resources.
func decodeStored(stored []byte) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if bytes.HasPrefix(stored, []byte("{")) {
		decoder := json.NewDecoder(bytes.NewReader(stored))
		decoder.UseNumber() // large numbers that differ must not look alike
		return u, decoder.Decode(&u.Object)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(stored, nil, nil)
	if err != nil {
		return nil, err
	}
	u.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return u, err
}

// contentOf returns a hash of what counts of an object: the parts by which docs/records.md decides whether a modification
// changes anything. It knows nothing of the receiver's code, and reads the object in another form. The object is changed.
func contentOf(key string, u *unstructured.Unstructured) (string, error) {
	object := u.Object
	delete(object, "apiVersion")
	delete(object, "kind")
	unstructured.RemoveNestedField(object, "metadata", "resourceVersion")
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	unstructured.RemoveNestedField(object, "status", "observedGeneration")
	switch {
	case strings.HasPrefix(key, "/registry/leases/"):
		unstructured.RemoveNestedField(object, "spec", "renewTime")
	case strings.HasPrefix(key, "/registry/minions/"):
		conditions, _, err := unstructured.NestedSlice(object, "status", "conditions")
		if err != nil {
			return "", err
		}
		for _, condition := range conditions {
			if fields, ok := condition.(map[string]any); ok {
				delete(fields, "lastHeartbeatTime")
			}
		}
		if len(conditions) > 0 {
			if err := unstructured.SetNestedSlice(object, conditions, "status", "conditions"); err != nil {
				return "", err
			}
		}
	case strings.HasPrefix(key, "/registry/services/endpoints/"), strings.HasPrefix(key, "/registry/endpointslices/"):
		unstructured.RemoveNestedField(object, "metadata", "annotations", "endpoints.kubernetes.io/last-change-trigger-time")
		if len(u.GetAnnotations()) == 0 {
			unstructured.RemoveNestedField(object, "metadata", "annotations")
		}
	}
	if status, ok := object["status"].(map[string]any); ok && len(status) == 0 {
		delete(object, "status")
	}
	canonical, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return string(sum[:8]), nil
}

// Contents are the contents of the versions of objects.
type Contents map[string][]string // by UID and version; several after etcd was set back

// ContentsOf returns the contents of the versions in these events.
func ContentsOf(events []Event) Contents {
	contents := Contents{}
	for _, event := range events {
		if event.Content != "" {
			at := versionOf(event.UID, strconv.FormatInt(event.Revision, 10))
			contents[at] = append(contents[at], event.Content)
		}
	}
	return contents
}

// Same reports whether an object has the same content in two versions. It is a fold.Same.
func (c Contents) Same(uid, one, other string) bool {
	for _, content := range c[versionOf(uid, one)] {
		for _, again := range c[versionOf(uid, other)] {
			if content == again {
				return true
			}
		}
	}
	return false
}

var _ fold.Same = Contents{}.Same

func versionOf(uid, rv string) string { return fmt.Sprint(uid, "@", rv) }
