package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Selected namespaces are read in one stream of all namespaces. Where the right for that is missing, they are read one by one,
// as far as they are known. This is decided before a reader starts, and not changed later: a reader of all namespaces would take
// over the checkpoints of the others.

// access is whether a scope of all namespaces may be read.
type access struct {
	answers chan error // one answer
	known   bool
	refused error // nil: it may be read, or the answer said nothing about it
}

// askTimeout bounds the request that finds out. Without an answer, the reader of all namespaces starts.
const askTimeout = 10 * time.Second

// mayReadAll reports whether a scope of all namespaces may be read, once that is known.
func (c *Catalog) mayReadAll(ctx context.Context, key scope.Scope, api scope.API) (known bool, refused error) {
	a := c.access[key]
	if a == nil {
		a = &access{answers: make(chan error, 1)}
		c.access[key] = a
		c.readers.Go(func() {
			a.answers <- ask(ctx, c.Server, key, api)
			select {
			case c.namespaces.changed <- struct{}{}:
			default:
			}
		})
	}
	select {
	case a.refused = <-a.answers:
		a.known = true
	default:
	}
	return a.known, a.refused
}

// ask opens a watch from a version that is too old, which costs the server nothing, and returns an error if the right is
// missing.
func ask(ctx context.Context, opener watchlist.Opener, key scope.Scope, api scope.API) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := opener.Open(ctx, watchlist.Request{Scope: key, API: api, ResourceVersion: "1", MetadataOnly: true, Timeout: time.Second})
	if err == nil {
		_ = body.Close()
		return nil
	}
	if apierrors.IsForbidden(err) && kubeclient.Answered(err) {
		return err
	}
	return nil
}

// split is a wanted scope of selected namespaces that are read one by one.
type split struct {
	wanted
	among   scope.Namespaces
	removed map[scope.Scope]bool // scopes whose readers were told that their namespaces are no longer selected
	since   time.Time
	logged  bool
}

// askAgainAfter is how long nothing is read of a scope for which all rights are missing.
const askAgainAfter = 5 * time.Minute

// followSplits makes each namespace that is selected in a split scope wanted, and ends the readers of those that no longer are.
func (c *Catalog) followSplits(ctx context.Context) {
	for key, s := range c.splits {
		names, complete, err := c.namesIn(ctx, s)
		c.reportSplit(key, s, names, err)
		if err != nil && len(names) == 0 && time.Since(s.since) >= askAgainAfter {
			delete(c.splits, key)
			delete(c.access, key)
			c.wanted[key] = s.wanted
			c.order = append(c.order, key)
			continue
		}
		selected := make(map[scope.Scope]bool)
		for _, name := range names {
			one := key
			one.Namespace, one.Among = name, ""
			selected[one] = true
			if w, known := c.wanted[one]; known {
				w.api = s.api
				c.wanted[one] = w
				continue
			}
			c.wanted[one] = s.wanted
			c.order = append(c.order, one)
		}
		for one, r := range c.running {
			if !complete || s.removed[one] || selected[one] || !s.includes(key, one) {
				continue
			}
			s.removed[one] = true
			r.reader.Remove()
		}
	}
}

// includes reports whether a scope is one of a namespace of the split scope.
func (s *split) includes(key, one scope.Scope) bool {
	namespace := one.Namespace
	one.Namespace, one.Among = "", key.Among
	return one == key && namespace != "" && s.among.Match(namespace)
}

// namesIn returns the namespaces that a split scope selects, as far as they are known, or nil if none is known yet. complete
// means that all of them are known.
func (c *Catalog) namesIn(ctx context.Context, s *split) (names []string, complete bool, err error) {
	members, listed, err := c.namespaces.of(ctx, c, s.among.Labels).current()
	switch {
	case listed:
		names = slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(name string) bool { return !s.among.Match(name) })
		if names == nil {
			names = []string{}
		}
		return names, true, nil
	case err == nil:
		return nil, false, nil
	case s.among.Labels != "":
		return nil, false, err
	}
	for _, name := range s.among.Include {
		if !glob.Has(name) && s.among.Match(name) {
			names = append(names, name)
		}
	}
	return names, false, err
}

// reportSplit reports, once, what is read instead of all namespaces, and which right is missing.
func (c *Catalog) reportSplit(key scope.Scope, s *split, names []string, err error) {
	refused := c.access[key].refused
	grant := fmt.Sprintf("grant list and watch on %s (API group %q) in all namespaces by a ClusterRole", key.Resource, key.Group)
	if err == nil {
		c.report(key.String(), "", nil)
		if names != nil && !s.logged {
			s.logged = true
			level := zap.WarnLevel
			if s.spec.Pattern != nil {
				level = zap.InfoLevel
			}
			c.Logger.Log(level, "no right to read the resource in all namespaces, reading the selected ones one by one: "+grant+" to read it in one stream",
				append(key.LogFields(), zap.Int("number", len(names)), zap.Error(refused))...)
		}
		return
	}
	what := "nothing of it is read"
	if len(names) > 0 {
		what = "only namespaces that are named are read"
	}
	err = fmt.Errorf("%s: %s, since neither the resource nor namespaces may be read in all namespaces: %s, or list and watch on namespaces: %w",
		s.spec.key(), what, grant, refused)
	const message = "cannot read the selected namespaces, will try again"
	if s.spec.Pattern == nil {
		c.report(key.String(), message, err)
	} else if !s.logged { // a pattern selects what may be read
		s.logged = true
		c.Logger.Info(message, append(key.LogFields(), zap.Error(err))...)
	}
}

// splitRefused splits the wanted scopes of all namespaces that may not be read. Their readers have not started.
func (c *Catalog) splitRefused(ctx context.Context) {
	for key, w := range c.wanted {
		if key.Among == "" || c.running[key] != nil {
			continue
		}
		known, refused := c.mayReadAll(ctx, key, w.api)
		switch {
		case known && refused == nil:
			c.report(key.String(), "", nil)
		case known:
			c.splits[key] = &split{wanted: w, among: key.Namespaces(), removed: make(map[scope.Scope]bool), since: time.Now()}
			delete(c.wanted, key)
			c.order = slices.DeleteFunc(c.order, func(s scope.Scope) bool { return s == key })
		}
	}
}

// endSplits is called when the reader of a namespace has ended: because the namespace is no longer selected, or the resource no
// longer served.
func (c *Catalog) endSplits(one scope.Scope) {
	for key, s := range c.splits {
		switch {
		case !s.includes(key, one):
		case s.removed[one]:
			delete(s.removed, one)
		default:
			delete(c.splits, key)
			delete(c.access, key)
		}
	}
}
