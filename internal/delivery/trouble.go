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
	summaryEvery = 10 * time.Minute // between two log lines about the same trouble
	overdue      = 30 * time.Second // how long a call may take before it counts as trouble
	calm         = time.Minute      // how long everything has to be accepted before the trouble is over

	maxNames = 10 // of dropped records in a log line
	maxKinds = 32 // of errors that are distinguished
)

// trouble is a period in which the consumer does not accept records: it refuses them temporarily, refuses all of them
// permanently, or does not return. Its beginning and end are logged, and a summary every ten minutes. Occasional
// acceptance does not end the trouble, and if it returns soon after its end it is not logged again before the ten
// minutes are over.
type trouble struct {
	logger *zap.Logger
	report func(error)

	mu        sync.Mutex
	call      time.Time // when the current call began; zero: there is none
	since     time.Time // when the trouble began; zero: there is none
	well      time.Time // since when everything was accepted; zero: it was not
	announced bool      // the beginning was logged
	line      time.Time // time of the last log line; zero: there was none
	message   string
	cause     error
	refusals  int // refused tries since the trouble began
}

// calling notes the beginning of a call to the consumer.
func (t *trouble) calling(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call = now
}

// returned notes that the call has returned, whatever the result.
func (t *trouble) returned() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call = time.Time{}
}

// refused notes a refused try that will be repeated.
func (t *trouble) refused(now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusals++
	t.showLocked(now, "next consumer does not accept records, trying again until it does", err)
}

// refusesAll notes records that were refused permanently, like everything before them.
func (t *trouble) refusesAll(now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusals++
	t.showLocked(now, "next consumer refuses every record permanently, slowing down until it accepts one", err)
}

// accepted notes that the consumer accepted records.
func (t *trouble) accepted(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.well.IsZero() {
		t.well = now
	}
}

// tick notes the current time.
func (t *trouble) tick(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.call.IsZero() && now.Sub(t.call) >= overdue {
		t.showLocked(now, "next consumer does not return",
			fmt.Errorf("it was called with a batch %v ago", now.Sub(t.call).Round(time.Second)))
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

// logLocked logs the beginning, or the summary if it is due.
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

// losses are the dropped records. The first one for each kind of error is logged at once, the others together every ten
// minutes.
type losses struct {
	logger *zap.Logger

	mu      sync.Mutex
	kinds   []string
	line    time.Time // time of the last log line
	records int       // dropped but not logged yet
	names   []string  // the first of them
	cause   string    // error of the last of them
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

// tick notes the current time.
func (l *losses) tick(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.line) >= summaryEvery {
		l.logLocked(now)
	}
}

// end logs the records that are not logged yet.
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
