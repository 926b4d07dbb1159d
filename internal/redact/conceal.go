package redact

import (
	"cmp"
	"slices"
)

// conceal masks the data of the objects that turned out to be Secrets after they had been passed. The edits
// that were collected inside them give way to those of a second pass, which cannot fail where the first did not.
func (w *walk) conceal() {
	if len(w.secret) == 0 {
		return
	}
	// An object inside the data of another ended before it.
	slices.SortFunc(w.secret, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	earlier := w.edits
	w.edits = nil
	done := 0
	for _, s := range w.secret {
		if s.from < done {
			continue // inside data that are masked already
		}
		n := 0
		for n < len(earlier) && earlier[n].to <= s.from {
			n++
		}
		w.edits = append(w.edits, earlier[:n]...)
		for n < len(earlier) && earlier[n].from < s.to {
			n++
		}
		earlier = earlier[n:]
		_, _, _ = w.part(s.from, w.plan.secretValues, 0)
		done = s.to
	}
	w.edits = append(w.edits, earlier...)
}
