package replay

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
)

// bookmarkInterval is the same as kube-apiserver's.
const bookmarkInterval = time.Minute

// watch answers a watch, from a version or with the existing objects.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource *Resource) {
	began := clock.Now()
	query := r.URL.Query()
	form, contentType := watchForm(r)
	t := watcher{server: s, resource: resource, form: form}
	initial := query.Get("sendInitialEvents") == "true"
	if !initial {
		from, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
		if err != nil || from == 0 {
			writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "this server needs a resourceVersion or sendInitialEvents for a watch")
			return
		}
		var ok bool
		if t.next, ok = resource.history.from(from); !ok {
			writeStatus(w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
			return
		}
	}
	t.answer = newAnswer(w, r, contentType, initial)
	if initial {
		s.emit(Event{Kind: Began, Resource: resource, At: began})
		t.initialState()
		t.flush()
		if t.err != nil {
			return
		}
		s.emit(Event{Kind: Written, Resource: resource, At: clock.Now(), Bytes: t.bytes, Objects: resource.Count})
	} else {
		t.flush() // the headers
		s.emit(Event{Kind: Resumed, Resource: resource, At: began})
	}
	var deadline <-chan time.Time
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		deadline = timer.C
	}
	t.live(r, deadline, query.Get("allowWatchBookmarks") == "true")
	t.close()
}

// watcher is an open watch.
type watcher struct {
	*answer
	server   *Server
	resource *Resource
	form     corpus.Form
	next     uint64 // index of the next change to write
	encoded  []byte // an object as protobuf
}

// initialState writes one event at a time, like kube-apiserver: many small pieces are more work for a client.
func (t *watcher) initialState() {
	current, next := t.resource.history.snapshot()
	t.next = next
	version := t.server.versions.last.Load()
	for number := 0; number < t.resource.Count && t.err == nil; number++ {
		t.frame("ADDED", number, t.resource.version(current, number))
		t.write()
	}
	t.bookmark(version, map[string]string{metav1.InitialEventsAnnotationKey: "true"})
}

func (t *watcher) frame(event string, number int, version uint64) {
	if t.form == corpus.PartialEncoded {
		t.encoded = t.resource.Objects.Append(t.encoded[:0], number, version, t.form)
		t.buffer = appendMessage(t.buffer, event, t.encoded)
		return
	}
	t.buffer = append(t.buffer, `{"type":"`...)
	t.buffer = append(t.buffer, event...)
	t.buffer = append(t.buffer, `","object":`...)
	t.buffer = t.resource.Objects.Append(t.buffer, number, version, t.form)
	t.buffer = append(t.buffer, "}\n"...)
}

func (t *watcher) bookmark(version uint64, annotations map[string]string) {
	kind := t.resource.Objects.Kind
	mark := metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: kind.Kind, APIVersion: kind.APIVersion()},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(version, 10), Annotations: annotations},
	}
	if t.form != corpus.Full {
		mark.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	}
	if t.form == corpus.PartialEncoded {
		t.buffer = appendMessage(t.buffer, "BOOKMARK", encode(&mark))
		return
	}
	content, err := json.Marshal(&mark)
	if err != nil {
		panic(err) // it is our own
	}
	t.buffer = append(t.buffer, `{"type":"BOOKMARK","object":`...)
	t.buffer = append(t.buffer, content...)
	t.buffer = append(t.buffer, "}\n"...)
}

func (t *watcher) live(r *http.Request, deadline <-chan time.Time, bookmarks bool) {
	ticker := time.NewTicker(bookmarkInterval)
	defer ticker.Stop()
	var changes [64]change
	for t.err == nil {
		n, more := t.resource.history.read(t.next, changes[:])
		for _, c := range changes[:n] {
			t.frame("MODIFIED", c.number, c.version)
			t.write()
		}
		if n > 0 {
			t.next += uint64(n)
			t.flush()
			continue
		}
		select {
		case <-more:
		case <-ticker.C:
			if bookmarks {
				t.bookmark(t.server.versions.last.Load(), nil)
				t.flush()
			}
		case <-deadline:
			return
		case <-r.Context().Done():
			return
		case <-t.server.closing:
			return
		}
	}
}
