package watchlist_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// A script lists the requests that the server expects, in order, and how it answers each. A request is a line without
// indentation; the lines below it are the actions of the answer:
//
//	snapshot rv=7            WatchList from there ("snapshot" alone: without a resourceVersion)
//	metadata rv=7            the same, for the metadata only
//	watch rv=7               plain watch
//	list [continue=x]        one page of a LIST ("list metadata": for the metadata only)
//	until 1m …               that request, any number of times until then
//	* …                      that request, any number of times, until the next expected one arrives
//
//	  ADDED a@5 [b@6 …]      watch events; ns/a for another namespace, a#2 for another UID under the name, a@5:red for a
//	                         content, a@5:red/2 for a generation besides that a controller has seen
//	  BOOKMARK 9             bookmark
//	  MARKER 7               bookmark that ends the initial events
//	  ERROR 410 Expired …    ERROR event
//	  raw …                  a literal line
//	  cut …                  bytes without the newline
//	  deep 20000 a@5         an object with arrays nested that deep
//	  pad 4096               the next object carries a string of that length
//	  items a@5 b@6 rv=7 [continue=x]    the page of a LIST
//	  cut-items a@5 [b@6 …]              the beginning of such a page; then the connection breaks
//	  status 403 Forbidden … HTTP status with a Status body
//	  text 429 5 …           HTTP status with Retry-After and a text/plain body
//	  wait 5s                virtual time passes
//	  at 11m                 … until then since the start
//	  signal x               continues an answer that waits for x
//	  await x                waits for that signal
//	  bookmarks 7 until x    a bookmark every minute until then
//	  begin                  the answer begins, with its headers
//	  hang                   nothing more comes
//	  end                    the response ends normally
//	  reset                  the connection breaks
//
// An unexpected LIST right after the end marker of a snapshot is answered with the objects of that snapshot: the reader
// uses it to confirm a snapshot that lacks many objects.
//
// A watch that does not end stays open until the client closes it, with a bookmark every minute once it has sent a
// version; after "hang" it stays silent.
type scriptedServer struct {
	t     *testing.T
	began time.Time

	mu       sync.Mutex
	expected []*exchange
	trouble  []string
	requests []string
	signals  map[string]chan struct{}
	streamed *exchange // the LIST that agrees with the last snapshot, once that has ended
}

// signal returns a channel that the script closes.
func (s *scriptedServer) signal(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signals == nil {
		s.signals = map[string]chan struct{}{}
	}
	if s.signals[name] == nil {
		s.signals[name] = make(chan struct{})
	}
	return s.signals[name]
}

type exchange struct {
	request string
	actions []string
	repeats bool
	until   time.Duration // repeats until then
}

func parseScript(t *testing.T, script string) []*exchange {
	t.Helper()
	var exchanges []*exchange
	for n, line := range strings.Split(script, "\n") {
		line = strings.TrimRight(line, " \t")
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
		case line == trimmed:
			e := &exchange{request: trimmed}
			e.request, e.repeats = strings.CutPrefix(trimmed, "* ")
			if rest, ok := strings.CutPrefix(trimmed, "until "); ok {
				until, request, _ := strings.Cut(rest, " ")
				e.request = request
				e.until, _ = time.ParseDuration(until)
			}
			exchanges = append(exchanges, e)
		case len(exchanges) == 0:
			t.Fatalf("script line %d: an action before any request: %s", n+1, line)
		default:
			last := exchanges[len(exchanges)-1]
			last.actions = append(last.actions, trimmed)
		}
	}
	return exchanges
}

func describeRequest(r *http.Request) string {
	q := r.URL.Query()
	metadataOnly := strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
	switch {
	case q.Get("watch") == "":
		what := "list"
		if _, namespace, ok := strings.Cut(r.URL.Path, "/namespaces/"); ok {
			what += " " + strings.TrimSuffix(namespace, "/pods")
		}
		if q.Get("resourceVersionMatch") == "Exact" {
			what += " rv=" + q.Get("resourceVersion")
		}
		if metadataOnly {
			what += " metadata"
		}
		if c := q.Get("continue"); c != "" {
			what += " continue=" + c
		}
		return what
	case q.Get("sendInitialEvents") == "true":
		if q.Get("resourceVersionMatch") != "NotOlderThan" || q.Get("allowWatchBookmarks") != "true" {
			return "snapshot with wrong parameters: " + q.Encode()
		}
		what := "snapshot"
		if metadataOnly {
			what = "metadata"
		}
		return strings.TrimSuffix(what+" rv="+q.Get("resourceVersion"), " rv=")
	}
	return "watch rv=" + q.Get("resourceVersion")
}

func (s *scriptedServer) next(request string) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, fmt.Sprintf("%s %s", time.Since(s.began).Round(time.Second), request))
	streamed := s.streamed
	s.streamed = nil
	if request == "list" && streamed != nil && !s.expects(request) {
		return streamed
	}
	if len(s.expected) == 0 {
		s.trouble = append(s.trouble, "unexpected request: "+request)
		return nil
	}
	if until := s.expected[0].until; until > 0 && time.Since(s.began) >= until && len(s.expected) > 1 {
		s.expected = s.expected[1:]
	}
	if s.expected[0].repeats && s.expected[0].request != request && len(s.expected) > 1 {
		s.expected = s.expected[1:]
	}
	e := s.expected[0]
	if e.request != request {
		s.trouble = append(s.trouble, fmt.Sprintf("expected request %q, got %q", e.request, request))
		return nil
	}
	if !e.repeats && e.until == 0 {
		s.expected = s.expected[1:]
	}
	return e
}

// expects reports whether the script has an answer for the request.
func (s *scriptedServer) expects(request string) bool {
	for i, e := range s.expected[:min(2, len(s.expected))] {
		if e.request == request && (i == 0 || s.expected[0].repeats || s.expected[0].until > 0) {
			return true
		}
	}
	return false
}

func (s *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := s.next(describeRequest(r))
	if e == nil {
		<-r.Context().Done()
		return
	}
	a := answer{server: s, w: w, r: r, version: r.URL.Query().Get("resourceVersion")}
	for _, action := range e.actions {
		if !a.do(action) {
			return
		}
	}
	a.do("bookmarks " + a.version + " until the test ends")
}

type answer struct {
	server  *scriptedServer
	w       http.ResponseWriter
	r       *http.Request
	begun   bool
	version string // the last one sent
	pad     int
	objects []string // sent so far
}

func (a *answer) begin() {
	if a.begun {
		return
	}
	a.begun = true
	a.w.Header().Set("Content-Type", "application/json")
	a.w.WriteHeader(http.StatusOK)
	a.w.(http.Flusher).Flush()
}

func (a *answer) write(s string) {
	a.begin()
	_, _ = a.w.Write([]byte(s))
	a.w.(http.Flusher).Flush()
}

// do performs an action and returns false when the answer is over.
func (a *answer) do(action string) bool {
	verb, rest, _ := strings.Cut(action, " ")
	switch verb {
	case "ADDED", "MODIFIED", "DELETED":
		for _, object := range strings.Fields(rest) {
			a.write(fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", verb, a.object(object)))
			if _, rv, _ := strings.Cut(object, "@"); a.version != "" {
				a.version, _, _ = strings.Cut(rv, ":")
			}
			if verb == "ADDED" {
				a.objects = append(a.objects, object)
			}
		}
	case "BOOKMARK":
		a.version = rest
		a.write(fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":%q,"creationTimestamp":null}}}`+"\n", rest))
	case "MARKER":
		a.version = rest
		a.server.mu.Lock()
		a.server.streamed = &exchange{request: "list", actions: []string{"items " + strings.Join(append(a.objects, "rv="+rest), " ")}}
		a.server.mu.Unlock()
		a.write(fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":%q,"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", rest))
	case "ERROR":
		a.write(fmt.Sprintf(`{"type":"ERROR","object":%s}`+"\n", statusBody(rest)))
	case "raw":
		a.write(rest + "\n")
	case "cut":
		a.write(rest)
	case "deep":
		depth, name, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(depth)
		object := strings.TrimSuffix(a.object(name), "}") + `,"spec":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
		a.write(fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", object))
	case "pad":
		a.pad, _ = strconv.Atoi(rest)
	case "items":
		a.page(rest)
		return false
	case "cut-items":
		a.cutPage(rest)
	case "status":
		body := statusBody(rest)
		code, _, _ := strings.Cut(rest, " ")
		n, _ := strconv.Atoi(code)
		a.w.Header().Set("Content-Type", "application/json")
		a.w.WriteHeader(n)
		_, _ = a.w.Write([]byte(body))
		return false
	case "text":
		fields := strings.SplitN(rest, " ", 3)
		n, _ := strconv.Atoi(fields[0])
		a.w.Header().Set("Content-Type", "text/plain")
		if fields[1] != "-" {
			a.w.Header().Set("Retry-After", fields[1])
		}
		a.w.WriteHeader(n)
		_, _ = a.w.Write([]byte(fields[2]))
		return false
	case "wait", "at":
		d, err := time.ParseDuration(rest)
		if err != nil {
			a.server.t.Errorf("bad duration in script: %s", action)
		}
		if verb == "at" {
			d = time.Until(a.server.began.Add(d))
		}
		select {
		case <-time.After(d):
		case <-a.r.Context().Done():
			return false
		}
	case "signal":
		close(a.server.signal(rest))
	case "await":
		return a.waitUntil(a.server.signal(rest), nil)
	case "bookmarks":
		version, name, _ := strings.Cut(rest, " until ")
		if version == "" {
			return a.waitUntil(a.server.signal(name), nil)
		}
		return a.waitUntil(a.server.signal(name), func() { a.do("BOOKMARK " + version) })
	case "begin":
		a.begin()
	case "hang":
		a.begin()
		<-a.r.Context().Done()
		return false
	case "end":
		a.begin()
		return false
	case "reset":
		panic(http.ErrAbortHandler)
	default:
		a.server.t.Errorf("unknown action in script: %s", action)
	}
	return true
}

// waitUntil waits for the signal, and calls everyMinute in the meantime.
func (a *answer) waitUntil(signal chan struct{}, everyMinute func()) bool {
	a.begin()
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-signal:
			return true
		case <-a.r.Context().Done():
			return false
		case <-ticker.C:
			if everyMinute != nil {
				everyMinute()
			}
		}
	}
}

func (a *answer) page(rest string) {
	meta := map[string]string{}
	var items []json.RawMessage
	for _, field := range strings.Fields(rest) {
		if key, value, ok := strings.Cut(field, "="); ok {
			meta[map[string]string{"rv": "resourceVersion", "continue": "continue"}[key]] = value
			continue
		}
		// In a LIST of a built-in resource, items have neither kind nor apiVersion.
		items = append(items, json.RawMessage(strings.Replace(a.object(field), `"kind":"Pod","apiVersion":"v1",`, "", 1)))
	}
	body, _ := json.MarshalIndent(map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items}, "", " ")
	a.w.Header().Set("Content-Type", "application/json")
	_, _ = a.w.Write(body)
}

// cutPage writes a page up to the last of the items, and breaks the connection.
func (a *answer) cutPage(rest string) {
	items := []string{}
	for _, field := range strings.Fields(rest) {
		items = append(items, a.object(field))
	}
	a.write(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + strings.Join(items, ",") + `,{"meta`)
	panic(http.ErrAbortHandler)
}

func statusBody(rest string) string {
	fields := append(strings.SplitN(rest, " ", 3), "", "")
	code, _ := strconv.Atoi(fields[0])
	status := map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": fields[1], "message": fields[2]}
	if fields[1] == "Timeout" && strings.HasPrefix(fields[2], "Too large") {
		status["details"] = map[string]any{
			"causes":            []any{map[string]any{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}},
			"retryAfterSeconds": 1,
		}
	}
	b, _ := json.Marshal(status)
	return string(b)
}

// object returns the object that a name like ns/a#2@5 denotes.
func (a *answer) object(s string) string {
	name, rv, _ := strings.Cut(s, "@")
	rv, content, _ := strings.Cut(rv, ":")
	namespace, plain := "default", name
	if ns, n, ok := strings.Cut(name, "/"); ok {
		namespace, plain = ns, n
	}
	plain, _, _ = strings.Cut(plain, "#")
	meta := fmt.Sprintf(`"name":%q,"namespace":%q,"resourceVersion":%q`, plain, namespace, rv)
	if !strings.HasPrefix(plain, "nouid") {
		meta += fmt.Sprintf(`,"uid":%q`, scriptUID(name))
	}
	pad := ""
	if a.pad > 0 {
		pad = fmt.Sprintf(`,"spec":{"pad":%q}`, strings.Repeat("x", a.pad))
		a.pad = 0
	}
	if content != "" {
		content, seen, _ := strings.Cut(content, "/")
		pad += fmt.Sprintf(`,"spec":{"content":%q}`, content)
		if seen != "" {
			pad += fmt.Sprintf(`,"status":{"observedGeneration":%s}`, seen)
		}
	}
	if strings.Contains(a.r.Header.Get("Accept"), "as=PartialObjectMetadata;") {
		return fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{%s}}`, meta)
	}
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{%s}%s}`, meta, pad)
}

// scriptUID returns the UID of a name with its namespace and number: stable, and a UUID unless the name requests
// another form.
func scriptUID(name string) string {
	if strings.HasPrefix(name, "odd-") {
		return "uid:" + name
	}
	sum := sha256.Sum256([]byte(name))
	id, _ := uuid.FromBytes(sum[:16])
	return id.String()
}
