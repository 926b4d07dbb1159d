package watchlist

import (
	"encoding/json"
	"hash/maphash"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// relation is that of a version that was read to the one of the same object that was emitted last.
type relation uint8

const (
	emitted relation = iota // it is the same, or earlier
	newer
	unclear // nothing can be concluded from the versions: the contents have to be compared
)

// relate compares versions. Some servers give none at all (https://kubernetes.io/docs/tasks/debug/debug-cluster/resource-metrics-pipeline/),
// and some that join several clusters spell them differently in LIST and watch (https://karmada.io/docs/userguide/globalview/proxy-global-resource).
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
		return newer // whatever it was, it was another server's, or another history's
	case rv.none() || !known.none() && rv.spelling() != known.spelling():
		return unclear
	}
	return newer
}

// spelling is what versions of one origin have in common: everything but their digits.
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

// rememberObject notes that an object has been emitted as it is.
func (r *Reader) rememberObject(key Key, obj *redact.Object, rv version) {
	r.remember(key, obj.Identity, rv)
	if rv.comparable() {
		r.inventory.forgetContent(key)
		return
	}
	if sum, ok := contentHash(obj.JSON); ok {
		r.inventory.contents[key] = sum
	}
}

// isUnchanged reports whether an object of the inventory, emitted last at known, was read just like that again, or older.
// Without the object, which may be nil, that is known only where the versions tell.
func (r *Reader) isUnchanged(key Key, obj *redact.Object, rv, known version) bool {
	switch r.relate(rv, known) {
	case emitted:
		return true
	case unclear:
		if obj == nil {
			return false
		}
		was, ok := r.inventory.contents[key]
		sum, valid := contentHash(obj.JSON)
		return ok && valid && sum == was
	}
	return false
}

var contentSeed = maphash.MakeSeed()

// contentHash is a hash of everything that says how an object is, and not in which version or from where.
func contentHash(object string) (sum uint64, ok bool) {
	decoder := json.NewDecoder(strings.NewReader(object))
	decoder.UseNumber() // exact
	var content map[string]any
	if err := decoder.Decode(&content); err != nil {
		return 0, false
	}
	delete(content, "kind") // items of a LIST come without
	delete(content, "apiVersion")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "resourceVersion")
		delete(metadata, "managedFields")
	}
	canonical, err := json.Marshal(content) // sorts the keys
	if err != nil {
		return 0, false
	}
	return maphash.Bytes(contentSeed, canonical), true
}
