package elector

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// divided is a shard whose own Lease nobody else wants.
type divided struct {
	*Division
	client *client // of the shared Lease
	stop   func()
}

func startDivided(t *testing.T, shared *store, division string) *divided {
	t.Helper()
	own := New(Options{Leases: &client{store: &store{}}, Identity: "own", LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod})
	d := &divided{client: &client{store: shared}}
	d.Division = NewDivision(own, Options{Leases: d.client, Identity: division, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	d.stop = func() { cancel(); running.Wait() }
	t.Cleanup(d.stop)
	return d
}

func all(of []*divided, does func(*divided) bool) bool {
	for _, d := range of {
		if !does(d) {
			return false
		}
	}
	return true
}

// All shards of one division lead at the same time, and as long as one of them runs, none of another division does.
func TestDivision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var four []*divided
		for range 4 {
			four = append(four, startDivided(t, s, "4 shards"))
		}
		time.Sleep(5 * retryPeriod)
		assert.True(t, all(four, (*divided).leads))
		for range 200 { // whoever renews it, all of them lead
			time.Sleep(retryPeriod / 2)
			assert.True(t, all(four, (*divided).leads))
		}
		other := startDivided(t, s, "8 shards")
		time.Sleep(4 * leaseDuration)
		assert.False(t, other.Candidate())
		assert.Equal(t, "4 shards", other.Other())
		for _, d := range four[1:] {
			d.stop()
		}
		time.Sleep(4 * leaseDuration)
		assert.True(t, four[0].Leads())
		assert.False(t, other.Candidate())

		four[0].client.is(func() { four[0].client.cut = true })
		began := time.Now()
		for !other.Leads() {
			assert.Less(t, time.Since(began), 2*leaseDuration)
			assert.False(t, four[0].Leads() && other.Leads())
			time.Sleep(retryPeriod / 10)
		}
		assert.False(t, four[0].Leads())
		assert.Empty(t, other.Other())
	})
}

func (d *divided) leads() bool {
	deadline, leads := d.Deadline()
	return leads && time.Until(deadline) >= 0 && d.Candidate()
}
