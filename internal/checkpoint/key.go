package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// layout is the version of what is stored and how. Another one shares no key with this one.
const layout = "v1"

// storageName names the storage of one reader. Everything that makes what it has read differ from what
// another one reads is in it, so that core Events and those of events.k8s.io, two selectors or two
// namespaces never share a position. What people look for in a folder of files stands in front.
func storageName(clusterUID string, r *watchlist.Resource) string {
	identity := strings.Join([]string{
		clusterUID, r.Group, r.Version, r.Plural, r.Namespace, r.LabelSelector, r.FieldSelector,
	}, "\x00")
	sum := sha256.Sum256([]byte(identity))
	return layout + "_" + r.Plural + "_" + hex.EncodeToString(sum[:12])
}

// selectorsKey is where the receiver remembers which selectors a resource and scope have been read with.
func selectorsKey(clusterUID string, r *watchlist.Resource) string {
	return strings.Join([]string{layout, "selectors", clusterUID, r.Group, r.Version, r.Plural, r.Namespace}, "/")
}

// selectorsOf is the value for one reader in the list that is stored under selectorsKey.
func selectorsOf(r *watchlist.Resource) string {
	return r.LabelSelector + "\x00" + r.FieldSelector
}

const (
	progressKey  = "progress"
	objectPrefix = "object/"
)
