package watchlist

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

const reasonDropped = "dropped"

const (
	// firstRedelivery is how long after a record was dropped its object is emitted again. The delay doubles with each
	// redelivery whose records are dropped too, up to the relist interval, so that a consumer that denies everything is
	// not hammered.
	firstRedelivery = time.Minute
	// lastRedelivery is the longest delay if there are no relists.
	lastRedelivery = 6 * time.Hour
)

// drops passes permanently refused records from the delivery to the reader.
type drops struct {
	mu       sync.Mutex
	changes  []droppedChange
	accepted bool // a record was accepted since
	signal   chan struct{}
}

// droppedChange is the needed part of a dropped record.
type droppedChange struct {
	kind     Type
	key      Key
	id       redact.Identity
	content  uint64
	from, to version
	at       time.Time
	epoch    string // of a set, for its begin and end
	records  int    // itself and, if it is the gap record of earlier ones, these
}

// Dropped notes records of this reader that the next consumer refused permanently. A backend that folds the records
// lacks them, so a comparison soon emits their objects again. It is safe for concurrent use.
func (r *Reader) Dropped(changes []Change) {
	r.drops.mu.Lock()
	defer r.drops.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		d := droppedChange{kind: c.Type, key: c.Key, id: c.Object.Identity.Clone(), content: c.Object.Content.Sum, at: c.ReadAt, records: 1}
		from, to := c.Span()
		d.from, d.to = parseVersion(strings.Clone(from)), parseVersion(strings.Clone(to))
		if c.Type == SnapshotBegin || c.Type == SnapshotEnd {
			d.epoch = c.Snapshot.Epoch
		}
		if c.Gap != nil {
			d.records += c.Gap.Dropped
		}
		r.drops.changes = append(r.drops.changes, d)
	}
	r.drops.wake()
}

// AcceptedAgain notes that the next consumer has accepted a record after one was dropped. It is safe for concurrent use.
func (r *Reader) AcceptedAgain() {
	r.drops.mu.Lock()
	defer r.drops.mu.Unlock()
	r.drops.accepted = true
	r.drops.wake()
}

func (d *drops) wake() {
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// denial is a period in which records were dropped, until the gap record that reports it.
type denial struct {
	records  int
	from, to version
	since    time.Time
	over     bool // the consumer accepts again
}

func (d *denial) add(c droppedChange) {
	if d.records == 0 {
		d.since, d.from = c.at, c.from
	}
	d.records += c.records
	if c.from.none() || c.from.before(d.from) {
		d.from = c.from
	}
	if d.to.before(c.to) || d.to.none() {
		d.to = c.to
	}
}

// noteDrops updates the inventory for dropped records: an object whose newest record was dropped has no known version,
// even if later versions with the same content were passed over, and one whose deletion was dropped still exists for the
// reader of the records. A set of which the begin or the end was dropped has to be sent again.
func (r *Reader) noteDrops() {
	r.drops.mu.Lock()
	changes, accepted := r.drops.changes, r.drops.accepted
	r.drops.changes, r.drops.accepted = nil, false
	r.drops.mu.Unlock()
	for _, c := range changes {
		r.denial.add(c)
		known, ok := r.inventory.get(c.key)
		switch c.kind {
		case Snapshot, Added, Modified:
			if ok && (known == c.to || r.inventory.hasPassed(c.key, c.content)) {
				r.remember(c.key, c.id, version{})
				r.forgetState(c.key)
			}
		case Deleted:
			if !ok {
				r.remember(c.key, c.id, version{})
			}
		case SnapshotBegin, SnapshotEnd:
			r.sets.refused(c.epoch)
		}
	}
	if len(changes) > 0 {
		r.scheduleRedelivery()
	}
	r.denial.over = r.denial.records > 0 && (accepted || r.denial.over && len(changes) == 0)
}

// reportDrops emits the gap record of a denial that is over.
func (r *Reader) reportDrops(ctx context.Context) error {
	if !r.denial.over {
		return nil
	}
	err := r.emit(ctx, Change{Type: Gap, Origin: Recovered, Gap: &GapInfo{
		Reason: reasonDropped,
		FromRV: r.denial.from.String(), ToRV: r.denial.to.String(),
		From: r.denial.since, To: r.Now(),
		Dropped: r.denial.records,
	}}, liveEmitTimeout)
	if err == nil {
		r.Observer.GapRecorded(reasonDropped)
		r.denial = denial{}
	}
	return err
}

// restoreDenial continues with records that were dropped in an earlier process, which did not report them.
func (r *Reader) restoreDenial(g *GapInfo) {
	r.denial = denial{
		records: g.Dropped, from: parseVersion(g.FromRV), to: parseVersion(g.ToRV), since: g.From,
		over: true, // the gap record will show whether the consumer accepts now
	}
}

// redelivery is the schedule for emitting again what was dropped: objects and sets.
type redelivery struct {
	at    time.Time // zero: nothing has to be emitted again
	last  time.Time // when the previous one began
	pause time.Duration
}

func (d *redelivery) begins() { d.at, d.last = time.Time{}, time.Now() }

func (r *Reader) scheduleRedelivery() {
	d := &r.schedule.redelivery
	if !d.at.IsZero() {
		return
	}
	longest := lastRedelivery
	if r.RelistInterval > 0 {
		longest = min(longest, r.RelistInterval)
	}
	if d.pause == 0 || time.Since(d.last) > 2*d.pause {
		d.pause = min(firstRedelivery, longest)
	} else {
		d.pause = min(2*d.pause, longest)
	}
	d.at = time.Now().Add(spread(d.pause))
}

// armRedelivery makes the timer of the redelivery fire when it is due.
func (f *follower) armRedelivery() {
	if at := f.schedule.redelivery.at; !at.IsZero() {
		f.redeliver.Reset(time.Until(at))
	}
}

// beginRedelivery starts a relist with whole objects at once, which emits the objects whose records were dropped and the set
// that is owed, if there still are any. Where there are no relists, it makes way for a whole snapshot that is the set.
func (f *follower) beginRedelivery() error {
	if f.sets.owed && !f.relists() {
		return errRelistDue
	}
	f.schedule.redelivery.begins()
	owesSet := f.sets.owed && !f.sendsSet // else the end of that set shows whether another one is owed
	if !owesSet && !f.inventory.hasUnknown() {
		return nil
	}
	if owesSet {
		f.Logger.Info(sendingAnother, f.fields(nil)...)
	}
	f.schedule.relistObjects = true
	f.schedule.relist = time.Now()
	f.armRelist()
	return nil
}
