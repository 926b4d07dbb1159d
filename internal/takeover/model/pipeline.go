package model

import "slices"

// batch is what a replica offers to the pipeline in one call.
type batch struct {
	from    *replica
	term    int
	changes []*change
	counts  []int // what the ends of sets among them state
	// What the pipeline will do: refuse it for now, or store what it does not refuse permanently.
	refuses bool
	denies  []bool // by record
	stores  millis
	stored  bool
	answers millis
	// answered: the replica can know the outcome. No answer proves nothing.
	answered bool
	noted    bool // the replica has seen the answer
	begun    millis
}

type mood uint8

const (
	moodFine   mood = iota
	moodSlow        // takes seconds
	moodBusy        // refuses for now
	moodDeny        // refuses permanently
	moodHang        // does not answer, and may store the batch much later
	moodSilent      // stores, and the answer is lost
	moods
)

var moodNames = [...]string{"fine", "slow", "busy", "denies", "hangs", "silent"}

const never = millis(1) << 50

// pipeline is the next consumer, with the backend behind it.
type pipeline struct {
	mood   mood
	poison bool // records with some objects' content are always refused
	flying []*batch
}

// poisoned reports whether the backend never takes the object, for example because it is too large.
func (p *pipeline) poisoned(u uid) bool { return p.poison && u%29 == 7 }

// offer begins the call for a batch.
func (w *world) offer(b *batch) {
	p, random := &w.pipeline, w.random
	b.begun = w.now
	b.stores, b.answers = w.now+millis(random.IntN(80)), never
	mood := p.mood
	if random.IntN(60) == 0 && w.Plain == nil {
		mood = moodSilent
	}
	if w.now < b.from.sinkCutUntil {
		mood = moodSilent
		b.stores = never
	}
	switch mood {
	case moodSlow:
		b.stores = w.now + millis(random.IntN(3000))
	case moodBusy:
		b.refuses, b.stores = true, never
		b.answers = w.now + millis(random.IntN(300))
	case moodHang:
		b.stores = w.now + millis(random.IntN(60_000))
		if random.IntN(2) == 0 {
			b.stores = never
		}
	}
	b.denies = make([]bool, len(b.changes))
	all := mood == moodDeny && random.IntN(3) > 0
	for i, c := range b.changes {
		b.counts = append(b.counts, c.count)
		b.denies[i] = c.isRecord() && (all || mood == moodDeny && random.IntN(3) == 0 ||
			c.isOfObject() && c.kind != kindDeleted && p.poisoned(c.uid))
	}
	if mood != moodSilent && mood != moodHang && mood != moodBusy {
		b.answers = b.stores + millis(random.IntN(80))
	}
	p.flying = append(p.flying, b)
}

// handleBatches lets the pipeline store and answer what is due.
func (w *world) handleBatches() {
	p := &w.pipeline
	p.flying = slices.DeleteFunc(p.flying, func(b *batch) bool {
		if !b.stored && b.stores <= w.now {
			b.stored = true
			for i, c := range b.changes {
				if c.isRecord() && !b.denies[i] {
					w.verdict.store(c, b, b.counts[i])
				}
			}
		}
		if b.answers <= w.now {
			b.answered = true
		}
		return (b.stored || b.stores == never) && (b.answered || b.answers == never)
	})
}

// abandon decides what becomes of a killed replica's call: what has left its process may still arrive.
func (w *world) abandon(x *replica) {
	for _, b := range w.pipeline.flying {
		if b.from == x && !b.stored {
			b.answers = never
			if w.random.IntN(2) == 0 {
				b.stores = never
			}
		}
	}
}
