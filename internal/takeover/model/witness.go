package model

// Witness is told what the standbys of a run read, what is published to them, and what they know then. So the same can be done with
// the real parts, and compared.
type Witness interface {
	// Begin is called when a standby begins to follow a reader, as mirror number n. Its inventory is that at upto, or upto is -1
	// and it knows nothing.
	Begin(n, reader int, inventory map[int]int, upto int)
	// Read is called with an event of its watch.
	Read(n int, s Seen)
	// Bookmark is called when everything up to a version was read.
	Bookmark(n, upto int)
	// Snapshot is called with how a snapshot at a version differs from what had been read.
	Snapshot(n, at int, differences []Seen)
	// Settled is called after a published position was followed.
	Settled(n int, p Published, known Belief)
}

// Seen is an object as a standby sees it.
type Seen struct {
	UID, Version     int
	Created, Deleted bool
}

// Published is what a leader has published of a reader.
type Published struct {
	Known    bool // the initial state was accepted
	W, Until int
	// Of the version At, which follows W, the events of the objects Seen were accepted too. 0: of none.
	At    int
	Seen  []int
	Ended int // the version of an initial state whose end was offered before W was known
	Owed  []int
	Many  bool // so many are owed that all have to be emitted again
	// DeniedFrom and DeniedTo are the stretch with refused records that no gap record has reported.
	DeniedFrom, DeniedTo int
}

// Belief is what a standby knows.
type Belief struct {
	Whole     bool        // the inventory holds everything that was accepted
	Inventory map[int]int // versions by UID
	Ready     bool
}

func (e event) seen() Seen { return Seen{int(e.uid), int(e.at), e.verb == added, e.verb == deleted} }

func (p position) published() Published {
	q := Published{
		Known: p.known, W: int(p.w), Until: int(p.until), Ended: int(p.ended), Owed: ints(p.owed), Many: p.many,
		DeniedFrom: int(p.denied.from), DeniedTo: int(p.denied.to),
	}
	if len(p.seen) > 0 {
		q.At, q.Seen = int(p.at), ints(p.seen)
	}
	return q
}

func ints(uids []uid) []int {
	var n []int
	for _, u := range uids {
		n = append(n, int(u))
	}
	return n
}

func numbers(inventory map[uid]version) map[int]int {
	n := make(map[int]int, len(inventory))
	for u, at := range inventory {
		n[int(u)] = int(at)
	}
	return n
}

// witnessBegin reports that a mirror begins with its base.
func (m *mirror) witnessBegin() {
	if m.witness == nil {
		return
	}
	m.number = m.numbers()
	if m.base.complete {
		m.witness.Begin(m.number, m.reader, numbers(m.base.inventory), int(m.base.upto))
	} else {
		m.witness.Begin(m.number, m.reader, nil, -1)
	}
}

// witnessSettled reports what a mirror knows once it has followed a position.
func (m *mirror) witnessSettled(p position) {
	if m.witness == nil {
		return
	}
	// The creation of an object shares its version with no other change. So one event of a version shows all that were created.
	created := max(m.contiguous(), m.watch.openAt)
	if m.holed {
		created = max(m.contiguous(), m.opened)
	}
	m.witness.Settled(m.number, p.published(), Belief{
		Whole: m.base.complete, Inventory: numbers(m.base.inventory), Ready: m.started && (!p.known || created >= p.until),
	})
}

// Replay runs the model and shows the witness of its options what happens. It returns what went wrong, which is nothing.
func Replay(o Options) []Violation { return run(o).violations }
