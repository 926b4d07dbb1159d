package watchlist_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
)

// plannedServer is an API server whose objects change according to a plan. Unlike a scripted one it answers any
// request, like kube-apiserver, from its current objects and a history of the last changes.
type plannedServer struct {
	began   time.Time
	changes []plannedChange
	window  int // how many changes the history holds; 0: all
}

type plannedChange struct {
	after   time.Duration // since the server began
	event   string
	uid     string
	version int
	object  string
}

// planChanges creates random changes of some objects, one in each interval.
func planChanges(seed uint64, n int, interval time.Duration, objectBytes int) []plannedChange {
	random := rand.New(rand.NewPCG(seed, seed))
	const names = 40
	var lives [names]int
	var exists [names]bool
	changes := make([]plannedChange, 0, n)
	for i := range n {
		name := random.IntN(names)
		c := plannedChange{after: time.Duration(i) * interval, event: "MODIFIED", version: 10 + i}
		switch {
		case !exists[name]:
			c.event = "ADDED"
			exists[name] = true
			lives[name]++
		case random.IntN(4) == 0:
			c.event = "DELETED"
			exists[name] = false
		}
		c.uid = scriptUID(fmt.Sprintf("object-%d#%d", name, lives[name]))
		c.object = fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"object-%d","namespace":"default","uid":%q,"resourceVersion":"%d"},"spec":{"pad":%q}}`,
			name, c.uid, c.version, strings.Repeat("x", objectBytes))
		changes = append(changes, c)
	}
	return changes
}

// happened returns how many of the changes have occurred so far.
func (s *plannedServer) happened() int {
	since := time.Since(s.began)
	return sort.Search(len(s.changes), func(i int) bool { return s.changes[i].after > since })
}

// held returns what exists after the first n changes: the last change of each object.
func (s *plannedServer) held(n int) map[string]plannedChange {
	held := map[string]plannedChange{}
	for _, c := range s.changes[:n] {
		if held[c.uid] = c; c.event == "DELETED" {
			delete(held, c.uid)
		}
	}
	return held
}

// listed returns the result of a LIST.
func (s *plannedServer) listed() fold.State {
	state := fold.State{}
	for uid, c := range s.held(s.happened()) {
		state[uid] = strconv.Itoa(c.version)
	}
	return state
}

func (s *plannedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	send := func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, format+"\n", args...) // if the client is gone, the request ends
		w.(http.Flusher).Flush()
	}
	send("")
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	next := sort.Search(len(s.changes), func(i int) bool { return s.changes[i].version > from })
	switch {
	case query.Get("sendInitialEvents") == "true":
		next = s.happened()
		for _, c := range s.held(next) {
			send(`{"type":"ADDED","object":%s}`, c.object)
		}
		s.bookmark(send, next, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
	case s.window > 0 && next < s.happened()-s.window:
		send(`{"type":"ERROR","object":%s}`, statusBody("410 Expired too old resource version"))
		return
	}
	bookmarks := time.NewTicker(time.Minute)
	defer bookmarks.Stop()
	for {
		for ; next < s.happened() && r.Context().Err() == nil; next++ {
			send(`{"type":%q,"object":%s}`, s.changes[next].event, s.changes[next].object)
		}
		var due <-chan time.Time
		if next < len(s.changes) {
			due = time.After(time.Until(s.began.Add(s.changes[next].after)))
		}
		select {
		case <-due:
		case <-bookmarks.C:
			s.bookmark(send, next, "")
		case <-r.Context().Done():
			return
		}
	}
}

// bookmark sends a bookmark after the first n changes.
func (s *plannedServer) bookmark(send func(string, ...any), n int, more string) {
	version := 9
	if n > 0 {
		version = s.changes[n-1].version
	}
	send(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d"%s}}}`, version, more)
}
