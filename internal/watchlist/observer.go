package watchlist

import (
	"go.uber.org/zap"
)

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

// setState reports a change of condition: one log line each way, however often the same is met again.
func (r *Reader) setState(condition Condition, err error) {
	if r.state.Condition == condition {
		return
	}
	previous := r.state
	r.state = State{Condition: condition, Err: err}
	switch warning := condition.warning(); {
	case warning != "":
		r.Logger.Warn(warning, r.fields(err)...)
	case previous.Condition == Starting:
		r.Logger.Info("reading resource", r.fields(nil)...)
	default:
		r.Logger.Info("reading resource again", append(r.fields(nil),
			zap.Stringer("after", previous.Condition))...)
	}
	r.Observer.StateChanged(r.state)
}

// String is a short name.
func (c Condition) String() string {
	switch c {
	case Starting:
		return "starting"
	case Reading:
		return "reading"
	case Unreachable:
		return "unreachable"
	case Forbidden:
		return "forbidden"
	case NotServed:
		return "not_served"
	case Refused:
		return "refused"
	case Paused:
		return "paused"
	}
	return "unknown"
}

// warning is what the log says when the condition begins; "" where it is a good one.
func (c Condition) warning() string {
	switch c {
	case Unreachable:
		return "cannot read resource, will try again"
	case Forbidden:
		return "no right to read resource, will try again slowly"
	case NotServed:
		return "server does not serve resource, will look for it"
	case Refused:
		return "server refuses to serve resource, will try again rarely"
	case Paused:
		return "next consumer is too slow, stream is closed until there is room in the queue"
	}
	return ""
}

// fields name what is read in log entries.
func (r *Reader) fields(err error) []zap.Field {
	fields := append(r.Scope.LogFields(), zap.String("version", r.API.Version))
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	return fields
}
