package replay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/clock"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/certs"
)

// Server is a running server.
type Server struct {
	resources []*Resource
	leases    leases
	versions  versions
	ca        []byte // PEM
	http      *http.Server
	listener  net.Listener
	closing   chan struct{}
	done      chan struct{}

	mu     sync.Mutex
	events []Event
	more   chan struct{}
	hook   func(Event)
}

// Serves is a resource with a number of objects.
type Serves struct {
	Kind  *corpus.Kind
	Count int
}

// Start starts a server on loopback.
func Start(seed uint64, resources ...Serves) (*Server, error) {
	s := &Server{closing: make(chan struct{}), done: make(chan struct{}), more: make(chan struct{})}
	s.leases.byPath = make(map[string]map[string]any)
	s.versions.last.Store(firstVersion)
	for _, r := range resources {
		s.resources = append(s.resources, newResource(corpus.New(r.Kind, seed), r.Count))
	}
	tlsConfig, err := s.certify()
	if err != nil {
		return nil, err
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	s.http = &http.Server{Handler: s, TLSConfig: tlsConfig, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(s.done)
		_ = s.http.ServeTLS(s.listener, "", "") // it fails only because Close was called
	}()
	return s, nil
}

// certify creates an authority and a certificate for the server.
func (s *Server) certify() (*tls.Config, error) {
	authority, err := certs.NewAuthority("replay")
	if err != nil {
		return nil, err
	}
	s.ca = authority.PEM()
	pair, err := authority.Server("replay")
	if err != nil {
		return nil, err
	}
	return pair.TLS()
}

// Close ends every response and waits for it.
func (s *Server) Close() error {
	close(s.closing)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.done
	return err
}

// URL of the server.
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() }

// CA returns the certificate of the server's authority, as PEM.
func (s *Server) CA() []byte { return s.ca }

// Resource returns the resource with a name such as pods or deployments.apps.
func (s *Server) Resource(name string) *Resource {
	for _, r := range s.resources {
		if r.Objects.Kind.Resource() == name {
			return r
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, resource := range s.resources {
		if r.URL.Path != resource.path {
			continue
		}
		switch {
		case r.Method != http.MethodGet:
			writeStatus(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "this server is read only")
		case isTrue(r.URL.Query().Get("watch")):
			s.watch(w, r, resource)
		default:
			s.list(w, r, resource)
		}
		return
	}
	if !s.lease(w, r) && !s.discover(w, r) {
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
}

func isTrue(value string) bool { return value == "true" || value == "1" }

// Change changes an object of a resource, and returns its new version.
func (s *Server) Change(r *Resource, number int) uint64 {
	version := s.versions.last.Add(1)
	r.history.add(number, version)
	return version
}

// ChangeAt makes that many changes per second until ctx ends, each of another of the first thousand objects, and
// returns their number.
func (s *Server) ChangeAt(ctx context.Context, r *Resource, rate int) int {
	began, made := clock.Now(), 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due := time.Duration(made) * time.Second / time.Duration(rate)
		if wait := due - (clock.Now() - began); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return made
			}
		} else if ctx.Err() != nil {
			return made
		}
		s.Change(r, made%min(r.Count, hotObjects))
		made++
	}
}

// hotObjects is how many objects change.
const hotObjects = 1000

// Times returns the times of the last changes of a resource, by version.
func (s *Server) Times(r *Resource) map[uint64]time.Duration {
	times := make(map[uint64]time.Duration)
	for _, c := range r.history.times() {
		times[c.version] = c.at
	}
	return times
}
