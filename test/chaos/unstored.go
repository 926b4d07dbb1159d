package chaos

import "github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"

// unstored returns the UIDs of the objects of a resource that the collector emitted only while its disk was full, before it was
// killed. The next process knows nothing of them. As long as the API server has the history it emits them again, and their
// deletions; where that is gone too, nobody can know that they existed.
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

// forget takes objects out of what the records make believe that are gone and that nobody can know of.
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
