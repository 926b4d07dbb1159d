package delivery

import (
	"time"

	"go.uber.org/zap"
)

// trouble is the time in which the consumer does not accept. Its first refusal for now, its first for
// good and its end are logged, not every try.
type trouble struct {
	since    time.Time // zero: there is none
	refusals int       // tries that were refused, for now or for good
	retrying bool      // some were refused for now
	lost     int       // records refused for good
}

// refused notes a try that will be repeated.
func (t *trouble) refused(logger *zap.Logger, records int, err error) {
	t.begin()
	if !t.retrying {
		t.retrying = true
		logger.Warn("Next consumer does not accept records, trying again until it does",
			zap.Int("records", records), zap.Error(err))
	}
}

// dropped notes records that were refused for good.
func (t *trouble) dropped(logger *zap.Logger, records int, err error) {
	t.begin()
	if t.lost == 0 {
		logger.Error("Next consumer refused records for good, they are dropped",
			zap.Int("dropped_records", records), zap.Error(err))
	}
	t.lost += records
}

func (t *trouble) begin() {
	if t.since.IsZero() {
		t.since = time.Now()
	}
	t.refusals++
}

// over notes that the consumer accepted a batch.
func (t *trouble) over(logger *zap.Logger) {
	if t.since.IsZero() {
		return
	}
	logger.Info("Next consumer accepts records again",
		zap.Duration("after", time.Since(t.since)),
		zap.Int("refused_tries", t.refusals),
		zap.Int("dropped_records", t.lost))
	*t = trouble{}
}
