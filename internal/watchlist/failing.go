package watchlist

import "errors"

// maxFruitless is how many streams in a row may end without progress before the reader is failing.
const maxFruitless = 5

// progressed notes that something was read that will not have to be read again.
func (r *Reader) progressed() {
	r.faults.fruitless = 0
	if r.state.Condition == Failing {
		r.setState(Reading, nil)
	}
}

// nowReading notes that the server has begun to answer, or goes on. After many streams without progress that is not
// enough.
func (r *Reader) nowReading() {
	if r.state.Condition != Failing {
		r.setState(Reading, nil)
	}
}

// countFruitless counts the streams that end without progress. Whatever the cause, a resource of which nothing arrives
// any more must not look well. A stream that stays open and says nothing is well, and what was ended from this side
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
