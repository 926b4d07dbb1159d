package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// The previous layout had one storage client for each reader, whose name was a hash that included the API version and
// the spelling of the selectors. One more client listed which scopes had been read with which selectors, and the names
// can be reconstructed from that list.
const (
	oldLayout         = "v1"
	oldSelectorsName  = oldLayout + "_selectors"
	oldProgressKey    = "progress"
	oldObjectPrefix   = "object/"
	oldSelectorsParts = 7 // parts of a key in the list
)

// oldCheckpoint is a checkpoint of the previous layout.
type oldCheckpoint struct {
	clusterUID, version          string
	resource                     schema.GroupResource
	namespace                    string
	labelSelector, fieldSelector string // as spelled

	progress storedProgress
}

func (o oldCheckpoint) name() string {
	identity := strings.Join([]string{
		o.clusterUID, o.resource.Group, o.version, o.resource.Resource, o.namespace, o.labelSelector, o.fieldSelector,
	}, "\x00")
	sum := sha256.Sum256([]byte(identity))
	return oldLayout + "_" + o.resource.Resource + "_" + hex.EncodeToString(sum[:12])
}

func (o oldCheckpoint) scope() scope.Scope {
	return scope.New(o.resource, o.namespace, o.labelSelector, o.fieldSelector)
}

// oldIdentity is the same for old checkpoints that are now one: API versions and spellings do not matter.
type oldIdentity struct {
	clusterUID string
	scope      scope.Scope
}

// migrate copies the checkpoints of the previous layout, once. If several have become one, the newest counts.
func (k *Keeper) migrate(client storage.Client) error {
	list, err := k.oldCheckpoints()
	if err != nil {
		return err
	}
	newest := make(map[oldIdentity]oldCheckpoint)
	var outdated []oldCheckpoint
	for _, o := range list {
		var data []byte
		err := k.withOld(o.name(), func(c storage.Client) (err error) {
			data, err = c.Get(k.ctx, oldProgressKey)
			return err
		})
		if err != nil {
			return err
		}
		if data == nil {
			continue
		}
		if o.progress, err = decodeProgress(data); err != nil {
			k.Logger.Warn("cannot take over checkpoint of an earlier version", append(o.scope().LogFields(), zap.Error(err))...)
			outdated = append(outdated, o)
			continue
		}
		of := oldIdentity{o.clusterUID, o.scope()}
		if known, ok := newest[of]; ok {
			if !known.progress.Time.Before(o.progress.Time) {
				outdated = append(outdated, o)
				continue
			}
			outdated = append(outdated, known)
		}
		newest[of] = o
	}
	for _, o := range newest {
		if err := k.takeOld(client, o); err != nil {
			return err
		}
	}
	for _, o := range outdated {
		if err := k.withOld(o.name(), k.clear); err != nil {
			return err
		}
	}
	if err := client.Set(k.ctx, migratedKey, []byte(time.Now().UTC().Format(time.RFC3339))); err != nil {
		return err
	}
	if len(list) == 0 {
		return nil
	}
	k.Logger.Info("took over the checkpoints of an earlier version; the files of their storage, whose names contain _v1_, are no longer needed",
		zap.Int("checkpoints", len(newest)))
	return k.withOld(oldSelectorsName, k.clear)
}

// withOld calls f with a client of the previous layout.
func (k *Keeper) withOld(name string, f func(storage.Client) error) error {
	client, err := k.Extension.GetClient(k.ctx, component.KindReceiver, k.Receiver, name)
	if err != nil {
		return err
	}
	return errors.Join(f(client), client.Close(k.ctx))
}

// oldCheckpoints lists the checkpoints that the previous layout may hold.
func (k *Keeper) oldCheckpoints() (list []oldCheckpoint, err error) {
	err = k.withOld(oldSelectorsName, func(c storage.Client) error {
		return k.walk(c, func(key string, value []byte) ([]*storage.Operation, error) {
			parts := strings.Split(key, "/")
			if len(parts) != oldSelectorsParts || len(value) == 0 {
				return nil, nil
			}
			for _, selectors := range strings.Split(string(value), "\x01") {
				labels, fields, _ := strings.Cut(selectors, "\x00")
				list = append(list, oldCheckpoint{
					clusterUID: parts[2], resource: schema.GroupResource{Group: parts[3], Resource: parts[5]}, version: parts[4], namespace: parts[6],
					labelSelector: labels, fieldSelector: fields,
				})
			}
			return nil, nil
		})
	})
	return list, err
}

// takeOld copies a checkpoint in one transaction, and then clears the old one. If it is interrupted, it is repeated.
func (k *Keeper) takeOld(client storage.Client, o oldCheckpoint) error {
	e := newEntry(o.scope())
	e.Cluster, e.ReadAt = Cluster{UID: o.clusterUID}, time.Now()
	described, err := e.encode()
	if err != nil {
		return err
	}
	progress, err := o.progress.encode()
	if err != nil {
		return err
	}
	operations := []*storage.Operation{storage.SetOperation(scopeKey(e.id), described), storage.SetOperation(progressKey(e.id), progress)}
	return k.withOld(o.name(), func(c storage.Client) error {
		err := k.walk(c, func(key string, value []byte) ([]*storage.Operation, error) {
			if object, ok := strings.CutPrefix(key, oldObjectPrefix); ok {
				operations = append(operations, storage.SetOperation(objectPrefix+e.id+"/"+object, append([]byte(nil), value...)))
			}
			return nil, nil
		})
		if err != nil {
			return err
		}
		for _, known := range k.index {
			if known.scope() == o.scope() && known.Cluster == e.Cluster {
				return k.clear(c) // already copied before the process was killed
			}
		}
		if err := client.Batch(k.ctx, operations...); err != nil {
			return err
		}
		k.index[e.id] = e
		return k.clear(c)
	})
}

func (k *Keeper) walk(c storage.Client, f storage.WalkFunc) error {
	walker, ok := c.(storage.Walker)
	if !ok {
		return nil // the previous version could not use it either
	}
	return walker.Walk(k.ctx, f)
}

// clear removes everything in a client.
func (k *Keeper) clear(c storage.Client) error {
	return k.walk(c, func(key string, _ []byte) ([]*storage.Operation, error) {
		return []*storage.Operation{storage.DeleteOperation(key)}, nil
	})
}
