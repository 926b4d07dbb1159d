package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// restore is a reader that waits for its checkpoint.
type restore struct {
	reader   *scope.Scope // identifies it
	scope    scope.Scope
	add      func(watchlist.Stored)
	answered chan struct{} // closed with an answer, or when asking again may succeed
	progress watchlist.Progress
	err      error

	mu        sync.Mutex
	settled   bool // the answer has arrived
	abandoned bool // the reader has continued without it
}

// abandon makes the reader continue without an answer, and reports whether it did: not if the answer has arrived.
func (r *restore) abandon() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled {
		return false
	}
	r.abandoned = true
	return true
}

// waits reports whether the reader still waits.
func (r *restore) waits() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.abandoned
}

// give passes an object to the reader, if it still waits.
func (r *restore) give(o watchlist.Stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.abandoned {
		r.add(o)
	}
}

// answer lets the reader continue.
func (r *restore) answer(progress watchlist.Progress, err error) {
	r.settle(progress, err)
	close(r.answered)
}

// settle fixes the answer, and reports whether the reader still waits for it.
func (r *restore) settle(progress watchlist.Progress, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.abandoned {
		return false
	}
	r.progress, r.err, r.settled = progress, err, true
	return true
}

// refuseAll answers all waiting requests with a permanent error.
func (k *Keeper) refuseAll(err error) {
	k.mu.Lock()
	restores, jobs := k.restores, k.jobs
	k.restores, k.jobs = nil, nil
	k.mu.Unlock()
	for _, r := range restores {
		r.answer(watchlist.Progress{}, err)
	}
	for _, j := range jobs {
		j.err = err
		close(j.answered)
	}
}

// plan is how one reader gets its checkpoint.
type plan struct {
	*restore
	store *store // the store of the reader
	own   *entry // the checkpoint of the scope itself, if there is one
	parts []*entry

	namespaces scope.Namespaces // of the scope
	// unversioned: part of the initial state may have been emitted, and its set is not continued. All of it is emitted
	// again in another set. Of the known objects, only the fact that they may have been emitted is kept.
	unversioned bool
	objects     int
	err         error // the checkpoint is damaged

	handedOver *Handover // nil: the reader continues from its own checkpoint
	knownRV    string    // see watchlist.Takeover
}

// restoreAll answers all waiting readers, and reads the storage once for all of them.
func (k *Keeper) restoreAll() error {
	k.mu.Lock()
	var waiting, abandoned []*restore
	unwritten := false
	for _, r := range k.restores {
		if r.waits() {
			waiting = append(waiting, r)
			unwritten = unwritten || k.stores[r.scope] != nil
		} else {
			abandoned = append(abandoned, r)
		}
	}
	k.restores = abandoned
	k.mu.Unlock()
	if len(waiting) > 0 {
		var err error
		if unwritten { // what an earlier reader left
			err = k.write(nil)
		}
		if err == nil {
			err = k.restoreThese(waiting)
		}
		if err != nil {
			k.mu.Lock()
			k.restores = append(waiting, k.restores...)
			k.mu.Unlock()
			return err
		}
		signal(k.wake)
	}
	return k.sweep()
}

// invite lets the readers that have continued without an answer ask again, if the storage works.
func (k *Keeper) invite() {
	if k.fares.cause() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.restores = slices.DeleteFunc(k.restores, func(r *restore) bool {
		waits := r.waits()
		if !waits {
			r.answer(watchlist.Progress{}, nil)
		}
		return !waits
	})
}

// restoreThese answers all of the readers, or none if it returns an error.
func (k *Keeper) restoreThese(waiting []*restore) error {
	stored, err := k.readProgress()
	if err != nil {
		return err
	}
	cluster := k.Cluster()
	requested, taken := make(map[scope.Scope]bool), make(map[string]bool)
	for _, r := range waiting {
		requested[r.scope] = true
	}
	var plans []*plan
	for _, r := range waiting {
		p := &plan{restore: r, namespaces: r.scope.Namespaces()}
		k.choose(p, cluster, stored, requested, taken)
		plans = append(plans, p)
	}
	if err := k.readObjects(plans); err != nil {
		return err
	}
	for _, p := range plans {
		k.finish(p, cluster)
	}
	return nil
}

// progressOf is the progress of a checkpoint, or the error why it is not known.
type progressOf struct {
	storedProgress
	err error
}

func (k *Keeper) readProgress() (map[string]progressOf, error) {
	ids := slices.Sorted(maps.Keys(k.index))
	operations := make([]*storage.Operation, len(ids))
	for i, id := range ids {
		operations[i] = storage.GetOperation(progressKey(id))
	}
	if len(ids) > 0 {
		if err := k.client.Batch(k.ctx, operations...); err != nil {
			return nil, err
		}
	}
	stored := make(map[string]progressOf, len(ids))
	for i, id := range ids {
		if operations[i].Value == nil {
			continue // nothing was accepted
		}
		progress, err := decodeProgress(operations[i].Value)
		if err != nil {
			err = fmt.Errorf("cannot decode stored progress: %w", err)
		}
		stored[id] = progressOf{progress, err}
	}
	return stored, nil
}

// choose selects the checkpoints from which a reader continues, and its progress.
func (k *Keeper) choose(p *plan, cluster Cluster, stored map[string]progressOf, requested map[scope.Scope]bool, taken map[string]bool) {
	k.mu.Lock()
	open := make(map[scope.Scope]bool, len(k.stores))
	for of := range k.stores {
		open[of] = true
	}
	k.mu.Unlock()

	isRead := func(of scope.Scope) bool { return open[of] || requested[of] || k.Wanted != nil && k.Wanted(of) }

	certain := true
	for _, id := range slices.Sorted(maps.Keys(k.index)) {
		e := k.index[id]
		same, sure := cluster.is(e.Cluster)
		of := e.scope()
		switch {
		case !same, taken[id], of.GroupResource != p.scope.GroupResource:
		case of == p.scope:
			if p.own == nil || sure && !certain || sure == certain && e.ReadAt.After(p.own.ReadAt) { // prefer the most certain, then the newest
				p.own, certain = e, sure
			}
		case isRead(of), !e.overlaps(p.scope):
		default:
			p.parts = append(p.parts, e)
		}
	}
	for _, e := range p.parts {
		_, sure := cluster.is(e.Cluster)
		certain = certain && sure
		if e.within(p.scope) {
			taken[e.id] = true
		}
	}

	p.store = newStore(p.own)
	if p.own == nil {
		p.store.entry = newEntry(p.scope)
	}
	switch {
	case p.own == nil && len(p.parts) == 0:
		if !p.handOver(k) {
			k.logAfresh(p.scope, cluster, isRead)
		}
		return
	case p.own != nil && len(p.parts) == 0 && p.own.covers(p.scope):
		p.store.progress, p.err = stored[p.own.id].storedProgress, stored[p.own.id].err
	case p.own == nil && len(p.parts) == 1 && sameSelectors(p.parts[0].scope(), p.scope) && p.parts[0].covers(p.scope) && stored[p.parts[0].id].ResourceVersion != "":
		// A larger scope that was read up to some version includes this one up to that version.
		p.store.progress, p.err = stored[p.parts[0].id].storedProgress, stored[p.parts[0].id].err
	case !p.isOfItsShard():
		p.store.progress, p.err = begunAnew(watchlist.ReasonResharded, p.sources(), stored)
	default:
		p.store.progress, p.err = joined(p.sources(), stored)
	}
	if p.handOver(k) {
		return
	}
	p.unversioned = p.store.progress.none()
	if !certain && p.store.progress.ResourceVersion != "" {
		p.store.progress.Unconfirmed = true
	}
}

// sources returns all checkpoints from which the reader continues.
func (p *plan) sources() []*entry {
	if p.own == nil {
		return p.parts
	}
	return append([]*entry{p.own}, p.parts...)
}

func sameSelectors(a, b scope.Scope) bool {
	return a.LabelSelector == b.LabelSelector && a.FieldSelector == b.FieldSelector
}

// joined returns the progress of a reader that continues from checkpoints of other scopes. Its inventory has to be
// compared with the server at the version of the newest checkpoint or later, and only up to the oldest one was
// everything read.
func joined(entries []*entry, stored map[string]progressOf) (all storedProgress, err error) {
	for _, e := range entries {
		if p := stored[e.id]; p.ResourceVersion == "" && p.Hidden != nil {
			// Nobody knows what was emitted of its objects and is gone.
			return begunAnew(p.Hidden.Reason, entries, stored)
		}
	}
	oldest, doubt := storedProgress{}, watchlist.Doubt(0)
	for _, e := range entries {
		p := stored[e.id]
		switch {
		case p.err != nil:
			return storedProgress{}, p.err
		case p.ResourceVersion == "":
			all.Denied = all.Denied.and(p.Denied)
			continue
		}
		all.Denied = all.Denied.and(p.Denied)
		if all.ResourceVersion == "" || watchlist.VersionBefore(all.ResourceVersion, p.ResourceVersion) {
			all.ResourceVersion, all.Closed, all.At = p.ResourceVersion, p.Closed, p.At
		}
		from := storedProgress{ResourceVersion: p.ResourceVersion, Time: p.Time}
		if p.Lost != nil {
			from, doubt = storedProgress{ResourceVersion: p.Lost.ResourceVersion, Time: p.Lost.Time}, max(doubt, p.Lost.Doubt)
		}
		if oldest.ResourceVersion == "" || watchlist.VersionBefore(from.ResourceVersion, oldest.ResourceVersion) {
			oldest = from
		}
	}
	if all.ResourceVersion != "" {
		all.Time = oldest.Time
		all.Lost = lossOf(watchlist.ScopeChange(oldest.ResourceVersion, oldest.Time))
		all.Lost.Doubt, all.Lost.isNew = max(doubt, all.Lost.Doubt), true
	}
	return all, nil
}

// readObjects passes every reader its objects.
func (k *Keeper) readObjects(plans []*plan) error {
	readers := make(map[string][]*plan)
	for _, p := range plans {
		for _, e := range p.sources() {
			readers[e.id] = append(readers[e.id], p)
		}
	}
	if len(readers) == 0 {
		return nil
	}
	return k.client.(storage.Walker).Walk(k.ctx, func(key string, value []byte) ([]*storage.Operation, error) {
		id, object, ok := splitObjectKey(key)
		if !ok {
			return nil, nil
		}
		interested := readers[id]
		if len(interested) == 0 {
			return nil, nil
		}
		known, err := decodeObject(value)
		for _, p := range interested {
			if err != nil {
				p.err = err
				continue
			}
			p.take(id, object, known)
		}
		return nil, nil
	})
}

// take passes the reader an object of one of its checkpoints.
func (p *plan) take(from, object string, o watchlist.Stored) {
	if p.err != nil || p.scope.Namespace != "" && o.Namespace != p.scope.Namespace || !p.namespaces.Match(o.Namespace) ||
		!p.scope.Shard.Owns(o.UID, o.Namespace) {
		return
	}
	if p.unversioned {
		o.ResourceVersion, o.Content = "", 0
	}
	if p.own == nil || from != p.own.id || p.unversioned {
		var key watchlist.Key
		if key.UnmarshalText([]byte(object)) != nil {
			p.err = errBadEntry
			return
		}
		p.store.objects[key] = &o
	}
	p.objects++
	p.give(o)
}

// finish answers a reader whose objects have been read, and adds the resulting changes to the next transaction.
func (k *Keeper) finish(p *plan, cluster Cluster) {
	if p.err != nil {
		// It cannot be used at all: the known objects would not be all that were emitted.
		for _, e := range p.sources() {
			k.remove(e)
		}
		p.own, p.parts = nil, nil
		p.store = newStore(newEntry(p.scope))
	}
	var progress watchlist.Progress
	var err error
	if p.err == nil {
		progress = p.restored()
	} else {
		err = fmt.Errorf("starting afresh, since the checkpoint is damaged: %w", p.err)
	}
	defer close(p.answered)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !p.settle(progress, err) {
		return // it continues without it, and asks again
	}
	e := p.store.entry
	e.Cluster, e.ReadAt = cluster.and(e.Cluster), time.Now()
	if p.scope.Namespace == "" {
		e.Lent = nil // the lent namespaces are included again
	}
	k.index[e.id] = e
	p.store.entryChanged, p.store.changed = true, true
	p.store.reader = p.reader
	p.store.sets.begun = p.store.progress.Epoch
	if late := k.late[p.reader]; late != nil {
		p.store.partial, p.store.sets = true, *late
		delete(k.late, p.reader)
	}
	k.stores[p.scope] = p.store
	delete(k.left, p.scope)
	if len(p.parts) > 0 {
		k.takeOver(p)
	}
}

// takeOver removes from other checkpoints what was passed to the reader's own. It is called with the lock held.
func (k *Keeper) takeOver(p *plan) {
	var from []string
	for _, e := range p.parts {
		from = append(from, e.describe())
		if k.index[e.id] == nil {
			continue // another reader found it damaged
		}
		if e.within(p.scope) {
			k.removeLocked(e)
			continue
		}
		e.Lent = append(e.Lent, p.namespaces.String())
		for key := range p.store.objects {
			k.extra[objectKey(e.id, key)] = storage.DeleteOperation(objectKey(e.id, key))
		}
		if described, err := e.encode(); err == nil {
			k.extra[scopeKey(e.id)] = storage.SetOperation(scopeKey(e.id), described)
		}
	}
	k.Logger.Info("going on with what was read of other scopes", append(p.scope.LogFields(),
		zap.Strings("from", from), zap.Int("objects", p.objects), zap.Bool("compared", p.store.progress.Lost != nil))...)
}

// remove removes a checkpoint in the next transaction; its objects are removed later.
func (k *Keeper) remove(e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removeLocked(e)
}

func (k *Keeper) removeLocked(e *entry) {
	delete(k.index, e.id)
	k.removed[e.id] = true
	for _, key := range []string{scopeKey(e.id), progressKey(e.id)} {
		k.extra[key] = storage.DeleteOperation(key)
	}
}

// logAfresh logs why a resource is read afresh although it has checkpoints that no reader uses.
func (k *Keeper) logAfresh(of scope.Scope, cluster Cluster, isRead func(scope.Scope) bool) {
	var others []string
	why := ""
	for _, id := range slices.Sorted(maps.Keys(k.index)) {
		e := k.index[id]
		same, certain := cluster.is(e.Cluster)
		if e.scope().GroupResource != of.GroupResource || same && isRead(e.scope()) {
			continue
		}
		others = append(others, e.describe())
		switch {
		case why != "" || same:
		case certain:
			why = "the checkpoint is of another cluster: its UID is " + e.Cluster.UID
		default:
			why = "the checkpoint is of an API server with another URL or certificate authority, and it is not known whether the cluster is the same: " +
				"grant get on the namespace kube-system to have its UID"
		}
	}
	if len(others) == 0 {
		return
	}
	if why == "" {
		why = "the existing checkpoints hold other objects"
	}
	const most = 5
	k.Logger.Info("starting afresh although there are checkpoints of the resource", append(of.LogFields(),
		zap.String("reason", why), zap.Strings("checkpoints", others[:min(most, len(others))]), zap.Int("of", len(others)))...)
}

const (
	// unreadFor is how long a checkpoint without a reader is kept.
	unreadFor = 30 * 24 * time.Hour
	// sweepObjects is how many objects of removed checkpoints one transaction deletes.
	sweepObjects = 10_000
)

// tidy removes checkpoints that have had no reader for a long time.
func (k *Keeper) tidy() {
	cluster, now := k.Cluster(), time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.stores {
		s.entry.ReadAt, s.entryChanged = now, true
	}
	for _, e := range k.index {
		of := e.scope()
		same, _ := cluster.is(e.Cluster)
		s := k.stores[of]
		switch {
		case s != nil && s.entry == e, now.Sub(e.ReadAt) < unreadFor:
		case s == nil && same && k.Wanted != nil && k.Wanted(of): // its reader has yet to start
		default:
			k.Logger.Info("removing checkpoint that has had no reader for a long time", append(of.LogFields(), zap.Time("read_at", e.ReadAt))...)
			k.removeLocked(e)
		}
	}
	signal(k.wake)
}

// sweep deletes the objects of removed checkpoints.
func (k *Keeper) sweep() error {
	if len(k.removed) == 0 {
		return nil
	}
	if err := k.write(nil); err != nil { // first store that they are removed
		return err
	}
	for found := sweepObjects; found == sweepObjects; {
		found = 0
		err := k.client.(storage.Walker).Walk(k.ctx, func(key string, _ []byte) ([]*storage.Operation, error) {
			id, _, ok := splitObjectKey(key)
			if !ok || !k.removed[id] {
				return nil, nil
			}
			found++
			if found == sweepObjects {
				return []*storage.Operation{storage.DeleteOperation(key)}, storage.SkipAll
			}
			return []*storage.Operation{storage.DeleteOperation(key)}, nil
		})
		if err != nil {
			return err
		}
	}
	clear(k.removed)
	return nil
}

func decodeEntry(id string, data []byte) (*entry, error) {
	e := &entry{id: id}
	if err := json.Unmarshal(data, e); err != nil {
		return nil, err
	}
	if strings.Contains(id, "/") || e.Resource == "" {
		return nil, errors.New("stored scope is damaged")
	}
	return e, nil
}
