package model

// Leaders is told what the leaders of a run begin with, offer and publish. So the same can be done with the real parts, and
// compared.
type Leaders interface {
	// Leads is called when a leader begins, as number n, with what it knows of each reader.
	Leads(n int, readers []Beginning)
	// Queues is called with a change that a leader has read.
	Queues(n int, c Offered)
	// Offers is called before the pipeline receives a batch for the first time.
	Offers(n int, batch []Offered)
	// Settles is called with the outcome of a batch, or with changes that need none.
	Settles(n int, batch []Offered, denied []bool)
	// Publishes is called with what a leader writes of each reader.
	Publishes(n int, positions []Published)
	// Ends is called when a leader ends, with the mirrors that have begun to continue from what it knows; nil after a kill.
	Ends(n int, mirrors []int)
}

// Beginning is from where a leader continues a reader.
type Beginning struct {
	Reads     bool // it is configured
	Mirror    int  // what its standby has read; see Witness
	Published Published
	Led       bool // this replica led last, and knows all that was offered

	Whole     bool // everything that was offered is known, also if it is gone
	W         int  // where it begins to read
	Inventory map[int]int
}

// Kind is what a leader reads.
type Kind string

// Offered is a change that a leader has read.
type Offered struct {
	Reader       int
	Kind         Kind
	UID, Version int
	Inferred     bool
	Live         bool // from the watch
	Closes       int  // once it is accepted, so is everything up to this version
	From, To     int  // of a gap
	Reason       string
	Epoch        int // of a set
}

// The kinds of what a leader reads; see Offered.
const (
	Snapshot  Kind = "SNAPSHOT"
	Added     Kind = "ADDED"
	Modified  Kind = "MODIFIED"
	Deleted   Kind = "DELETED"
	Gap       Kind = "GAP"
	Begin     Kind = "BEGIN"
	End       Kind = "END"
	Known     Kind = "known"
	Forgotten Kind = "forgotten"
	Unchanged Kind = "unchanged"
	Advanced  Kind = "advanced"
)

func (c *change) offered() Offered {
	return Offered{
		Reader: c.reader, Kind: Kind(kindNames[c.kind]), UID: int(c.uid), Version: int(c.at), Inferred: c.inferred, Live: c.live,
		Closes: int(c.closes), From: int(c.gap.from), To: int(c.gap.to), Reason: c.reason, Epoch: c.epoch,
	}
}

func offeredOf(changes []*change) []Offered {
	all := make([]Offered, len(changes))
	for i, c := range changes {
		all[i] = c.offered()
	}
	return all
}

// witnessLeads reports with what a leader begins.
func (x *replica) witnessLeads(lastTerm int) {
	w := x.world
	if w.Leaders == nil {
		return
	}
	w.leaders++
	x.number = w.leaders
	readers := make([]Beginning, len(x.reads))
	for k, p := range x.progress.readers {
		readers[k] = Beginning{Reads: x.reads[k], Published: p.published()}
		if !x.reads[k] {
			continue
		}
		m, r, c := x.mirrors[k], x.readers[k], x.checkpoints[k]
		readers[k].Mirror, readers[k].W, readers[k].Inventory = m.number, int(c.upto), numbers(c.inventory)
		readers[k].Led = m.base.complete && m.base.led == lastTerm && m.base.upto >= m.base.inherited
		readers[k].Whole = m.base.complete && r.hole == 0 && p.until <= r.known
	}
	w.Leaders.Leads(x.number, readers)
}

func (x *replica) witnessQueues(c *change) {
	if x.world.Leaders != nil {
		x.world.Leaders.Queues(x.number, c.offered())
	}
}

func (x *replica) witnessOffers(changes []*change) {
	if x.world.Leaders != nil {
		x.world.Leaders.Offers(x.number, offeredOf(changes))
	}
}

// witnessSettles reports the outcome of a batch. denied is nil if nothing was offered to the pipeline.
func (x *replica) witnessSettles(changes []*change, denied []bool) {
	if x.world.Leaders == nil {
		return
	}
	if denied == nil {
		denied = make([]bool, len(changes))
	}
	x.world.Leaders.Settles(x.number, offeredOf(changes), denied)
}

func (x *replica) witnessPublishes(p progress) {
	if x.world.Leaders == nil {
		return
	}
	positions := make([]Published, len(p.readers))
	for k, at := range p.readers {
		positions[k] = at.published()
		if c := x.checkpoints[k]; c != nil {
			positions[k].Owed = ints(sortedKeys(c.owed))
		}
	}
	x.world.Leaders.Publishes(x.number, positions)
}

// witnessEnds reports that the replica no longer leads.
func (x *replica) witnessEnds(mirrors []*mirror) {
	if x.world.Leaders == nil {
		return
	}
	var begun []int
	for _, m := range mirrors {
		begun = append(begun, m.number)
	}
	x.world.Leaders.Ends(x.number, begun)
}
