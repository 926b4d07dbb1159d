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
	if member, ok := jsonscan.MemberNamed(data, 0, "metadata"); ok {
		_ = json.Unmarshal(data[member.Value:member.End], &m)
	}
	return m
}
