package watchlist

import "errors"

// maxFruitless is how many streams in a row may end without progress before the reader counts as failing.
const maxFruitless = 5

// progressed notes that something was read that need not be read again.
func (r *Reader) progressed() {
	r.faults.fruitless = 0
	if r.state.Condition == Failing {
		r.setState(r.condition(), nil)
	}
}

// condition returns the condition of a reader that the server answers.
func (r *Reader) condition() Condition {
	switch {
	case r.position.none():
		return Initializing
	case r.polls():
		return Polling
	}
	return Reading
}

// nowReading notes that the server has begun to answer, or keeps answering. After many streams without progress that is
// not enough to leave the failing state.
func (r *Reader) nowReading() {
	if r.state.Condition != Failing {
		r.setState(r.condition(), nil)
	}
}

// countFruitless counts the streams that end without progress. Whatever the cause, a resource that delivers nothing
// must not look healthy. A stream that stays open without a message is healthy, and a stream that we ended ourselves
// proves nothing.
func (r *Reader) countFruitless(end ending) {
	err := end.err
	switch {
	case errors.Is(err, errPollDue), errors.Is(err, errRelistDue), errors.Is(err, errQueueFull), errors.Is(err, errRewound), isOwnEnd(err):
		return
	case !end.snapshot && end.opened && end.lived >= steadyLife && (isCleanEnd(err) || statusCode(err) == 0 && !errors.Is(err, errUndecodable)):
		r.progressed()
		return
	}
	if r.faults.fruitless++; r.faults.fruitless >= maxFruitless && end.opened {
		r.setState(Failing, err)
	}
}
