package replay

import (
	"context"
	"fmt"
	"time"
)

// EventKind is what happened to a request.
type EventKind string

// Kinds.
const (
	Began   EventKind = "began"   // the request for the existing objects arrived
	Written EventKind = "written" // their last byte has reached the client's kernel
	Resumed EventKind = "resumed" // a watch from a version began
)

// Event is something that happened to a request for a resource.
type Event struct {
	Kind     EventKind
	Resource *Resource
	At       time.Duration // clock.Now
	List     bool
	Bytes    int64 // uncompressed
	Objects  int
}

// OnEvent makes f be called with every event, before the response continues. Nil removes it.
func (s *Server) OnEvent(f func(Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = f
}

func (s *Server) emit(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hook != nil {
		s.hook(e)
	}
	s.events = append(s.events, e)
	close(s.more)
	s.more = make(chan struct{})
}

// Mark returns the current point in the server's events, for Await.
func (s *Server) Mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

// Await waits for the n-th event of a kind after a mark.
func (s *Server) Await(ctx context.Context, mark int, kind EventKind, n int) (Event, error) {
	for {
		s.mu.Lock()
		more, seen := s.more, 0
		for _, e := range s.events[mark:] {
			if e.Kind != kind {
				continue
			}
			if seen++; seen == n {
				s.mu.Unlock()
				return e, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("request %d was not %s in time: %w", n, kind, ctx.Err())
		}
	}
}
