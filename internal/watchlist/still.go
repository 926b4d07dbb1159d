package watchlist

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

const (
	// stillWatch is how long the server keeps the watch of IsStill open. It sends a bookmark two seconds before the end.
	stillWatch = 5 * time.Second
	// stillTimeout bounds the same, with the time for which the request waits for its turn.
	stillTimeout = 20 * time.Second
)

// IsStill reports whether nothing has happened to the objects of a scope after one version and up to another. false may also
// mean that it does not know.
//
// It asks with a short watch: kube-apiserver sends bookmarks once a minute, and one shortly before the end of a watch.
// https://github.com/kubernetes/kubernetes/blob/v1.37.2/staging/src/k8s.io/apiserver/pkg/storage/cacher/cache_watcher.go
func IsStill(ctx context.Context, opener Opener, of scope.Scope, api scope.API, from, to string) bool {
	ctx, cancel := context.WithTimeout(ctx, stillTimeout)
	defer cancel()
	s := openStream(ctx, opener, Request{Scope: of, API: api, ResourceVersion: from, Timeout: stillWatch})
	defer s.close()
	for {
		for line, ok := s.next(); ok; line, ok = s.next() {
			f, err := parseFrame(line)
			if err != nil || f.event != watch.Bookmark {
				return false
			}
			if mark, err := parseBookmark(f.object); err == nil && mark.rv.atLeast(parseVersion(to)) {
				return true
			}
		}
		select {
		case c := <-s.chunks:
			if s.take(c) != nil || c.head != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}
