package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var all = []*Kind{Pods2K, Pods8K, Pods20K, Nodes, Deployments, Events, Rollouts}

type parsed struct {
	Kind, APIVersion string
	Metadata         metav1.ObjectMeta
}

func TestEveryObjectIsDifferent(t *testing.T) {
	for _, kind := range all {
		objects := New(kind, 1)
		uids, names := map[string]bool{}, map[string]bool{}
		for i := range 1000 {
			var o parsed
			raw := objects.Append(nil, i, uint64(1000+i), Full)
			if err := json.Unmarshal(raw, &o); err != nil {
				t.Fatalf("%s: %v: %s", kind.Kind, err, raw)
			}
			if o.Kind != kind.Kind || o.APIVersion != kind.APIVersion() {
				t.Fatalf("it is a %s of %s", o.Kind, o.APIVersion)
			}
			if (o.Metadata.Namespace != "") != kind.Namespaced || bytes.ContainsRune(raw, '\n') || bytes.Contains(raw, []byte(nameMark)) {
				t.Fatalf("bad object: %s", raw)
			}
			uids[string(o.Metadata.UID)], names[o.Metadata.Name] = true, true
		}
		if len(uids) != 1000 || len(names) != 1000 {
			t.Errorf("%s: %d UIDs and %d names of 1000 objects", kind.Kind, len(uids), len(names))
		}
	}
}

func TestSameSeedSameObjects(t *testing.T) {
	for _, kind := range all {
		if !bytes.Equal(New(kind, 7).Append(nil, 3, 9, Full), New(kind, 7).Append(nil, 3, 9, Full)) {
			t.Errorf("%s differs", kind.Kind)
		}
	}
}

func TestForms(t *testing.T) {
	for _, kind := range all {
		objects := New(kind, 1)
		var item, partial parsed
		if err := json.Unmarshal(objects.Append(nil, 5, 9, Item), &item); err != nil || (item.Kind == "") == kind.Custom {
			t.Errorf("an item of a list is %+v, %v", item, err)
		}
		if err := json.Unmarshal(objects.Append(nil, 5, 9, Partial), &partial); err != nil || partial.Kind != "PartialObjectMetadata" || partial.Metadata.ResourceVersion != "9" {
			t.Errorf("the metadata is %+v, %v", partial, err)
		}
	}
}

// Both forms of the metadata are equal, however long the version is.
func TestEncodedMetadata(t *testing.T) {
	for _, kind := range all {
		objects := New(kind, 1)
		for _, c := range []struct {
			number  int
			version uint64
		}{{0, 1000}, {5, 99_999}, {77, 100_000}, {999_999, 10_000_001}} {
			raw := objects.Append(nil, c.number, c.version, PartialEncoded)
			message, ok := bytes.CutPrefix(raw, []byte("k8s\x00"))
			var envelope runtime.Unknown
			var got, want metav1.PartialObjectMetadata
			if err := errors.Join(envelope.Unmarshal(message), got.Unmarshal(envelope.Raw)); err != nil || !ok {
				t.Fatalf("%s: cannot decode metadata: %v", kind.Kind, err)
			}
			got.Kind, got.APIVersion = envelope.Kind, envelope.APIVersion
			if err := json.Unmarshal(objects.Append(nil, c.number, c.version, Partial), &want); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("%s: the metadata is %+v as protobuf and %+v as JSON", kind.Kind, got, want)
			}
		}
	}
}

func TestPodSizes(t *testing.T) {
	for _, c := range []struct {
		kind *Kind
		size int
	}{{Pods2K, 2000}, {Pods8K, 8000}, {Pods20K, 20000}} {
		objects := New(c.kind, 1)
		total, managedBytes := 0, 0
		for i := range variants {
			raw := objects.Append(nil, i, 123456, Full)
			var o struct {
				Metadata struct{ ManagedFields json.RawMessage }
			}
			if err := json.Unmarshal(raw, &o); err != nil {
				t.Fatal(err)
			}
			total += len(raw)
			managedBytes += len(o.Metadata.ManagedFields)
		}
		mean, share := total/variants, 100*managedBytes/total
		t.Logf("pods of %d bytes, %d %% managedFields", mean, share)
		if mean < c.size*9/10 || mean > c.size*11/10 || share < 25 || share > 45 {
			t.Errorf("want %d bytes", c.size)
		}
	}
}
