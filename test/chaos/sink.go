package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/plog"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otlp"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// Batch is the stored content of one request.
type Batch struct {
	At      time.Time
	Begun   time.Time // when it had arrived; it is stored later if the sink blocks
	Life    int       // of the Collector that sent it
	Records []harness.Record
	// Doubt is why the Collector may not know that the batch was stored; "" if it certainly got the answer.
	Doubt string
	// Late means that another replica had begun a later term before it was stored.
	Late bool
}

// Sink is an OTLP/gRPC server for logs. Its records stay stored, as on a disk, whether or not its answer arrived. It
// can be killed, which closes its connections at any point.
type Sink struct {
	address string

	mu        sync.Mutex
	server    *otlp.Sink // nil after a kill
	behaviour behaviour
	changed   chan struct{} // closed when the behaviour changes
	batches   []*Batch
	stored    chan struct{} // closed when the next batch is stored
	records   int
	poison    *Poison
	denied    map[denial]bool         // permanently refused, and not because of something else in the batch
	deniedGap map[string][]Gap        // permanently refused gap records, by resource
	deniedSet map[string][]RefusedSet // sets of which the begin or the end was permanently refused, likewise
	refusals  map[string]int          // permanently refused records, by resource
	states    map[string]*consumer    // built from the records, by resource
	replicas  bool
}

type behaviour int

const (
	accepting    behaviour = iota
	unavailable            // refuses temporarily
	exhausted              // refuses temporarily, like a server short of a resource
	blocking               // neither stores nor answers
	unanswering            // stores, but never answers
	losingAnswer           // stores, and reports failure
	denying                // refuses permanently
)

// Poison names an object whose records the sink refuses, with every batch that has one.
type Poison struct{ Resource, Name string }

func (p *Poison) is(record harness.Record) bool {
	return p != nil && record.Object != nil && record.Resource == p.Resource && record.Object.Name == p.Name
}

// denial is a version of an object that was permanently refused.
type denial struct {
	resource string
	revisionOf
}

// lifeHeader is the header with the life of the Collector that sent a request.
const lifeHeader = "chaos-life"

// StartSink starts a sink that ends with the test.
func StartSink(t testing.TB, replicas bool) *Sink {
	t.Helper()
	s := &Sink{address: harness.FreeAddress(t), changed: make(chan struct{}), stored: make(chan struct{}), states: map[string]*consumer{}, replicas: replicas,
		denied: map[denial]bool{}, deniedGap: map[string][]Gap{}, deniedSet: map[string][]RefusedSet{}, refusals: map[string]int{}}
	s.Start(t)
	t.Cleanup(s.Kill)
	return s
}

// Address returns host:port, which is the same after every restart.
func (s *Sink) Address() string { return s.address }

// Start listens again after Kill.
func (s *Sink) Start(t testing.TB) {
	t.Helper()
	var server *otlp.Sink
	harness.Poll(t, 30*time.Second, "the sink's address to be free", func() string {
		var err error
		if server, err = otlp.Listen(s.address, s.receive); err != nil {
			return err.Error()
		}
		return ""
	})
	s.mu.Lock()
	s.server = server
	s.mu.Unlock()
}

// answerFlight is how long an answer may take from the server to the wire.
const answerFlight = time.Second

// Kill closes everything at once. The last stored batch of each life of the Collector may thus remain unanswered, if it
// was stored just before.
func (s *Sink) Kill() {
	s.mu.Lock()
	server := s.server
	s.server = nil
	now := time.Now()
	last := map[int]*Batch{}
	for _, batch := range s.batches {
		last[batch.Life] = batch
	}
	for _, batch := range last {
		if batch.Doubt == "" && now.Sub(batch.At) < answerFlight {
			batch.Doubt = "the sink was killed as it answered"
		}
	}
	s.mu.Unlock()
	if server != nil {
		_ = server.Stop() // if it had failed, nothing would be stored, and the run would fail
	}
}

func (s *Sink) behave(b behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviour = b
	close(s.changed)
	s.changed = make(chan struct{})
}

// AwaitStored waits until one more batch is stored, and reports whether one was.
func (s *Sink) AwaitStored(ctx context.Context, within time.Duration) bool {
	s.mu.Lock()
	stored := s.stored
	s.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-stored:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// receive implements otlp.Handle.
func (s *Sink) receive(ctx context.Context, logs plog.Logs) error {
	begun := time.Now()
	behaviour, err := s.admit(ctx)
	if err != nil {
		return err
	}
	var records harness.Records
	records.Add(logs)
	if err := s.deny(behaviour, records.All()); err != nil {
		return err
	}
	batch := &Batch{At: time.Now(), Begun: begun, Life: lifeOf(ctx), Records: records.All()}
	switch behaviour {
	case unanswering:
		batch.Doubt = "the sink stored it and was killed before its answer"
	case losingAnswer:
		batch.Doubt = "the sink stored it and its answer was lost"
	}
	if !s.store(ctx, batch) {
		return status.Error(codes.Unavailable, "the caller has gone")
	}
	switch behaviour {
	case unanswering:
		<-ctx.Done()
		return ctx.Err()
	case losingAnswer:
		return status.Error(codes.Unavailable, "the answer is lost")
	}
	s.answer(ctx, batch)
	return nil
}

// deny returns why records are refused permanently, if they are.
func (s *Sink) deny(b behaviour, records []harness.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	poisoned := slices.ContainsFunc(records, s.poison.is)
	if b != denying && !poisoned {
		return nil
	}
	for _, record := range records {
		if b != denying && !s.poison.is(record) {
			continue // it has to be repeated without the rest of its batch
		}
		s.refusals[record.Resource]++
		switch {
		case record.Object != nil:
			s.denied[denial{record.Resource, revisionOf{record.Object.UID, number(record.Object.ResourceVersion)}}] = true
		case record.Event == gapEvent:
			s.deniedGap[record.Resource] = append(s.deniedGap[record.Resource], newGap(record, time.Now()))
		default:
			s.deniedSet[record.Resource] = append(s.deniedSet[record.Resource], RefusedSet{streamText(record, "k8s.namespace.name"), time.Now()})
		}
	}
	if b == denying {
		return status.Error(codes.PermissionDenied, "you may not write")
	}
	return status.Error(codes.InvalidArgument, "a record cannot be understood")
}

// Poisoned makes the sink refuse the records of an object from now on; nil ends that.
func (s *Sink) Poisoned(p *Poison) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.poison = p
}

// deniedVersions returns the versions of objects that were permanently refused.
func (s *Sink) deniedVersions() map[denial]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.denied)
}

// deniedGaps returns the gap records of a resource that were permanently refused.
func (s *Sink) deniedGaps(resource string) []Gap {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deniedGap[resource])
}

// RefusedSet is a set of snapshots of a namespace, or of all if that is "".
type RefusedSet struct {
	Namespace string
	At        time.Time
}

// deniedSets returns the sets of a resource of which the begin or the end was permanently refused.
func (s *Sink) deniedSets(resource string) []RefusedSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deniedSet[resource])
}

// Refused returns how many records were permanently refused, by resource.
func (s *Sink) Refused() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.refusals)
}

func lifeOf(ctx context.Context) int {
	headers, _ := metadata.FromIncomingContext(ctx)
	if values := headers.Get(lifeHeader); len(values) == 1 {
		if life, err := strconv.Atoi(values[0]); err == nil {
			return life
		}
	}
	return 0
}

// admit returns how the sink treats a request that it may store.
func (s *Sink) admit(ctx context.Context) (behaviour, error) {
	for {
		s.mu.Lock()
		behaviour, changed := s.behaviour, s.changed
		s.mu.Unlock()
		switch behaviour {
		case unavailable:
			return behaviour, status.Error(codes.Unavailable, "not now")
		case exhausted:
			// Without this detail it would be permanent. https://opentelemetry.io/docs/specs/otlp/#otlpgrpc-throttling
			refusal, err := status.New(codes.ResourceExhausted, "full").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(100 * time.Millisecond)})
			if err != nil {
				return behaviour, err
			}
			return behaviour, refusal.Err()
		case blocking:
			select {
			case <-changed:
			case <-ctx.Done():
				return behaviour, ctx.Err()
			}
		default:
			return behaviour, nil
		}
	}
}

// store stores a batch, unless its sender is already gone.
func (s *Sink) store(ctx context.Context, batch *Batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	s.batches = append(s.batches, batch)
	s.records += len(batch.Records)
	for _, record := range batch.Records {
		state := s.states[record.Resource]
		if state == nil {
			state = newConsumer(s.replicas)
			s.states[record.Resource] = state
		}
		state.add(batch.Life, record)
	}
	close(s.stored)
	s.stored = make(chan struct{})
	return true
}

// answer records whether the answer that is being sent can arrive.
func (s *Sink) answer(ctx context.Context, batch *Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline, ok := ctx.Deadline()
	switch {
	case batch.Doubt != "":
	case ctx.Err() != nil:
		batch.Doubt = "the caller went before the answer"
	case s.server == nil:
		batch.Doubt = "the sink was killed before its answer"
	case ok && time.Until(deadline) < answerFlight:
		batch.Doubt = "the answer came as the caller's time was up"
	}
}

// Batches returns the stored batches, in order.
func (s *Sink) Batches() []*Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batches[:len(s.batches):len(s.batches)]
}

// Stored returns the number of stored batches and records.
func (s *Sink) Stored() (batches, records int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.batches), s.records
}

// Differences returns how the fold of a resource's records differs from what the API server lists.
func (s *Sink) Differences(resource string, lives []Life, listed fold.State, same fold.Same) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	state := fold.State{}
	if c := s.states[resource]; c != nil {
		state = c.state
	}
	if len(state.DifferencesBut(listed, same)) > 0 {
		state, _ = forget(state, unstored(lives, s.batches, resource), listed)
	}
	for _, difference := range state.DifferencesBut(listed, same) {
		found = append(found, fmt.Sprintf("%s: %s", resource, difference))
	}
	return found
}
