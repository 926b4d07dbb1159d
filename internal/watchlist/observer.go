package watchlist

// Observer receives the events of a reader for metrics and status. It must not block.
type Observer interface {
	StreamOpened(kind string)  // snapshot, list, resume or rotate
	StreamEnded(reason string) // see endReason
	DuplicateDropped()
	Excluded(Type)            // a change did not become a record because of its type
	ObjectCut()               // an object was emitted without what made it too large
	Suppressed(reason string) // a change was not emitted: noop, deleted, dedup_interval
	FrameUndecodable()
	FrameOfAnotherKind() // an event had another kind than the resource's; it is read all the same
	Recovered()          // a change marked recovered was emitted
	GapRecorded(reason string)
	RelistEnded(outcome string) // complete, failed
	Paused()
	InventoryChanged(delta int)
	StateChanged(State)
}

// NopObserver ignores everything.
type NopObserver struct{}

func (NopObserver) StreamOpened(string)  {}
func (NopObserver) StreamEnded(string)   {}
func (NopObserver) DuplicateDropped()    {}
func (NopObserver) Excluded(Type)        {}
func (NopObserver) ObjectCut()           {}
func (NopObserver) Suppressed(string)    {}
func (NopObserver) FrameUndecodable()    {}
func (NopObserver) FrameOfAnotherKind()  {}
func (NopObserver) Recovered()           {}
func (NopObserver) GapRecorded(string)   {}
func (NopObserver) RelistEnded(string)   {}
func (NopObserver) Paused()              {}
func (NopObserver) InventoryChanged(int) {}
func (NopObserver) StateChanged(State)   {}
