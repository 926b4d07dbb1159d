// Package tail prints records as they are made.
package tail

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
)

// Options describe what is printed.
type Options struct {
	Filter
	Out   io.Writer
	JSON  bool // each record as a line of OTLP/JSON, instead of a line for people
	Color bool
	// Note receives what is printed beside the records, such as that a resource is now watched.
	Note func(string)
}

const (
	// queued is how many lines wait for a slow output.
	queued = 1024
	// patience is how long a batch waits for room. A reader must not wait for a terminal that was stopped, or for a pipe that
	// nobody reads: its streams would be closed, and what it missed would have to be found by comparison.
	patience = 5 * time.Second
)

// Printer is the consumer of a receiver.
type Printer struct {
	Options
	lines   chan string
	done    chan struct{} // the writer has ended
	failed  chan struct{} // writing has failed
	err     error         // why; valid when failed is closed
	dropped atomic.Int64

	mu    sync.Mutex // of what follows
	shown int
	ended bool
}

var _ consumer.Logs = (*Printer)(nil)

// New starts a printer. The caller calls Close.
func New(o Options) *Printer {
	p := &Printer{Options: o, lines: make(chan string, queued), done: make(chan struct{}), failed: make(chan struct{})}
	go func() {
		defer close(p.done)
		for line := range p.lines {
			if p.err != nil {
				continue
			}
			if _, err := io.WriteString(p.Out, line); err != nil {
				p.err = fmt.Errorf("cannot print: %w", err)
				close(p.failed)
			}
		}
	}()
	return p
}

// Capabilities implements [consumer.Logs].
func (p *Printer) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// Failed is closed when the output cannot be written.
func (p *Printer) Failed() <-chan struct{} { return p.failed }

// ConsumeLogs implements [consumer.Logs]. It always accepts the records, at the latest after patience.
func (p *Printer) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	patient := true
	dropped := int64(0)
	for _, resource := range logs.ResourceLogs().All() {
		for _, scope := range resource.ScopeLogs().All() {
			for _, r := range scope.LogRecords().All() {
				p.noteProgress(r)
				if !p.shows(r) {
					continue
				}
				line, err := p.line(resource, scope, r)
				if err != nil {
					return err
				}
				select {
				case p.lines <- line:
					p.shown++
					continue
				default:
				}
				if patient {
					select {
					case p.lines <- line:
						p.shown++
						continue
					case <-timer.C:
					case <-ctx.Done():
					}
					patient = false
				}
				dropped++
			}
		}
	}
	if dropped > 0 && p.dropped.Add(dropped) == dropped {
		p.Note("the output is too slow, leaving out records")
	}
	return nil
}

// noteProgress notes the end of an initial state.
func (p *Printer) noteProgress(r plog.LogRecord) {
	if r.EventName() != "k8s.snapshot.end" {
		return
	}
	what := fold.Resource(r)
	if namespace := text(r, "k8s.namespace.name"); namespace != "" {
		what += " in namespace " + namespace
	}
	objects := int64(0)
	if n, ok := r.Attributes().Get("k8s.snapshot.objects"); ok {
		objects = n.Int()
	}
	p.Note(fmt.Sprintf("watching %s, objects: %d", what, objects))
}

func (p *Printer) line(resource plog.ResourceLogs, scope plog.ScopeLogs, r plog.LogRecord) (string, error) {
	if !p.JSON {
		return format(r, p.Color), nil
	}
	one := plog.NewLogs()
	to := one.ResourceLogs().AppendEmpty()
	resource.Resource().CopyTo(to.Resource())
	to.SetSchemaUrl(resource.SchemaUrl())
	toScope := to.ScopeLogs().AppendEmpty()
	scope.Scope().CopyTo(toScope.Scope())
	toScope.SetSchemaUrl(scope.SchemaUrl())
	r.CopyTo(toScope.LogRecords().AppendEmpty())
	text, err := (&plog.JSONMarshaler{}).MarshalLogs(one)
	if err != nil {
		return "", fmt.Errorf("cannot print a record: %w", err)
	}
	return string(text) + "\n", nil
}

// Close waits until everything is written, for at most a time, and returns how many records were, and how many were left
// out. The writer, if it is blocked for longer, is left alone; it ends with the process. Records that come later are ignored.
func (p *Printer) Close(atMost time.Duration) (shown, dropped int64, err error) {
	p.mu.Lock()
	if !p.ended {
		p.ended = true
		close(p.lines)
	}
	p.mu.Unlock()
	select {
	case <-p.done:
		err = p.err
	case <-time.After(atMost):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := int64(len(p.lines))
	return int64(p.shown) - waiting, p.dropped.Load() + waiting, err
}
