package entity

import (
	"encoding/json"
	"unsafe"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// metadata is the part of an object's metadata that changes do not carry by themselves.
type metadata struct {
	Labels          map[string]string `json:"labels"`
	OwnerReferences []ownerReference  `json:"ownerReferences"`
}

type ownerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// metadataOf returns the metadata in the JSON of an object. What is not as Kubernetes defines it is left out.
func metadataOf(object string) metadata {
	var m metadata
	data := unsafe.Slice(unsafe.StringData(object), len(object)) // never written to
	if from, to := find(data, "metadata"); to > from {
		_ = json.Unmarshal(data[from:to], &m)
	}
	return m
}

// find returns where the value of a member of the object in data is, or 0, 0.
func find(data []byte, key string) (from, to int) {
	i := jsonscan.Space(data, 0)
	if i >= len(data) || data[i] != '{' {
		return 0, 0
	}
	i = jsonscan.Space(data, i+1)
	if i >= len(data) || data[i] == '}' {
		return 0, 0
	}
	for more := true; more; {
		keyEnd, _, value, err := jsonscan.Key(data, i)
		if err != nil {
			return 0, 0
		}
		end, err := jsonscan.Skip(data, value, 1)
		if err != nil {
			return 0, 0
		}
		if string(data[i+1:keyEnd-1]) == key {
			return value, end
		}
		if i, more, err = jsonscan.Next(data, end, '}'); err != nil {
			return 0, 0
		}
	}
	return 0, 0
}
