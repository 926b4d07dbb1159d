package watchlist

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// State is the condition of a reader, and why.
type State struct {
	Condition Condition
	Err       error // the cause, if the condition is a fault

	causes map[string]bool // causes logged since the condition began
	// throttledSince is when the server first asked us to wait; zero: it has not, or a warning was logged.
	throttledSince time.Time
}

// setState logs a change of condition, and each new cause within a condition: once each, however often it recurs.
func (r *Reader) setState(condition Condition, err error) {
	cause := causeOf(err)
	if condition.reads() {
		r.pausesMayBeOver()
	}
	if !r.isNews(condition, err) {
		r.warnOfLongThrottling(err)
		return
	}
	previous := r.state
	r.state = State{Condition: condition, Err: err, causes: previous.causes}
	if previous.Condition != condition {
		r.state.causes = make(map[string]bool)
	}
	r.state.causes[cause] = true
	switch {
	case condition.IsFault():
		r.logFault(cause, err)
	case condition == Paused:
		r.logPause()
	case condition.reads():
		r.logReading(previous.Condition)
	}
	r.Observer.StateChanged(r.state)
}

// isNews reports whether the condition differs from the last one, or has another cause than it had so far.
func (r *Reader) isNews(condition Condition, err error) bool {
	return r.state.Condition != condition || err != nil && !r.state.causes[causeOf(err)]
}

func (r *Reader) logFault(cause string, err error) {
	level, fields := zapcore.WarnLevel, r.fields(err)
	switch {
	case r.Optional && r.state.Condition.IsExpectedOfPattern():
		level = zapcore.InfoLevel
	case isThrottled(err):
		// An API server that has just started, or whose CRD was edited, asks clients to wait. Nothing is wrong.
		level = zapcore.InfoLevel
		r.state.throttledSince = time.Now()
	}
	if remedy := r.state.Remedy(r.Scope); remedy != "" {
		fields = append(fields, zap.String("remedy", remedy))
	}
	r.log(level, r.state.Condition.message(), cause, fields...)
}

// logReading logs that the resource is read, unless that only continues what was logged before.
func (r *Reader) logReading(previous Condition) {
	switch {
	case previous == Paused: // pausesMayBeOver logs it
	case previous.IsFault():
		r.begun = r.begun || r.state.Condition != Initializing
		r.log(zapcore.InfoLevel, "reading resource again", previous.String(), append(r.fields(nil), zap.Stringer("after", previous))...)
	case r.state.Condition != Initializing && !r.begun:
		r.begun = true
		r.log(zapcore.InfoLevel, "reading resource", "", r.fields(nil)...)
	}
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

// fields returns the log fields that identify the scope, and its state.
func (r *Reader) fields(err error) []zap.Field {
	fields := append(r.Scope.LogFields(), zap.String("version", r.API.Version), zap.Stringer("state", r.state.Condition))
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	return fields
}
