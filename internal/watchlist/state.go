package watchlist

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// State is the condition of a reader, and why.
type State struct {
	Condition Condition
	Err       error // set for every condition except Starting and Reading

	causes map[string]bool // causes logged since the condition began
	// throttledSince is when the server first asked us to wait; zero: it has not, or a warning was logged.
	throttledSince time.Time
}

// Condition is the state of a reader as shown to a person.
type Condition uint8

const (
	Starting    Condition = iota
	Reading               // a stream is open
	Unreachable           // the server does not answer, or not with a stream
	Forbidden             // rights are missing, or the credentials are not accepted
	NotServed             // the server does not know the resource
	Refused               // the server permanently refuses the request
	Paused                // the consumer is slower than the changes come
	Waiting               // other snapshots of the same server have to end first
	Failing               // streams end again and again without anything new
)

// setState logs a change of condition, and each new cause within a condition: once each, however often it recurs.
func (r *Reader) setState(condition Condition, err error) {
	cause := causeOf(err)
	changed := r.state.Condition != condition
	if condition == Reading {
		r.pausesMayBeOver()
	}
	if !changed && (err == nil || r.state.causes[cause]) {
		r.warnOfLongThrottling(err)
		return
	}
	previous := r.state
	r.state = State{Condition: condition, Err: err, causes: previous.causes}
	if changed {
		r.state.causes = make(map[string]bool)
	}
	r.state.causes[cause] = true
	switch warning := condition.warning(); {
	case warning != "" && r.Optional && (condition == Forbidden || condition == NotServed):
		r.log(zapcore.InfoLevel, warning, cause, r.fields(err)...)
	case warning != "" && isThrottled(err):
		// An API server that has just started, or whose CRD was edited, asks clients to wait. Nothing is wrong.
		r.log(zapcore.InfoLevel, warning, cause, r.fields(err)...)
		r.state.throttledSince = time.Now()
	case warning != "":
		r.log(zapcore.WarnLevel, warning, cause, r.fields(err)...)
	case condition == Paused:
		r.logPause()
	case previous.Condition == Paused: // pausesMayBeOver logs it
	case previous.Condition == Starting:
		r.log(zapcore.InfoLevel, "reading resource", "", r.fields(nil)...)
	default:
		r.log(zapcore.InfoLevel, "reading resource again", previous.Condition.String(), append(r.fields(nil),
			zap.Stringer("after", previous.Condition))...)
	}
	r.Observer.StateChanged(r.state)
}

// throttlingIsTrouble is how long a server may ask clients to wait before that is worth a warning.
const throttlingIsTrouble = 30 * time.Second

// warnOfLongThrottling warns once about a server that keeps asking clients to wait.
func (r *Reader) warnOfLongThrottling(err error) {
	since := r.state.throttledSince
	if !isThrottled(err) || since.IsZero() || time.Since(since) < throttlingIsTrouble {
		return
	}
	r.state.throttledSince = time.Time{}
	r.log(zapcore.WarnLevel, "API server keeps asking clients to wait, will try again", causeOf(err), r.fields(err)...)
}

// pauses are the periods in which a slow consumer made the reader close its stream. They come in series: the queue
// drains, the stream is opened, and the queue is full again.
type pauses struct {
	since, last, logged time.Time
	number              int
}

const (
	// pauseSummaryInterval is how often a series of pauses is logged while it lasts.
	pauseSummaryInterval = 10 * time.Minute
	// pausesOver is how long after the last pause a series is over.
	pausesOver = time.Minute
)

func (r *Reader) logPause() {
	now := time.Now()
	r.pauses.last = now
	r.pauses.number++
	switch {
	case r.pauses.since.IsZero():
		r.pauses.since, r.pauses.logged = now, now
		r.log(zapcore.WarnLevel, "next consumer is too slow, stream is closed until there is room in the queue", "", r.fields(nil)...)
	case now.Sub(r.pauses.logged) >= pauseSummaryInterval:
		r.pauses.logged = now
		r.log(zapcore.WarnLevel, "next consumer is still too slow, stream is closed again and again", "", append(r.fields(nil),
			zap.Int("pauses", r.pauses.number), zap.Duration("since", now.Sub(r.pauses.since)))...)
	}
}

// pausesMayBeOver is called whenever something has been read.
func (r *Reader) pausesMayBeOver() {
	if r.pauses.since.IsZero() || time.Since(r.pauses.last) < pausesOver {
		return
	}
	r.log(zapcore.InfoLevel, "reading resource again", Paused.String(), append(r.fields(nil), zap.Stringer("after", Paused),
		zap.Int("pauses", r.pauses.number), zap.Duration("for", time.Since(r.pauses.since)))...)
	r.pauses = pauses{}
}

// log logs an entry that other readers may log at the same time.
func (r *Reader) log(level zapcore.Level, message, cause string, fields ...zap.Field) {
	if r.Crowd == nil {
		r.Logger.Log(level, message, fields...)
		return
	}
	r.Crowd.log(level, message, cause, r.Scope, fields...)
}

// causeOf names the kind of an error, so that the same error of many readers, or at many times, is logged once.
func causeOf(err error) string {
	switch {
	case err == nil:
		return ""
	case isUnauthorized(err):
		return "unauthorized"
	}
	return endReason(err)
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
	case Waiting:
		return "waiting"
	case Failing:
		return "failing"
	}
	return "unknown"
}

// warning returns the log message for the beginning of the condition; "" if nothing is wrong, or the delivery logs it.
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
	case Failing:
		return "reading resource makes no progress, will keep trying"
	case Waiting:
		return "snapshot of resource waits for other snapshots of the same API server to end"
	}
	return ""
}

// fields returns the log fields that identify the scope.
func (r *Reader) fields(err error) []zap.Field {
	fields := append(r.Scope.LogFields(), zap.String("version", r.API.Version))
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	return fields
}
