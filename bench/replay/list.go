package replay

import (
	"net/http"
	"strconv"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
)

// list answers a LIST, or a page of one: continue is the number of the next object and the list's version.
func (s *Server) list(w http.ResponseWriter, r *http.Request, resource *Resource) {
	began := clock.Now()
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit")) // 0: all
	first, _ := strconv.Atoi(query.Get("continue"))
	last := resource.Count
	if limit > 0 {
		last = min(last, first+limit)
	}
	s.emit(Event{Kind: Began, Resource: resource, At: began, List: true})

	current, _ := resource.history.snapshot()
	version := s.versions.last.Load()
	kind := resource.Objects.Kind
	// kube-apiserver compresses answers of more than 128 KiB.
	a := newAnswer(w, r, jsonType, last-first > 64)
	form := corpus.Item
	if _, as := firstAccepted(r); as == "PartialObjectMetadataList" {
		form = corpus.Partial
		a.buffer = append(a.buffer, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"`...)
	} else {
		a.buffer = append(a.buffer, `{"kind":"`+kind.Kind+`List","apiVersion":"`+kind.APIVersion()+`","metadata":{"resourceVersion":"`...)
	}
	a.buffer = strconv.AppendUint(a.buffer, version, 10)
	if last < resource.Count {
		a.buffer = append(a.buffer, `","continue":"`...)
		a.buffer = strconv.AppendInt(a.buffer, int64(last), 10)
	}
	a.buffer = append(a.buffer, `"},"items":[`...)
	for number := first; number < last && a.err == nil; number++ {
		if number > first {
			a.buffer = append(a.buffer, ',')
		}
		a.buffer = resource.Objects.Append(a.buffer, number, resource.version(current, number), form)
		a.spill()
	}
	a.buffer = append(a.buffer, "]}\n"...)
	a.close()
	if a.err == nil {
		a.err = http.NewResponseController(w).Flush()
	}
	if a.err == nil && last == resource.Count {
		s.emit(Event{Kind: Written, Resource: resource, At: clock.Now(), List: true, Bytes: a.bytes, Objects: last - first})
	}
}

func (r *Resource) version(current map[int]uint64, number int) uint64 {
	if version, ok := current[number]; ok {
		return version
	}
	return r.initialVersion(number)
}
