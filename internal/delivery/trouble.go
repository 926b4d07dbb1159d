package delivery

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	tickEvery    = 10 * time.Second
	summaryEvery = 10 * time.Minute // between two lines about the same thing
	overdue      = 30 * time.Second // how long a consumer may take before it is in trouble
	calm         = time.Minute      // how long it has to accept everything before the trouble is over

	maxNames = 10 // of dropped records in a line
	maxKinds = 32 // of errors that are told apart
)

// trouble is the time in which the consumer does not accept: it refuses records for the time being, refuses all of them
// permanently, or does not return. Its beginning is logged, a summary every ten minutes, and its end. A consumer that
// accepts now and then is in trouble all the time, and one that is in trouble again soon after is not logged anew
// before the ten minutes are over.
type trouble struct {
	logger *zap.Logger
	report func(error)

	mu        sync.Mutex
	call      time.Time // since when the consumer has had a call; zero: it has none
	since     time.Time // of the trouble; zero: there is none
	well      time.Time // since when it has accepted everything; zero: it has not
	announced bool      // the beginning was logged
	line      time.Time // of the last log line; zero: there was none
	message   string
	cause     error
	refusals  int // tries since the trouble began that were refused
}

// calling notes that the consumer is given something.
func (t *trouble) calling(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call = now
}

// returned notes that the consumer has returned, whatever it returned.
func (t *trouble) returned() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call = time.Time{}
}

// refused notes a try that will be repeated.
func (t *trouble) refused(now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusals++
	t.showLocked(now, "next consumer does not accept records, trying again until it does", err)
}

// refusesAll notes records that were refused permanently, as everything before them.
func (t *trouble) refusesAll(now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusals++
	t.showLocked(now, "next consumer refuses every record permanently, slowing down until it accepts one", err)
}

// accepted notes that the consumer took what it was given.
func (t *trouble) accepted(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.well.IsZero() {
		t.well = now
	}
}

// tick notes how late it is.
func (t *trouble) tick(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.call.IsZero() && now.Sub(t.call) >= overdue {
		t.showLocked(now, "next consumer does not return",
			fmt.Errorf("a batch was given to it %v ago", now.Sub(t.call).Round(time.Second)))
		return
	}
	switch {
	case t.since.IsZero():
	case !t.well.IsZero() && now.Sub(t.well) >= calm:
		if t.announced {
			t.line = now
			t.logger.Info("next consumer accepts records again", t.fields(t.well)...)
		}
		t.since, t.announced, t.refusals = time.Time{}, false, 0
		t.report(nil)
	default:
		t.logLocked(now)
	}
}

func (t *trouble) showLocked(now time.Time, message string, err error) {
	begins := t.since.IsZero()
	if begins {
		t.since = now
	}
	t.well, t.message = time.Time{}, message
	t.cause = errors.New(errorText(cause(err)))
	if begins {
		t.report(fmt.Errorf("%s: %w", message, t.cause))
	}
	t.logLocked(now)
}

// logLocked logs the beginning, or else the summary if it is time.
func (t *trouble) logLocked(now time.Time) {
	if !t.line.IsZero() && now.Sub(t.line) < summaryEvery {
		return
	}
	t.line = now
	if !t.announced && t.since.Equal(now) {
		t.logger.Warn(t.message, zap.Error(t.cause))
	} else {
		t.logger.Warn(t.message, append(t.fields(now), zap.Error(t.cause))...)
	}
	t.announced = true
}

func (t *trouble) fields(until time.Time) []zap.Field {
	return []zap.Field{
		zap.Duration("after", until.Sub(t.since).Round(time.Millisecond)),
		zap.Int("refused_tries", t.refusals),
	}
}

// losses are the records that were dropped. The first of each kind of error is logged at once, the others every ten
// minutes together.
type losses struct {
	logger *zap.Logger

	mu      sync.Mutex
	kinds   []string
	line    time.Time // of the last log line
	records int       // dropped and not logged yet
	names   []string  // the first of them
	cause   string    // why the last of them was dropped
}

func (l *losses) dropped(now time.Time, records int, names []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := errorText(err)
	if kind := kindOf(text); !slices.Contains(l.kinds, kind) && len(l.kinds) < maxKinds {
		l.kinds = append(l.kinds, kind)
		l.line = now
		l.logger.Error("next consumer refused records permanently, they are dropped", dropFields(records, names, text)...)
		return
	}
	l.records += records
	l.names = append(l.names, names[:min(len(names), maxNames-len(l.names))]...)
	l.cause = text
}

// tick notes how late it is.
func (l *losses) tick(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.line) >= summaryEvery {
		l.logLocked(now)
	}
}

// end logs what is left.
func (l *losses) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logLocked(time.Now())
}

func (l *losses) logLocked(now time.Time) {
	if l.records == 0 {
		return
	}
	l.line = now
	l.logger.Error("next consumer refused more records permanently, they are dropped", dropFields(l.records, l.names, l.cause)...)
	l.records, l.names = 0, nil
}

func dropFields(records int, names []string, cause string) []zap.Field {
	fields := []zap.Field{zap.Int("dropped_records", records)}
	if len(names) > 0 {
		fields = append(fields, zap.Strings("dropped", names))
	}
	return append(fields, zap.String("error", cause))
}
