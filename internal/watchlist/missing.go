package watchlist

import (
	"context"
	"slices"
)

// lacksRights is a refusal of which it is known what is missing.
type lacksRights struct {
	error
	verbs []string
}

func (l *lacksRights) Unwrap() error { return l.error }

// withMissing returns the error of a refused request, with the verbs that are missing if it will be reported and the
// server tells. What a pattern selects may be forbidden, so nobody asks.
func (r *Reader) withMissing(ctx context.Context, end ending) error {
	if !isForbidden(end.err) || r.Missing == nil || r.Optional || !r.isNews(Forbidden, end.err) {
		return end.err
	}
	refused := "watch"
	if end.listed {
		refused = "list"
	}
	missing := r.Missing(ctx)
	if !slices.Contains(missing, refused) { // the answer contradicts the refusal, or there is none
		return end.err
	}
	return &lacksRights{end.err, missing}
}
