package watchlist

import (
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// Observer receives the events of a reader for metrics and status. It must not block.
type Observer interface {
	StreamOpened(kind string)  // snapshot, list, resume or rotate
	StreamEnded(reason string) // see endReason
	// Received is called with every part of an answer that was read, before EventRead with each event in it.
	Received(bytes int)
	EventRead(watch.EventType, Origin)
	DuplicateDropped()
	Excluded(Type)            // a change did not become a record because of its type
	ObjectCut()               // an object was emitted without what made it too large
	Suppressed(reason string) // a change was not emitted: noop, deleted, dedup_interval
	FrameUndecodable()
	FrameOfAnotherKind() // an event had another kind than the resource's; it is read all the same
	Recovered()          // a change marked recovered was emitted
	GapRecorded(reason string)
	RelistEnded(outcome string, took time.Duration) // complete, failed
	// RelistFound is called for each object that differs although the watch was open: Added, Modified or Deleted.
	RelistFound(Type)
	Throttled(time.Duration) // the next request waits for so long because the server asked to wait
	Paused()
	InventoryChanged(delta int)
	StateChanged(State)
}

// NopObserver ignores everything.
type NopObserver struct{}

func (NopObserver) StreamOpened(string)               {}
func (NopObserver) StreamEnded(string)                {}
func (NopObserver) Received(int)                      {}
func (NopObserver) EventRead(watch.EventType, Origin) {}
func (NopObserver) DuplicateDropped()                 {}
func (NopObserver) Excluded(Type)                     {}
func (NopObserver) ObjectCut()                        {}
func (NopObserver) Suppressed(string)                 {}
func (NopObserver) FrameUndecodable()                 {}
func (NopObserver) FrameOfAnotherKind()               {}
func (NopObserver) Recovered()                        {}
func (NopObserver) GapRecorded(string)                {}
func (NopObserver) RelistEnded(string, time.Duration) {}
func (NopObserver) RelistFound(Type)                  {}
func (NopObserver) Throttled(time.Duration)           {}
func (NopObserver) Paused()                           {}
func (NopObserver) InventoryChanged(int)              {}
func (NopObserver) StateChanged(State)                {}
