package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// All checkpoints of a receiver are in one storage client, each under an id of its own. file_storage creates a database
// file for each client. One file needs one transaction and one sync where hundreds of scopes would need hundreds, and a
// checkpoint can be removed, or passed to another scope, in one transaction.
//
//	checkpoint/<id>/scope     the scope and the cluster it belongs to
//	checkpoint/<id>/progress  how far it has come
//	object/<id>/<key>         an object of the inventory
//	probe                     nothing; written to test whether the storage works again
//	led                       the identity of the process that last led the replicas
//	migrated                  when the previous layout was migrated
//	shard                     the shard for which the storage was used last; missing if nothing was divided
const (
	clientName       = "checkpoints_v2"
	checkpointPrefix = "checkpoint/"
	objectPrefix     = "object/"
	scopeSuffix      = "/scope"
	migratedKey      = "migrated"
	ledKey           = "led"
	probeKey         = "probe"
	shardKey         = "shard"
)

func scopeKey(id string) string    { return checkpointPrefix + id + scopeSuffix }
func progressKey(id string) string { return checkpointPrefix + id + "/progress" }

func objectKey(id string, key watchlist.Key) string { return objectPrefix + id + "/" + key.String() }

// splitObjectKey returns the checkpoint id and the object, as text, of a key created by objectKey.
func splitObjectKey(key string) (id, object string, ok bool) {
	rest, ok := strings.CutPrefix(key, objectPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// newID returns an id that no checkpoint has or had: objects of a removed checkpoint may still exist.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// entry describes what a checkpoint belongs to.
type entry struct {
	id string

	Group         string    `json:"group,omitempty"`
	Resource      string    `json:"resource"`
	Namespace     string    `json:"namespace,omitempty"`
	Among         string    `json:"namespaces,omitempty"` // see [scope.Scope]
	LabelSelector string    `json:"labelSelector,omitempty"`
	FieldSelector string    `json:"fieldSelector,omitempty"`
	ShardIndex    int       `json:"shardIndex,omitempty"`
	ShardTotal    int       `json:"shardTotal,omitempty"`
	ShardBy       shard.By  `json:"shardBy,omitempty"`
	Cluster       Cluster   `json:"cluster"`
	ReadAt        time.Time `json:"readAt"` // when a reader last used it
	// Lent holds the namespaces whose objects were passed to other checkpoints, each as a text of [scope.Namespaces].
	Lent []string `json:"lent,omitempty"`
}

func newEntry(s scope.Scope) *entry {
	return &entry{
		id: newID(), Group: s.Group, Resource: s.Resource, Namespace: s.Namespace, Among: s.Among,
		LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector,
		ShardIndex: s.Shard.Index, ShardTotal: s.Shard.Total, ShardBy: s.Shard.By,
	}
}

func (e *entry) shard() shard.Shard {
	return shard.Shard{Index: e.ShardIndex, Total: e.ShardTotal, By: e.ShardBy}
}

func (e *entry) scope() scope.Scope {
	s := scope.New(schema.GroupResource{Group: e.Group, Resource: e.Resource}, e.Namespace, e.LabelSelector, e.FieldSelector)
	s.Among = e.Among
	return s.Of(e.shard())
}

func (e *entry) encode() ([]byte, error) { return json.Marshal(e) }

// covers reports whether the checkpoint holds everything known of the namespaces and the shard of a scope, and nothing that is
// to be emitted as no longer selected.
func (e *entry) covers(s scope.Scope) bool {
	return e.shard().Covers(s.Shard) && e.scope().Namespaces().Labels == s.Namespaces().Labels && e.scope().Namespaces().Cover(s.Namespaces()) && !slices.ContainsFunc(e.Lent, func(lent string) bool {
		return scope.ParseNamespaces(lent).Overlap(s.Namespaces())
	})
}

// overlaps reports whether the checkpoint may hold objects in the namespaces and the shard of a scope.
func (e *entry) overlaps(s scope.Scope) bool {
	return e.shard().Overlaps(s.Shard) && e.scope().Namespaces().Overlap(s.Namespaces()) && !slices.ContainsFunc(e.Lent, func(lent string) bool {
		return scope.ParseNamespaces(lent).Cover(s.Namespaces())
	})
}

// within reports whether a checkpoint holds only objects in the namespaces of a scope. Whatever it holds of other shards, other
// processes read now.
func (e *entry) within(s scope.Scope) bool { return s.Namespaces().Cover(e.scope().Namespaces()) }

// Cluster holds what is known of the identity of the cluster.
type Cluster struct {
	UID         string `json:"uid,omitempty"`         // "" if the right to read it is missing
	Fingerprint string `json:"fingerprint,omitempty"` // of the API server's URL and certificate authority
}

// is reports whether a checkpoint of the stored cluster may be used with this one, and whether that is certain.
func (c Cluster) is(stored Cluster) (same, certain bool) {
	switch {
	case c.UID != "" && stored.UID != "":
		return c.UID == stored.UID, true
	case c.Fingerprint == "" || stored.Fingerprint == "": // the previous layout had none
		return true, false
	}
	return c.Fingerprint == stored.Fingerprint, false
}

// and merges the identity of the cluster with an older one.
func (c Cluster) and(stored Cluster) Cluster {
	if c.UID == "" {
		c.UID = stored.UID
	}
	if c.Fingerprint == "" {
		c.Fingerprint = stored.Fingerprint
	}
	return c
}
