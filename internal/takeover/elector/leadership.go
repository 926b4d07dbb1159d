package elector

import (
	"context"
	"time"
)

// Leadership is what is known of who leads: by the Lease ([Elector]), or by what another extension of the Collector says
// ([Extension]).
//
// All methods may be called from any goroutine, and return at once except Run.
type Leadership interface {
	// Run follows the election until ctx ends. Then this replica leads nothing anymore, and an Elector has released the
	// Lease. So ctx has to outlive everything that is done as the leader.
	Run(ctx context.Context)

	// Candidate reports whether this replica is to lead: it may write its term into the progress object, and has to go on
	// writing it, at least three times in each RenewDeadline, so that it leads. The term is one more than the one that
	// was read, and is written on top of exactly what was read.
	Candidate() bool

	// Leads reports whether a batch may begin now, if the own term was written. It implies Candidate.
	Leads() bool

	// Deadline returns until when batches may begin, and what Leads returns. The time has a monotonic clock reading,
	// which goes on while the process is stopped.
	Deadline() (time.Time, bool)

	// Changes returns a channel with a signal after Candidate or Leads has changed; several changes may be one signal. It is
	// for one goroutine, since a signal is received only once.
	Changes() <-chan struct{}

	// Proved notes that the progress object was written by this replica with its term. The request was sent at the given
	// time, which needs a monotonic clock reading: that from before the request, not when it was answered.
	Proved(term int, sent time.Time)

	// OtherTerm notes that the progress object was read and had been written by another replica since it was last read. It
	// holds that replica's term, and was read at the given time: after the answer, with a monotonic clock reading.
	OtherTerm(term int, read time.Time)
}

// signal is a channel for signals that mean no more than that something has changed.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default: // there is one already
	}
}

var (
	_ Leadership = (*Elector)(nil)
	_ Leadership = (*Extension)(nil)
)
