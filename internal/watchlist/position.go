package watchlist

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// version is a resourceVersion. The zero value is none. Nearly all fit a uint64, which keeps the inventory free of
// pointers; others (over 19 digits, or the opaque strings of some aggregated APIs) are kept as text.
type version struct {
	number uint64
	text   string
}

func parseVersion(rv string) version {
	if rv == "" || rv == "0" {
		return version{}
	}
	if n, err := strconv.ParseUint(rv, 10, 64); err == nil && rv[0] != '0' && rv[0] != '+' {
		return version{number: n}
	}
	return version{text: strings.Clone(rv)} // it outlives the object that it is a slice of
}

// VersionBefore reports whether a is known to be an earlier resourceVersion than b.
func VersionBefore(a, b string) bool { return parseVersion(a).before(parseVersion(b)) }

func (v version) none() bool { return v == version{} }

func (v version) String() string {
	switch {
	case v.text != "":
		return v.text
	case v.number == 0:
		return ""
	default:
		return strconv.FormatUint(v.number, 10)
	}
}

// comparable reports whether v has an order: Kubernetes guarantees one for decimal numbers of any length. Other
// versions can only be compared for equality.
// https://github.com/kubernetes/enhancements/issues/5504
func (v version) comparable() bool {
	if v.text == "" {
		return v.number != 0
	}
	_, err := resourceversion.CompareResourceVersion(v.text, v.text)
	return err == nil
}

// compareVersions returns the order of a and b, and false if there is none.
func compareVersions(a, b version) (order int, ok bool) {
	if a.text == "" && b.text == "" && a.number != 0 && b.number != 0 {
		switch {
		case a.number < b.number:
			return -1, true
		case a.number > b.number:
			return 1, true
		}
		return 0, true
	}
	order, err := resourceversion.CompareResourceVersion(a.String(), b.String())
	return order, err == nil
}

// atLeast reports whether v is known to be b or later. For versions without an order that means that they are equal.
func (v version) atLeast(b version) bool {
	if order, ok := compareVersions(v, b); ok {
		return order >= 0
	}
	return v == b
}

// before reports whether v is known to be earlier than b.
func (v version) before(b version) bool {
	order, ok := compareVersions(v, b)
	return ok && order < 0
}

// position is how far a resource has been read: everything up to and including rv or, if it is not closed, perhaps only
// the objects in at of rv itself. Several events can share one version: when a lease expires, etcd deletes all of its
// keys in a single revision.
type position struct {
	rv     version
	closed bool
	at     []Key
}

func closedPosition(rv version) position { return position{rv: rv, closed: true} }

// none reports whether the initial state is yet to be read.
func (p *position) none() bool { return p.rv.none() && !p.closed }

// unversioned reports whether the resource was read without a version, so that no watch can start from there.
func (p *position) unversioned() bool { return p.rv.none() && p.closed }

// covers reports whether the event has already been read.
func (p *position) covers(rv version, key Key) bool {
	if rv == p.rv && !rv.none() {
		if p.closed {
			return true
		}
		for _, seen := range p.at {
			if seen == key {
				return true
			}
		}
		return false
	}
	return rv.before(p.rv)
}

// hasPassed reports whether everything up to and including rv has been read. If the position is at rv itself, more
// events of that version may follow until it is closed or a later one arrives.
func (p *position) hasPassed(rv version) bool {
	return p.rv.atLeast(rv) && (p.closed || p.rv != rv)
}

// advance moves the position to an event that was read. It never moves back: some servers have sent
// deletions with an old version. https://github.com/kubernetes/kubernetes/issues/63356
func (p *position) advance(rv version, key Key) {
	switch {
	case rv.none() || rv.before(p.rv):
	case rv == p.rv && p.closed:
	case rv == p.rv:
		p.at = append(p.at, key)
	default:
		p.rv, p.closed, p.at = rv, false, append(p.at[:0], key)
	}
}

// close moves the position to a version that has been read completely, such as a bookmark's.
func (p *position) close(rv version) {
	if rv.none() || rv.before(p.rv) {
		return
	}
	p.rv, p.closed, p.at = rv, true, p.at[:0]
}

// allBefore returns a version up to and including which everything was read before an event at rv. Events may share the
// version of the position until it is closed.
func (p *position) allBefore(rv version) version {
	if p.rv == rv && !p.closed && rv.number > 1 {
		return version{number: rv.number - 1}
	}
	return p.rv
}

// resumeVersion returns where a watch has to start so that nothing after the position is missed. Without bookmarks, the
// position's own version may have been cut in the middle and is read again.
func (p *position) resumeVersion(repeatLast bool) string {
	if repeatLast {
		return p.allBefore(p.rv).String()
	}
	return p.rv.String()
}
