package takeover

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/checkpoint"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// PublisherOptions configure a publisher.
type PublisherOptions struct {
	Leases   Leases
	Identity string        // of this process
	Interval time.Duration // between two writes
	// Heartbeat is how often the progress is written even if nothing has changed; 0 is never.
	Heartbeat time.Duration
	// Timeout bounds a request.
	Timeout time.Duration

	// Known is the newest progress that this replica knows of. If what is published is older, etcd was set back.
	Known Progress
	// SetBack returns the readers, by their keys, of which this replica has found that etcd was set back. nil: there are none.
	SetBack func() []string

	// Positions calls its argument with how far the records of every reader were accepted; see [checkpoint.Keeper].
	Positions func(func(of scope.Scope, p checkpoint.Position))
	// Proved is called when a write succeeded, with the time at which it was sent. nil: nobody needs it.
	Proved func(term int, sent time.Time)
	// Read is called with what was read. nil: nobody needs it.
	Read func(*Progress)
	// May reports whether this replica is still to lead, after Read was called. nil: it always is.
	May func() bool
	// Published is called after every write, with its error; see also [IsConflict]. nil: nobody needs it.
	Published func(error)
	// Report is called with an error when publishing begins to fail, and with nil when it works again.
	Report func(error)
}

// Publisher publishes, for one term, how far the leader's records were accepted.
type Publisher struct {
	PublisherOptions

	urgent chan struct{}

	mu      sync.Mutex
	queued  map[string]string // by reader, the newest version of a created object in the queue
	until   map[string]string // wanted: see Position.Until
	ended   map[string]string // wanted: see Position.Ended
	anew    map[string]begun  // wanted: see Position.Anew
	setBack map[string]bool   // wanted: see Position.SetBack
	// compared is that of each reader when it was found to be set back; see checkpoint.Position.
	compared map[string]uint64
	now      Progress      // as last read or written
	wrote    chan struct{} // closed at the next write
	checked  time.Time     // when it was last written or read
	failing  bool
	written  time.Time
	current  time.Time // see Current
}

// ErrTermOver is returned when another replica has begun a later term.
var ErrTermOver = errors.New("another replica has begun a later term")

// ErrSetBack is returned when etcd was set back, and the progress with it. What was emitted is no longer what the API server holds,
// so that everything has to be compared.
var ErrSetBack = errors.New("etcd was set back to an earlier state")

// checkEvery is after how many intervals without a change the progress is read: somebody may have deleted or damaged it.
const checkEvery = 5

// errEdited: the progress is not what was written.
var errEdited = errors.New("somebody has changed the progress")

// NewPublisher returns a publisher that continues from what was published.
func NewPublisher(o PublisherOptions) *Publisher {
	return &Publisher{
		PublisherOptions: o,
		urgent:           make(chan struct{}, 1),
		queued:           make(map[string]string),
		until:            make(map[string]string),
		ended:            make(map[string]string),
		anew:             make(map[string]begun),
		setBack:          make(map[string]bool),
		compared:         make(map[string]uint64),
		wrote:            make(chan struct{}),
	}
}

// Begin writes the term of this replica on top of what is published, and returns what was. From then on no earlier leader can
// publish. It tries until ctx ends.
func (p *Publisher) Begin(ctx context.Context) (before Progress, err error) {
	for {
		before, err = p.begin(ctx)
		p.report(ctx, err)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrTermOver) {
			return before, err
		}
		select {
		case <-time.After(p.pause(err)):
		case <-ctx.Done():
			return before, ctx.Err()
		}
	}
}

func (p *Publisher) begin(ctx context.Context) (Progress, error) {
	request, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	before, err := Read(request, p.Leases)
	if err != nil {
		return Progress{}, err
	}
	if p.Read != nil {
		p.Read(&before)
	}
	if p.May != nil && !p.May() {
		return Progress{}, ErrTermOver
	}
	var found []string
	if p.SetBack != nil {
		found = p.SetBack()
	}
	switch {
	case before.IsBehind(&p.Known):
		there := before.lease
		before = p.Known.setBack(slices.Collect(maps.Keys(p.Known.Readers)))
		before.lease = there
	case slices.ContainsFunc(found, func(key string) bool { _, ok := before.Readers[key]; return ok }):
		before = before.setBack(found)
	}
	mine := before
	mine.Term, mine.Holder = before.Term+1, p.Identity
	if err := p.put(request, mine); err != nil {
		return Progress{}, err
	}
	return before, nil
}

// Last returns the progress as this replica has last read or written it.
func (p *Publisher) Last() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// Term returns the term of this replica.
func (p *Publisher) Term() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Term
}

// Current returns when what was published was last complete.
func (p *Publisher) Current() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// put writes the progress and notes the result.
func (p *Publisher) put(ctx context.Context, wanted Progress) error {
	sent := time.Now()
	written, err := wanted.write(ctx, p.Leases)
	if p.Published != nil {
		p.Published(err)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.now, p.written, p.current, p.checked = written, sent, sent, sent
	close(p.wrote)
	p.wrote = make(chan struct{})
	p.mu.Unlock()
	if p.Proved != nil {
		p.Proved(written.Term, sent)
	}
	return nil
}

// Run publishes until ctx ends, or returns ErrTermOver or ErrSetBack.
func (p *Publisher) Run(ctx context.Context) error {
	ticker := time.NewTicker(p.Interval)
	defer ticker.Stop()
	for {
		urgent := false
		select {
		case <-ticker.C:
		case <-p.urgent:
			urgent = true
		case <-ctx.Done():
			return ctx.Err()
		}
		err := p.Publish(ctx)
		if errors.Is(err, ErrTermOver) || errors.Is(err, ErrSetBack) {
			return err
		}
		if err != nil && urgent { // somebody waits for it
			select {
			case <-time.After(p.pause(err)):
				signal(p.urgent)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// pause is how long to wait after an error. A conflict is settled by reading.
func (p *Publisher) pause(err error) time.Duration {
	if IsConflict(err) {
		return 0
	}
	return min(p.Interval, 500*time.Millisecond)
}

// IsConflict reports whether another replica has written in the meantime.
func IsConflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// Publish writes how far the records were accepted, if that has changed.
func (p *Publisher) Publish(ctx context.Context) error {
	request, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	err := p.publish(request)
	if IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, errEdited) {
		err = p.readAgain(request)
		if err == nil {
			wanted, _ := p.wanted()
			err = p.put(request, wanted)
		}
	}
	p.report(ctx, err)
	return err
}

func (p *Publisher) publish(ctx context.Context) error {
	asked := time.Now()
	wanted, changed := p.wanted()
	if changed {
		return p.put(ctx, wanted)
	}
	p.mu.Lock()
	p.current = asked
	due := asked.Sub(p.checked) >= checkEvery*p.Interval
	p.mu.Unlock()
	if !due {
		return nil
	}
	there, err := Read(ctx, p.Leases)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checked = asked; there.IsSame(&p.now) {
		return nil
	}
	return errEdited
}

// readAgain reads what somebody else has written, or this replica itself without having received the answer.
func (p *Publisher) readAgain(ctx context.Context) error {
	there, err := Read(ctx, p.Leases)
	if err != nil {
		return err
	}
	if p.Read != nil {
		p.Read(&there)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if there.Term > p.now.Term || there.Term == p.now.Term && there.Holder != p.Identity {
		return ErrTermOver
	}
	if there.IsBehind(&p.now) {
		return ErrSetBack
	}
	p.now.lease = there.lease // what it held was damaged, or is older
	return nil
}

// wanted returns what is to be published, and reports whether that differs from what is.
func (p *Publisher) wanted() (Progress, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := p.now
	wanted.Readers = maps.Clone(p.now.Readers) // including those that only other replicas read
	if wanted.Readers == nil {
		wanted.Readers = make(map[string]Position)
	}
	known := make(map[string]bool)
	p.Positions(func(of scope.Scope, at checkpoint.Position) {
		key := Key(of)
		before := p.now.Readers[key]
		now := positionOf(at)
		now.Anew = now.Anew || p.beginsAnew(key, &at) && now.Known()
		if !now.Known() && before.Known() { // the initial state is being emitted again
			now.W, now.Closed, now.At, now.Anew = before.W, before.Closed, before.At, true
		}
		if p.noteSetBack(key, &at, &before, &now) {
			wanted.Generation = p.now.Generation + 1
		}
		if until := later(before.Until, p.until[key]); !atLeast(now.W, until) {
			now.Until = until
		}
		if !now.Known() {
			now.Ended = cmp.Or(before.Ended, p.ended[key])
		}
		wanted.Readers[key] = now
		known[key] = true
	})
	for key := range p.until { // of readers without a checkpoint, since the storage fails
		if at := wanted.Readers[key]; !known[key] {
			at.Until = later(at.Until, p.until[key])
			wanted.Readers[key] = at
		}
	}
	for key := range p.anew {
		if at := wanted.Readers[key]; !known[key] && at.Known() {
			at.Anew = true
			wanted.Readers[key] = at
		}
	}
	for key := range p.ended {
		if at := wanted.Readers[key]; !known[key] && !at.Known() {
			at.Ended = cmp.Or(at.Ended, p.ended[key])
			wanted.Readers[key] = at
		}
	}
	due := p.Heartbeat > 0 && time.Since(p.written) >= p.Heartbeat
	return wanted, due || !reflect.DeepEqual(wanted.Readers, p.now.Readers)
}

// begun is an initial state that is about to be emitted again.
type begun struct {
	noted    bool
	compared uint64 // that of the position before; see checkpoint.Position
}

// beginsAnew reports whether an initial state that was announced has not been accepted as a whole.
func (p *Publisher) beginsAnew(key string, at *checkpoint.Position) bool {
	b, ok := p.anew[key]
	switch {
	case !ok:
		return false
	case !b.noted:
		p.anew[key] = begun{true, at.Compared}
	case at.Compared > b.compared:
		delete(p.anew, key)
		return false
	}
	return true
}

// noteSetBack keeps a position of the earlier history after etcd was set back, until everything was compared. It reports whether a
// later history begins.
func (p *Publisher) noteSetBack(key string, at *checkpoint.Position, before, now *Position) (begins bool) {
	isSetBack := before.SetBack
	switch {
	case isSetBack, !before.Known():
	case p.setBack[key], at.SetBack:
		p.compared[key] = at.Compared
		begins, isSetBack = true, true
	default:
		begins = watchlist.VersionBefore(now.W, before.W)
	}
	if begins { // versions may begin again from an earlier one
		delete(p.until, key)
		delete(p.queued, key)
		before.Until = ""
	}
	if now.SetBack = isSetBack && (at.SetBack || at.Compared <= p.compared[key]); now.SetBack {
		now.W, now.Closed, now.At = before.W, before.Closed, before.At
	} else {
		delete(p.setBack, key)
	}
	return begins
}

// Hurry publishes at once. The sooner the end of an initial state is published, the less is emitted again after a kill.
func (p *Publisher) Hurry() { signal(p.urgent) }

// Queued notes that a created object waits in the queue. One announcement then covers everything that waits.
func (p *Publisher) Queued(c *watchlist.Change) {
	if c.Type != watchlist.Added {
		return
	}
	key := Key(*c.Scope)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued[key] = later(p.queued[key], c.Object.ResourceVersion)
}

// Announce publishes, before changes are offered to the consumer, what another replica has to know if this one ends before it
// can publish that they were accepted: up to which version objects were offered that were created, that an initial state has
// begun anew or may be complete, and that etcd was set back. It returns when that is published or ctx ends.
func (p *Publisher) Announce(ctx context.Context, changes []watchlist.Change) error {
	var until, ended map[string]string
	var anew, setBack []string
	keys := map[*scope.Scope]string{}
	keyOf := func(c *watchlist.Change) string {
		if keys[c.Scope] == "" {
			keys[c.Scope] = Key(*c.Scope)
		}
		return keys[c.Scope]
	}
	for i := range changes {
		c := &changes[i]
		if c.IsOfSetBack() {
			setBack = append(setBack, keyOf(c))
		}
		switch {
		case c.Type == watchlist.Added:
			if until == nil {
				until = make(map[string]string)
			}
			key := keyOf(c)
			until[key] = later(until[key], c.Object.ResourceVersion)
		case c.Type == watchlist.SnapshotBegin && c.Origin == watchlist.Initial: // its objects may have been created after the position
			anew = append(anew, keyOf(c))
		case c.Type == watchlist.SnapshotEnd && c.Origin == watchlist.Initial:
			if ended == nil {
				ended = make(map[string]string)
			}
			ended[keyOf(c)] = c.ReachedVersion()
		}
	}
	if len(until)+len(ended)+len(anew)+len(setBack) == 0 {
		return ctx.Err()
	}
	for {
		p.mu.Lock()
		published := true
		for _, key := range setBack {
			if at := p.now.Readers[key]; at.Known() && !at.SetBack {
				published, p.setBack[key] = false, true
			}
		}
		for _, key := range anew {
			if at := p.now.Readers[key]; at.Known() && !at.Anew && !at.SetBack {
				published, p.anew[key] = false, begun{}
			}
		}
		for key, rv := range until {
			at := p.now.Readers[key]
			isKnown := at.SetBack || atLeast(at.until(), rv) // while it is set back, nobody relies on it
			published = published && isKnown
			if at.SetBack || !isKnown {
				p.until[key] = later(p.until[key], later(rv, p.queued[key]))
			}
		}
		for key, rv := range ended {
			if at := p.now.Readers[key]; !at.Known() && at.Ended == "" {
				published = false
				p.ended[key] = rv
			}
		}
		wrote := p.wrote
		p.mu.Unlock()
		if published {
			return ctx.Err()
		}
		signal(p.urgent)
		select {
		case <-wrote:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// report reports the first of several failures in a row, and the success after them. Somebody else's write is none, and
// neither is the end of the caller's context.
func (p *Publisher) report(ctx context.Context, err error) {
	p.mu.Lock()
	failed := p.failing
	if err != nil && (ctx.Err() != nil || IsConflict(err) || errors.Is(err, ErrTermOver) || errors.Is(err, ErrSetBack)) {
		p.mu.Unlock()
		return
	}
	p.failing = err != nil
	p.mu.Unlock()
	if failed != (err != nil) && p.Report != nil {
		p.Report(err)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
