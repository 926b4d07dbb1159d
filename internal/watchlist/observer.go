package watchlist

// Observer is told what a reader does, for metrics and status. It must not block.
type Observer interface {
	StreamOpened(kind string)  // snapshot, list, resume, relist, rotate
	StreamEnded(reason string) // see endReason
	DuplicateDropped()
	FrameUndecodable()
	Recovered() // a change marked recovered was emitted
	GapRecorded(reason string)
	RelistEnded(outcome string) // complete, failed
	Paused()
	InventoryChanged(delta int)
	StateChanged(State)
}

// State is how a reader fares.
type State struct {
	Condition Condition
	Err       error // of every condition but Starting and Reading
}

// Condition is what a person would want to know of a reader.
type Condition uint8

const (
	Starting    Condition = iota
	Reading               // a stream is open
	Unreachable           // the server does not answer, or not with a stream
	Forbidden             // rights are missing, or the credentials are not accepted
	NotServed             // the server does not know the resource
	Refused               // the server will not answer, whatever we do
	Paused                // the consumer is slower than the changes come
)

// NopObserver sees nothing.
type NopObserver struct{}

func (NopObserver) StreamOpened(string)  {}
func (NopObserver) StreamEnded(string)   {}
func (NopObserver) DuplicateDropped()    {}
func (NopObserver) FrameUndecodable()    {}
func (NopObserver) Recovered()           {}
func (NopObserver) GapRecorded(string)   {}
func (NopObserver) RelistEnded(string)   {}
func (NopObserver) Paused()              {}
func (NopObserver) InventoryChanged(int) {}
func (NopObserver) StateChanged(State)   {}
