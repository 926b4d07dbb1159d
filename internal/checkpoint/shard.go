package checkpoint

import (
	"slices"

	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// The objects of one shard may move to another, whose process has a storage of its own. A checkpoint knows what was emitted of
// an object only as long as no other process has read it. So only the checkpoints of the shard for which a storage was used last
// are of use, and only for objects that belong to the new shard as well:
//
//   - If the new shard is a part of the old one, its reader continues exactly where the old one stopped.
//   - Otherwise another process has read some of its objects, and only that process knows of deletions. The reader sends a set of
//     snapshots: whatever is not in it is gone. A gap record begins where the old shard ended.

// followShard removes the checkpoints of the shards for which the storage was used earlier than last, if it was last used for
// another one than now.
func (k *Keeper) followShard() {
	last, now := k.lastShard, k.Shard.String()
	if last == now {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.index) > 0 {
		k.Logger.Info("storage was last used for another shard", zap.String("shard", now), zap.String("last", last))
	}
	for _, e := range k.index {
		if e.shard().String() != last {
			k.removeLocked(e)
		}
	}
	k.extra[shardKey] = storage.SetOperation(shardKey, []byte(now))
	signal(k.wake)
}

// describe names the checkpoint for people.
func (e *entry) describe() string {
	if s := e.shard(); s.Divided() {
		return e.scope().String() + " in shard " + s.String()
	}
	return e.scope().String()
}

// isOfItsShard reports whether the checkpoints hold everything that was emitted of the objects of the reader's shard.
func (p *plan) isOfItsShard() bool {
	return !slices.ContainsFunc(p.sources(), func(e *entry) bool { return !e.shard().Covers(p.scope.Shard) })
}

// begunAnew returns the progress of a reader if the checkpoints lack some of its objects. It has no position, so that the reader
// sends a set, and says where the oldest of the checkpoints ended.
func begunAnew(reason string, entries []*entry, stored map[string]progressOf) (all storedProgress, err error) {
	for _, e := range entries {
		p := stored[e.id]
		if p.err != nil {
			return storedProgress{}, p.err
		}
		all.Denied = all.Denied.and(p.Denied)
		from := p.Hidden
		switch {
		case p.ResourceVersion == "":
		case p.Lost != nil:
			from = &storedHidden{reason, storedVerification{ResourceVersion: p.Lost.ResourceVersion, Time: p.Lost.Time}}
		default:
			from = &storedHidden{reason, storedVerification{ResourceVersion: p.ResourceVersion, Time: p.Time}}
		}
		if from != nil && (all.Hidden == nil || watchlist.VersionBefore(from.ResourceVersion, all.Hidden.ResourceVersion)) {
			all.Hidden = from
		}
	}
	return all, nil
}
