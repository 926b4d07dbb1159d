package entity

import (
	"slices"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// maxWaiting is the number of pods whose state is kept until the UID of their node is known.
const maxWaiting = 10_000

// waiting holds the states of pods whose node is known only by name so far, because its own record comes later. They are
// sent again, with the UID, as soon as that is known.
type waiting struct {
	pods     map[string]map[watchlist.Key]*state // by the name of the node
	nodes    map[watchlist.Key]string            // the node of each pod
	resolved []string                            // nodes whose pods were sent by the last Append
}

// add keeps the state of a pod, unless there are too many.
func (w *waiting) add(node string, key watchlist.Key, s *state) {
	w.remove(key)
	if len(w.nodes) >= maxWaiting {
		return
	}
	if w.pods == nil {
		w.pods, w.nodes = make(map[string]map[watchlist.Key]*state), make(map[watchlist.Key]string)
	}
	if w.pods[node] == nil {
		node = strings.Clone(node)
		w.pods[node] = make(map[watchlist.Key]*state)
	}
	w.pods[node][key] = s.clone()
	w.nodes[key] = w.pods[node][key].node
}

func (w *waiting) remove(key watchlist.Key) {
	node, ok := w.nodes[key]
	if !ok {
		return
	}
	delete(w.nodes, key)
	delete(w.pods[node], key)
	if len(w.pods[node]) == 0 {
		delete(w.pods, node)
	}
}

// resolve calls send with the states of pods whose node has become known, which have its UID then.
func (w *waiting) resolve(uidOf func(node string) string, send func(watchlist.Key, *state)) {
	w.resolved = w.resolved[:0]
	for node, pods := range w.pods {
		uid := uidOf(node)
		if uid == "" {
			continue
		}
		w.resolved = append(w.resolved, node)
		for key, s := range pods {
			of := *s
			of.relationships = slices.Clone(s.relationships)
			of.setNode(uid)
			send(key, &of)
		}
	}
}

// removeResolved forgets the pods that the last resolve has sent.
func (w *waiting) removeResolved() {
	for _, node := range w.resolved {
		for key := range w.pods[node] {
			delete(w.nodes, key)
		}
		delete(w.pods, node)
	}
	w.resolved = nil
}
