package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// layout is the version of what is stored and how. Another one shares no key with this one.
const layout = "v1"

// storageName names the storage of one reader. Everything that makes what it has read differ from what
// another one reads is in it, so that core Events and those of events.k8s.io, two selectors or two
// namespaces never share a position. What people look for in a folder of files stands in front.
func storageName(clusterUID string, s scope.Scope) string {
	sum := sha256.Sum256([]byte(clusterUID + "\x00" + s.Key()))
	return layout + "_" + s.Resource + "_" + hex.EncodeToString(sum[:12])
}

// selectorsKey is where the receiver remembers which selectors a resource and scope have been read with.
func selectorsKey(clusterUID string, s scope.Scope) string {
	return strings.Join([]string{layout, "selectors", clusterUID, s.Group, s.Resource, s.Namespace}, "/")
}

// selectorsOf is the value for one reader in the list that is stored under selectorsKey.
func selectorsOf(s scope.Scope) string {
	return s.LabelSelector + "\x00" + s.FieldSelector
}

const (
	progressKey  = "progress"
	objectPrefix = "object/"
)
