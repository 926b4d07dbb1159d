package watchlist

import (
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// relation says how a version just read relates to the last emitted version of the same object.
type relation uint8

const (
	emitted relation = iota // the same version, or an earlier one
	newer
	unclear // the versions prove nothing: the contents have to be compared
)

// relate compares versions. Some servers send none at all
// (https://kubernetes.io/docs/tasks/debug/debug-cluster/resource-metrics-pipeline/), and some that aggregate several
// clusters spell them differently in LIST and watch
// (https://karmada.io/docs/userguide/globalview/proxy-global-resource).
func (r *Reader) relate(rv, known version) relation {
	order, ordered := compareVersions(rv, known)
	switch {
	case rv == known && !rv.none():
		return emitted
	case ordered && !r.server.historyReset:
		if order > 0 {
			return newer
		}
		return emitted
	case r.server.historyReset && !rv.none():
		return newer // the known version came from another server, or another history
	case rv.none() || !known.none() && rv.spelling() != known.spelling():
		return unclear
	}
	return newer
}

// spelling is what all versions of one origin have in common: everything but the digits.
func (v version) spelling() string {
	if v.text == "" {
		return ""
	}
	return strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' {
			return -1
		}
		return c
	}, v.text)
}

// rememberObject notes that this version and content of an object were emitted.
func (r *Reader) rememberObject(key Key, obj *redact.Object, rv version) {
	r.remember(key, obj.Identity, rv)
	r.inventory.putContent(key, &obj.Content)
	r.keepState(key, obj)
}

// isUnchanged reports whether the object that was read is the one emitted last, at version known, or an older one. If
// obj is nil, only the versions can decide.
func (r *Reader) isUnchanged(key Key, obj *redact.Object, rv, known version) bool {
	switch r.relate(rv, known) {
	case emitted:
		return true
	case unclear:
		return obj != nil && r.holdsTheSame(key, obj)
	}
	return false
}

// holdsTheSame reports whether the object has the content that was emitted last. It returns false if that is not known.
func (r *Reader) holdsTheSame(key Key, obj *redact.Object) bool {
	return obj.Content.Sum != 0 && r.inventory.content(key).Sum == obj.Content.Sum
}
