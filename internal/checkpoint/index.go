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
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// All checkpoints of a receiver stand in one storage client, each under an id of its own. file_storage makes a database
// file for each client: one file takes one transaction and one sync where hundreds of scopes would take hundreds, and lets
// a checkpoint be removed, or pass to another scope, in one transaction.
//
//	checkpoint/<id>/scope     which scope of which cluster it is of
//	checkpoint/<id>/progress  how far it has come
//	object/<id>/<key>         an object that is known
//	probe                     nothing; written to see whether a storage works again
//	migrated                  when the layout before this one was taken over
const (
	clientName       = "checkpoints_v2"
	checkpointPrefix = "checkpoint/"
	objectPrefix     = "object/"
	scopeSuffix      = "/scope"
	migratedKey      = "migrated"
	probeKey         = "probe"
)

func scopeKey(id string) string    { return checkpointPrefix + id + scopeSuffix }
func progressKey(id string) string { return checkpointPrefix + id + "/progress" }

func objectKey(id string, key watchlist.Key) string { return objectPrefix + id + "/" + key.String() }

// splitObjectKey returns the checkpoint and the object, as text, of a key that objectKey made.
func splitObjectKey(key string) (id, object string, ok bool) {
	rest, ok := strings.CutPrefix(key, objectPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// newID returns an id that no other checkpoint has or had: objects of one that was removed may still be there.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// entry says what a checkpoint is of.
type entry struct {
	id string

	Group         string    `json:"group,omitempty"`
	Resource      string    `json:"resource"`
	Namespace     string    `json:"namespace,omitempty"`
	LabelSelector string    `json:"labelSelector,omitempty"`
	FieldSelector string    `json:"fieldSelector,omitempty"`
	Cluster       Cluster   `json:"cluster"`
	ReadAt        time.Time `json:"readAt"` // when a reader last had it
	// Lent are the namespaces whose objects have passed to checkpoints of their own.
	Lent []string `json:"lent,omitempty"`
}

func newEntry(s scope.Scope) *entry {
	return &entry{
		id: newID(), Group: s.Group, Resource: s.Resource, Namespace: s.Namespace,
		LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector,
	}
}

func (e *entry) scope() scope.Scope {
	return scope.New(schema.GroupResource{Group: e.Group, Resource: e.Resource}, e.Namespace, e.LabelSelector, e.FieldSelector)
}

func (e *entry) encode() ([]byte, error) { return json.Marshal(e) }

// covers reports whether the checkpoint holds all that is known of a namespace: "" is all of them.
func (e *entry) covers(namespace string) bool {
	if e.Namespace != "" {
		return e.Namespace == namespace
	}
	return namespace == "" && len(e.Lent) == 0 || namespace != "" && !slices.Contains(e.Lent, namespace)
}

// overlaps reports whether the checkpoint may hold objects of a namespace, "" being all of them.
func (e *entry) overlaps(namespace string) bool {
	return namespace == "" || e.covers(namespace)
}

// Cluster identifies the cluster that is read, as far as it is known.
type Cluster struct {
	UID         string `json:"uid,omitempty"`         // "" where the right to read it is missing
	Fingerprint string `json:"fingerprint,omitempty"` // of the URL and the certificate authority of the API server
}

// is reports whether a checkpoint of stored may be used with the cluster, and whether that is certain.
func (c Cluster) is(stored Cluster) (same, certain bool) {
	switch {
	case c.UID != "" && stored.UID != "":
		return c.UID == stored.UID, true
	case c.Fingerprint == "" || stored.Fingerprint == "": // the layout before had none
		return true, false
	}
	return c.Fingerprint == stored.Fingerprint, false
}

// and returns all that is known of the cluster, where c is newer.
func (c Cluster) and(stored Cluster) Cluster {
	if c.UID == "" {
		c.UID = stored.UID
	}
	if c.Fingerprint == "" {
		c.Fingerprint = stored.Fingerprint
	}
	return c
}
