package watchlist

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// fakeServer answers requests one after the other, in virtual time and without HTTP.
type fakeServer struct {
	answers func(n int, req Request) fakeAnswer

	mu       sync.Mutex
	began    time.Time
	requests []fakeRequest
}

type fakeRequest struct {
	Request
	at time.Duration
}

// fakeAnswer is a response: after the pause it is an error or begins, and then its steps follow.
type fakeAnswer struct {
	queued time.Duration // in our own rate limiter, before the request is sent
	pause  time.Duration
	err    error
	steps  []fakeStep
	end    error // after the last step; nil: it stays open
}

type fakeStep struct {
	after time.Duration
	line  string
	until chan struct{} // the step is repeated until this is closed, and then once more at once
}

func (s *fakeServer) Open(ctx context.Context, req Request) (io.ReadCloser, error) {
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, fakeRequest{req, time.Since(s.began)})
	s.mu.Unlock()
	a := s.answers(n, req)
	if err := sleep(ctx, a.queued); err != nil {
		return nil, err
	}
	if req.OnSent != nil {
		req.OnSent()
	}
	if err := sleep(ctx, a.pause); err != nil {
		return nil, err
	}
	if a.err != nil {
		return nil, a.err
	}
	return &fakeBody{ctx: ctx, answer: a}, nil
}

type fakeBody struct {
	ctx    context.Context
	answer fakeAnswer
	rest   []byte
}

func (b *fakeBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if len(b.answer.steps) == 0 {
			if b.answer.end != nil {
				return 0, b.answer.end
			}
			<-b.ctx.Done()
			return 0, io.EOF // some transports return it then
		}
		step := b.answer.steps[0]
		select {
		case <-b.ctx.Done():
			return 0, io.EOF
		case <-step.until:
			b.answer.steps = b.answer.steps[1:]
		case <-time.After(step.after):
			if step.until == nil {
				b.answer.steps = b.answer.steps[1:]
			}
		}
		b.rest = []byte(step.line + "\n")
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (*fakeBody) Close() error { return nil }

func added(name string, rv int) string { return objectLine("ADDED", name, rv) }

func objectLine(event, name string, rv int) string {
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"ns","uid":"uid-%s","resourceVersion":"%d"}}}`, event, name, name, rv)
}

func bookmarkLine(rv int) string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d"}}}`, rv)
}

func markerLine(rv int) string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`, rv)
}

func errorLine(code int, reason string) string {
	return fmt.Sprintf(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"as told"}}`, code, reason)
}

func lines(all ...string) (steps []fakeStep) {
	for _, line := range all {
		steps = append(steps, fakeStep{line: line})
	}
	return steps
}

func after(d time.Duration, line string) fakeStep { return fakeStep{after: d, line: line} }

// keptChanges accepts everything.
type keptChanges struct {
	mu      sync.Mutex
	changes []Change
}

func (k *keptChanges) Offer(c Change) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes = append(k.changes, c)
	return true
}

func (*keptChanges) WaitForRoom(context.Context) error { return nil }

func (k *keptChanges) gaps() (gaps []GapInfo) {
	for _, c := range k.changes {
		if c.Type == Gap {
			gaps = append(gaps, *c.Gap)
		}
	}
	return gaps
}

// keptStates records the states.
type keptStates struct {
	NopObserver
	states []State
}

func (k *keptStates) StateChanged(s State) { k.states = append(k.states, s) }

// read runs a reader of pods on the server for a while, in virtual time.
func (s *fakeServer) read(t *testing.T, d time.Duration, change ...func(*Options)) (*keptChanges, *keptStates) {
	t.Helper()
	s.began = time.Now()
	return s.readFor(t, d, change...)
}

// readFor is read on a server that has already begun.
func (s *fakeServer) readFor(t *testing.T, d time.Duration, change ...func(*Options)) (*keptChanges, *keptStates) {
	t.Helper()
	kept, states := &keptChanges{}, &keptStates{}
	o := Options{
		Scope: scope.Scope{GroupResource: schema.GroupResource{Resource: "pods"}},
		API:   scope.API{Version: "v1", Kind: "Pod", Namespaced: true},
		Plan:  redact.NewPlan("", "pods"), Opener: s, Emitter: kept, SnapshotSlots: NewSlots(3),
		Now: time.Now, Logger: zap.NewNop(), Observer: states,
		Served: func(context.Context) (bool, error) { return true, nil },
	}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	NewReader(o).Run(ctx)
	return kept, states
}
