package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// summary returns the change of an object in one sentence, for a person who reads nothing else of the record:
//
//	Deployment shop/web modified: spec.replicas 3 → 5 (kubectl)
//	Deployment shop/web modified: spec, metadata.labels (kubectl)
//	Pod shop/web-1 marked for deletion
//	Pod shop/web-1 exists (initial state)
//	Pod shop/web-1 deleted (inferred)
//	Pod shop/web-1 BackOff: Back-off restarting failed container web (5 times)
func summary(c *watchlist.Change) string {
	var s strings.Builder
	var remarks []string
	if e := c.Object.Event; e != nil && c.Type != watchlist.Deleted && e.Reason+e.Note != "" {
		writeEvent(&s, e, &c.Object)
		if e.Count > 1 {
			remarks = append(remarks, fmt.Sprintf("%d times", e.Count))
		}
	} else {
		writeName(&s, kindOf(c), c.Object.Namespace, c.Object.Name)
		s.WriteByte(' ')
		if isMarked(c) {
			s.WriteString("marked for deletion")
		} else {
			s.WriteString(verb(c.Type))
		}
		switch {
		case isMarked(c):
		case e != nil && e.Note != "":
			s.WriteString(": ")
			s.WriteString(e.Note)
		case c.Diff != nil && len(c.Diff.Changes) > 0:
			s.WriteString(": ")
			writeDiff(&s, c.Diff)
		case !c.Sections.IsEmpty():
			s.WriteString(": ")
			s.WriteString(strings.Join(c.Sections.Names(), ", "))
		}
	}
	if c.Manager.Name != "" && c.Object.Event == nil { // Events are written by whoever reports, not by who did something
		remarks = append(remarks, c.Manager.Name)
	}
	if how := how(c); how != "" {
		remarks = append(remarks, how)
	}
	if len(remarks) > 0 {
		s.WriteString(" (")
		s.WriteString(strings.Join(remarks, ", "))
		s.WriteByte(')')
	}
	return s.String()
}

// writeEvent writes what an Event reports, of the object that it regards or else of itself.
func writeEvent(s *strings.Builder, e *redact.Event, o *redact.Object) {
	if r := &e.Regarding; r.Kind != "" && r.Name != "" {
		writeName(s, r.Kind, r.Namespace, r.Name)
	} else {
		writeName(s, "Event", o.Namespace, o.Name)
	}
	if e.Reason != "" {
		s.WriteByte(' ')
		s.WriteString(e.Reason)
	}
	if e.Note != "" {
		s.WriteString(": ")
		s.WriteString(e.Note)
	}
}

// kindOf returns the kind of the object, or else the resource.
func kindOf(c *watchlist.Change) string {
	return cmp.Or(c.Object.Kind, c.Scope.GroupResource.String())
}

func writeName(s *strings.Builder, kind, namespace, name string) {
	s.WriteString(kind)
	s.WriteByte(' ')
	if namespace != "" {
		s.WriteString(namespace)
		s.WriteByte('/')
	}
	s.WriteString(name)
}

// isMarked reports whether the change is that the object was marked for deletion. A second mark, as with a shorter grace
// period, is a modification if that is known.
func isMarked(c *watchlist.Change) bool {
	if c.Type != watchlist.Modified || !c.Sections.IsDeletion() {
		return false
	}
	return c.Diff == nil || !slices.ContainsFunc(c.Diff.Changes, func(d diff.Change) bool { return !d.Old.IsAbsent() })
}

func verb(t watchlist.Type) string {
	switch t {
	case watchlist.Added:
		return "added"
	case watchlist.Modified:
		return "modified"
	case watchlist.Deleted:
		return "deleted"
	}
	return "exists"
}

// how returns how the change was learned, unless the watch reported it as it happened.
func how(c *watchlist.Change) string {
	switch {
	case c.Inferred:
		return "inferred"
	case c.Origin == watchlist.Initial:
		return "initial state"
	case c.Origin == watchlist.Live:
		return ""
	}
	return originName(c.Origin)
}

// frameSentence returns the begin or end of a set of snapshots in one sentence.
func frameSentence(c *watchlist.Change) string {
	what := "initial state"
	if c.Origin != watchlist.Initial {
		what = "snapshot"
	}
	what += " of " + scopeText(c.Scope)
	if c.Type == watchlist.SnapshotBegin || c.Snapshot == nil {
		return what + " begins"
	}
	objects := "objects"
	if c.Snapshot.Objects == 1 {
		objects = "object"
	}
	s := fmt.Sprintf("%s ends: %d %s", what, c.Snapshot.Objects, objects)
	if rv := c.Snapshot.ResourceVersion; rv != "" {
		s += " at resource version " + rv
	}
	if c.Snapshot.Incomplete {
		s += ", without what could not be decoded"
	}
	return s
}

// scopeText returns what a reader of the scope reads.
func scopeText(s *scope.Scope) string {
	var what strings.Builder
	what.WriteString(s.GroupResource.String())
	if s.Namespace != "" {
		what.WriteString(" in namespace " + s.Namespace)
	}
	if s.Among != "" {
		what.WriteString(" in namespaces " + s.Among)
	}
	if s.LabelSelector != "" {
		what.WriteString(" with labels " + s.LabelSelector)
	}
	if s.FieldSelector != "" {
		what.WriteString(" with fields " + s.FieldSelector)
	}
	if s.Shard.Divided() {
		what.WriteString(" in shard " + s.Shard.String())
	}
	return what.String()
}
