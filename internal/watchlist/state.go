package watchlist

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// State is the condition of a reader, and why.
type State struct {
	Condition Condition
	Err       error // of every condition but Starting and Reading

	causes map[string]bool // that were logged since the condition began
	// throttledSince is since when the server has asked for a moment, until that is a warning; zero: it has not.
	throttledSince time.Time
}

// Condition is what a person would want to know about a reader.
type Condition uint8

const (
	Starting    Condition = iota
	Reading               // a stream is open
	Unreachable           // the server does not answer, or not with a stream
	Forbidden             // rights are missing, or the credentials are not accepted
	NotServed             // the server does not know the resource
	Refused               // the server will not answer, whatever we do
	Paused                // the consumer is slower than the changes come
	Waiting               // for other snapshots of the same server to end
	Failing               // streams end again and again without anything new
)

// setState reports a change of condition, and within a condition each new cause: one log entry each, however often
// the same is met again.
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
	case warning != "" && isThrottled(err):
		// An API server that has just started, or whose CRD was edited, asks for a moment. Nothing is wrong.
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

// throttlingIsTrouble is after how long a server that asks for a moment is worth a warning.
const throttlingIsTrouble = 30 * time.Second

// warnOfLongThrottling warns once of a server that asks to be left alone again and again.
func (r *Reader) warnOfLongThrottling(err error) {
	since := r.state.throttledSince
	if !isThrottled(err) || since.IsZero() || time.Since(since) < throttlingIsTrouble {
		return
	}
	r.state.throttledSince = time.Time{}
	r.log(zapcore.WarnLevel, "API server goes on asking to be left alone, will try again", causeOf(err), r.fields(err)...)
}

// pauses are the times in which a slow consumer made the reader close its stream. They come in rows: the queue drains,
// the stream is opened, and the queue is full again.
type pauses struct {
	since, last, logged time.Time
	number              int
}

const (
	// pauseSummaryInterval is how often a row of pauses is logged again while it lasts.
	pauseSummaryInterval = 10 * time.Minute
	// pausesOver is how long after a pause none may come before the row is over.
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

// log logs what other readers may have to say at the same time.
func (r *Reader) log(level zapcore.Level, message, cause string, fields ...zap.Field) {
	if r.Crowd == nil {
		r.Logger.Log(level, message, fields...)
		return
	}
	r.Crowd.log(level, message, cause, r.Scope, fields...)
}

// causeOf names the kind of an error, so that the same of many readers, or at many times, is logged once.
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

// warning is the log message when the condition begins; "" where it is a good one, or the delivery logs it.
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
		return "reading resource does not get on, will keep trying"
	case Waiting:
		return "snapshot of resource waits until fewer others of the same API server are under way"
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
