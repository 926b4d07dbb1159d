package watchlist

import (
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// namespaceFilter knows the namespaces whose objects are emitted. The reader reads those of all namespaces: what it passes
// over costs little, moves the position, and never enters the inventory.
type namespaceFilter struct {
	selected scope.Namespaces
	known    map[string]bool   // the answers so far
	labels   *chosenNamespaces // nil: labels do not matter
}

// maxKnownNamespaces bounds the answers that are kept, in clusters where namespaces come and go.
const maxKnownNamespaces = 10_000

// newNamespaceFilter returns the filter of a scope, or nil if it needs none.
func newNamespaceFilter(s scope.Scope, matching SelectedNamespaces) *namespaceFilter {
	if s.Among == "" {
		return nil
	}
	f := &namespaceFilter{selected: s.Namespaces(), known: make(map[string]bool)}
	if f.selected.Labels != "" {
		f.labels = newChosenNamespaces(matching)
	}
	return f
}

func (f *namespaceFilter) selects(namespace []byte) bool {
	selected, ok := f.known[string(namespace)]
	if !ok {
		if len(f.known) >= maxKnownNamespaces {
			clear(f.known)
		}
		selected = f.selected.Match(string(namespace)) && (f.labels == nil || f.labels.has(string(namespace)))
		f.known[string(namespace)] = selected
	}
	return selected
}

// selects reports whether the objects of a namespace are emitted.
func (r *Reader) selects(namespace string) bool {
	return r.namespaces == nil || r.namespaces.selects([]byte(namespace))
}

// mayOwn reports whether the inventory of an earlier reader may hold the object. The labels of its namespace may have changed
// since.
func (r *Reader) mayOwn(id redact.Identity) bool {
	return (r.namespaces == nil || r.namespaces.selected.Match(id.Namespace)) && r.Scope.Shard.Owns(id.UID, id.Namespace)
}

// passesOverTooLarge passes over an event that is too large to be read, and reports whether it did: if its object is certain
// not to be emitted.
func (f *follower) passesOverTooLarge(head []byte) bool {
	if f.namespaces == nil && !f.Scope.Shard.Divided() {
		return false
	}
	id := identityInHead(head)
	if id.UID == "" || id.ResourceVersion == "" || f.owns(id) {
		return false
	}
	f.passForeign(f.live, id)
	return true
}
