package watchlist

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// version is a resourceVersion. The zero value is none. Nearly all fit a uint64, which keeps the inventory
// free of pointers; what does not (over 19 digits, or the opaque strings of some aggregated APIs) is kept as text.
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
	return version{text: rv}
}

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

// comparable says whether order has a meaning for v: Kubernetes guarantees it for decimal numbers of any
// length, and servers that use anything else can only be asked whether two versions are equal.
// https://github.com/kubernetes/enhancements/issues/5504
func (v version) comparable() bool {
	if v.text == "" {
		return v.number != 0
	}
	_, err := resourceversion.CompareResourceVersion(v.text, v.text)
	return err == nil
}

// compareVersions returns the order of a and b, and false where there is none.
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

// atLeast says that v is known to be b or later. Versions without an order are at least each other
// only when they are equal.
func (v version) atLeast(b version) bool {
	if order, ok := compareVersions(v, b); ok {
		return order >= 0
	}
	return v == b
}

// before says that v is known to be earlier than b.
func (v version) before(b version) bool {
	order, ok := compareVersions(v, b)
	return ok && order < 0
}
