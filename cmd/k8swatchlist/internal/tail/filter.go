package tail

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
)

// Filter selects the records that are shown. An empty list selects all.
type Filter struct {
	Resources  []string // plural, or plural and API group
	Namespaces []string // patterns
	Names      []string // patterns
	Managers   []string // patterns of k8s.change.manager
	Types      []string
	Initial    bool // the objects that exist at the start, too
	Others     bool // records that are not about changes, such as entity events, too
}

// shows reports whether a record is shown. Gaps are shown whatever the names, managers and types: they say that something
// may be missing.
func (f *Filter) shows(r plog.LogRecord) bool {
	object, isObject := fold.FromRecord(r)
	resource := fold.Resource(r)
	namespace := text(r, "k8s.namespace.name")
	if len(f.Resources) > 0 && !slices.Contains(f.Resources, resource) && !slices.Contains(f.Resources, text(r, "k8s.resource.name")) {
		return false
	}
	if namespace != "" && !anyMatches(f.Namespaces, namespace) || isObject && namespace == "" && len(f.Namespaces) > 0 {
		return false
	}
	if !isObject {
		isOther := !strings.HasPrefix(r.EventName(), "k8s.")
		return r.EventName() == "k8s.watch.gap" || isOther && f.Others || !isOther && f.Initial
	}
	return (f.Initial || object.Type != "SNAPSHOT") &&
		(len(f.Types) == 0 || slices.Contains(f.Types, object.Type)) &&
		anyMatches(f.Names, object.Name) &&
		anyMatches(f.Managers, text(r, "k8s.change.manager"))
}

func anyMatches(patterns []string, s string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool { return glob.Match(pattern, s) })
}
