package elector

import (
	"context"
	"sync"
	"time"
)

// Division is a leadership that lasts only while nobody divides the objects in another way: the replicas of all shards, whether
// they lead or stand by, share a Lease that names how they are divided.
type Division struct {
	Leadership
	shared  *Elector
	changes signal
}

// NewDivision returns the leadership of one shard. o is for the Lease that all share; its Identity names how the objects are
// divided.
func NewDivision(of Leadership, o Options) *Division {
	o.Shared = true
	return &Division{Leadership: of, shared: New(o), changes: newSignal()}
}

// Run implements [Leadership].
func (d *Division) Run(ctx context.Context) {
	var running sync.WaitGroup
	over := make(chan struct{})
	running.Go(func() {
		for {
			select {
			case <-d.Leadership.Changes():
			case <-d.shared.Changes():
			case <-over:
				return
			}
			d.changes.raise()
		}
	})
	running.Go(func() { d.shared.Run(ctx) })
	d.Leadership.Run(ctx)
	close(over)
	running.Wait()
}

// Candidate implements [Leadership].
func (d *Division) Candidate() bool { return d.Leadership.Candidate() && d.shared.Leads() }

// Leads implements [Leadership].
func (d *Division) Leads() bool {
	_, leads := d.Deadline()
	return leads
}

// Deadline implements [Leadership]. It is the earlier one.
func (d *Division) Deadline() (time.Time, bool) {
	deadline, leads := d.Leadership.Deadline()
	shared, undivided := d.shared.Deadline()
	if shared.Before(deadline) {
		deadline = shared
	}
	return deadline, leads && undivided
}

// Changes implements [Leadership].
func (d *Division) Changes() <-chan struct{} { return d.changes }

// Other returns how others that still run divide the objects, or "".
func (d *Division) Other() string { return d.shared.Other() }

var _ Leadership = (*Division)(nil)
