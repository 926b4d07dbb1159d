package kubeclient

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// openingsPerSecond is how many streams the process opens per second. After an API server was unreachable, all
	// streams of all receivers resume at once.
	openingsPerSecond = 20
	openingsBurst     = 5

	// yieldFor is how long a request that is not a resume gives way to resumes. Then it gets every second turn.
	yieldFor = time.Minute
)

// A Pacer limits the rate of requests. Resuming watches go first: until they are open changes are not delivered, and
// the API server's history of them may run out. It is safe for concurrent use.
type Pacer struct {
	rate     float64 // per second
	burst    float64
	jittered bool

	mu      sync.Mutex
	tokens  float64
	at      time.Time // time of the tokens value
	resumes []*waiter
	others  []*waiter
	timer   *time.Timer // runs while a request waits
	timers  int         // number of timers created; it identifies a timer that was stopped too late
	gaveWay bool        // the last turn went to another request although a resume waited
}

type waiter struct {
	since time.Time
	turn  chan struct{} // closed when it is the waiter's turn
}

// NewPacer returns a pacer that allows rate requests per second on average, and burst at once after a quiet time.
func NewPacer(rate float64, burst int) *Pacer {
	return &Pacer{rate: rate, burst: float64(burst), tokens: float64(burst), at: time.Now()}
}

// NewOpeningPacer returns the pacer for opening streams, which a process needs once: 20 per second, at jittered
// intervals, so that processes that lost the same API server do not return in step.
func NewOpeningPacer() *Pacer {
	p := NewPacer(openingsPerSecond, openingsBurst)
	p.jittered = true
	return p
}

// Wait returns when it is the caller's turn. It fails only with ctx's error.
func (p *Pacer) Wait(ctx context.Context, resume bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	p.refill()
	if p.timer == nil && p.tokens >= 1 {
		p.spend()
		p.mu.Unlock()
		return nil
	}
	w := &waiter{since: p.at, turn: make(chan struct{})}
	if resume {
		p.resumes = append(p.resumes, w)
	} else {
		p.others = append(p.others, w)
	}
	p.arm()
	p.mu.Unlock()

	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		p.leave(w)
		return ctx.Err()
	}
}

// leave removes a waiter from its queue. A turn that came at the same moment is lost, which does no harm.
func (p *Pacer) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := func(other *waiter) bool { return other == w }
	p.resumes = slices.DeleteFunc(p.resumes, is)
	p.others = slices.DeleteFunc(p.others, is)
	if len(p.resumes)+len(p.others) == 0 && p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

func (p *Pacer) refill() {
	now := time.Now()
	if passed := now.Sub(p.at); passed > 0 {
		p.tokens = min(p.burst, p.tokens+passed.Seconds()*p.rate)
	}
	p.at = now
}

func (p *Pacer) spend() {
	if p.jittered {
		p.tokens -= 0.5 + rand.Float64()
		return
	}
	p.tokens--
}

// arm starts the timer for the next turn, if a request waits for it and the timer is not running yet.
func (p *Pacer) arm() {
	if p.timer != nil || len(p.resumes)+len(p.others) == 0 {
		return
	}
	const longest = 24 * time.Hour // a rate near 0 would overflow a duration
	wait := min((1-p.tokens)/p.rate, longest.Seconds())
	p.timers++
	number := p.timers
	p.timer = time.AfterFunc(time.Duration(wait*float64(time.Second))+1, func() { p.due(number) })
}

func (p *Pacer) due(number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil || number != p.timers {
		return // all waiters left while it fired
	}
	p.timer = nil
	p.refill()
	for p.tokens >= 1 && len(p.resumes)+len(p.others) > 0 {
		p.spend()
		close(p.next().turn)
	}
	p.arm()
}

// next removes the waiter whose turn it is from its queue, and returns it.
func (p *Pacer) next() *waiter {
	from := &p.resumes
	if len(p.resumes) == 0 {
		from = &p.others
	} else if len(p.others) > 0 && p.at.Sub(p.others[0].since) > yieldFor && !p.gaveWay {
		from = &p.others
	}
	p.gaveWay = from == &p.others && len(p.resumes) > 0
	w := (*from)[0]
	*from = slices.Delete(*from, 0, 1)
	return w
}
