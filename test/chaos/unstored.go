package chaos

import "github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"

// unstored returns the UIDs of the objects of a resource that the Collector emitted only while its disk was full,
// before it was killed. The next process does not know them. If the API server has the history, it emits them again,
// and their deletions. If the history is gone too, there is no way to know that they existed.
func unstored(lives []Life, batches []*Batch, resource string) map[string]bool {
	found := map[string]bool{}
	for _, batch := range batches {
		isUnwritten := false
		for _, life := range lives {
			if life.Number == batch.Life {
				isUnwritten = life.Killed && life.full(batch.At)
			}
		}
		for _, record := range batch.Records {
			if record.Object == nil || record.Resource != resource {
				continue
			}
			before, again := found[record.Object.UID]
			found[record.Object.UID] = isUnwritten && (before || !again)
		}
	}
	return found
}

// forget removes objects that are gone, and that the Collector cannot know, from the fold of the records.
func forget(state fold.State, unstored map[string]bool, listed ...fold.State) (known fold.State, forgotten int) {
	known = fold.State{}
	for uid, rv := range state {
		isListed := !unstored[uid]
		for _, l := range listed {
			isListed = isListed || l[uid] != ""
		}
		if isListed {
			known[uid] = rv
		} else {
			forgotten++
		}
	}
	return known, forgotten
}
