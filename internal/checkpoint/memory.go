package checkpoint

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Memory is a storage extension that lasts as long as the process. A replica without a storage follows the leader with it.
type Memory struct {
	component.StartFunc
	component.ShutdownFunc

	mu     sync.Mutex
	values map[string][]byte
	// objects are the values of objects, by checkpoint, which are nearly all. A key takes less than its text, and a value need
	// not repeat it.
	objects map[string]map[watchlist.Key]packed
}

var _ storage.Extension = (*Memory)(nil)

// NewMemory returns an empty storage.
func NewMemory() *Memory {
	return &Memory{values: make(map[string][]byte), objects: make(map[string]map[watchlist.Key]packed)}
}

// packed is the value of an object: the rest of it after a UID that is its key, or the whole.
type packed string

const (
	uidLeftOut = "\x01"
	verbatim   = "\x00"
	uidLength  = 36 // of a UUID
)

// encodedUID is the beginning of the value of an object whose UID is its key; see encodeObject.
func encodedUID(key watchlist.Key) (b [1 + uidLength]byte) {
	b[0] = uidLength
	at := 1
	for i, part := range [...][]byte{key[:4], key[4:6], key[6:8], key[8:10], key[10:]} {
		if i > 0 {
			b[at] = '-'
			at++
		}
		at += hex.Encode(b[at:], part)
	}
	return b
}

func pack(key watchlist.Key, value []byte) packed {
	uid := encodedUID(key)
	if rest, ok := bytes.CutPrefix(value, uid[:]); ok {
		return packed(uidLeftOut + string(rest))
	}
	return packed(verbatim + string(value))
}

func (p packed) unpack(key watchlist.Key) []byte {
	rest, ok := strings.CutPrefix(string(p), uidLeftOut)
	if !ok {
		return []byte(p[len(verbatim):])
	}
	uid := encodedUID(key)
	return append(append(make([]byte, 0, len(uid)+len(rest)), uid[:]...), rest...)
}

// object returns the checkpoint and the object of a key, if it is one of an object.
func object(key string) (id string, object watchlist.Key, ok bool) {
	id, text, ok := splitObjectKey(key)
	return id, object, ok && object.UnmarshalText([]byte(text)) == nil && objectKey(id, object) == key
}

// GetClient implements storage.Extension. All clients share what is stored, so there must be only one.
func (m *Memory) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return memoryClient{m}, nil
}

type memoryClient struct{ *Memory }

var _ storage.Walker = memoryClient{}

// Get implements storage.Client.
func (c memoryClient) Get(ctx context.Context, key string) ([]byte, error) {
	op := storage.GetOperation(key)
	return op.Value, c.Batch(ctx, op)
}

// Set implements storage.Client.
func (c memoryClient) Set(ctx context.Context, key string, value []byte) error {
	return c.Batch(ctx, storage.SetOperation(key, value))
}

// Delete implements storage.Client.
func (c memoryClient) Delete(ctx context.Context, key string) error {
	return c.Batch(ctx, storage.DeleteOperation(key))
}

// Batch implements storage.Client.
func (c memoryClient) Batch(_ context.Context, operations ...*storage.Operation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range operations {
		c.applyLocked(op)
	}
	return nil
}

func (c memoryClient) applyLocked(op *storage.Operation) {
	id, key, isObject := object(op.Key)
	switch {
	case op.Type == storage.Get && isObject:
		op.Value = nil
		if p, ok := c.objects[id][key]; ok {
			op.Value = p.unpack(key)
		}
	case op.Type == storage.Get:
		op.Value = c.values[op.Key]
	case op.Type == storage.Set && isObject:
		if c.objects[id] == nil {
			c.objects[id] = make(map[watchlist.Key]packed)
		}
		c.objects[id][key] = pack(key, op.Value)
	case op.Type == storage.Set:
		c.values[op.Key] = op.Value
	case isObject:
		delete(c.objects[id], key)
		if len(c.objects[id]) == 0 {
			delete(c.objects, id)
		}
	default:
		delete(c.values, op.Key)
	}
}

// Walk implements storage.Walker. Keys come in order.
func (c memoryClient) Walk(_ context.Context, f storage.WalkFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var collected []*storage.Operation
	err := c.walkLocked(func(key string, value []byte) error {
		operations, err := f(key, value)
		if err == nil || errors.Is(err, storage.SkipAll) {
			collected = append(collected, operations...)
		}
		return err
	})
	if err != nil && !errors.Is(err, storage.SkipAll) {
		return err
	}
	for _, op := range collected {
		c.applyLocked(op)
	}
	return nil
}

// walkLocked calls f with all keys in order, the objects among the others.
func (c memoryClient) walkLocked(f func(key string, value []byte) error) error {
	others := slices.Sorted(maps.Keys(c.values))
	before, _ := slices.BinarySearch(others, objectPrefix)
	walk := func(keys []string) error {
		for _, key := range keys {
			if err := f(key, c.values[key]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(others[:before]); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(c.objects)) {
		objects := c.objects[id]
		keys := slices.Collect(maps.Keys(objects))
		slices.SortFunc(keys, func(a, b watchlist.Key) int { return bytes.Compare(a[:], b[:]) })
		for _, key := range keys {
			if err := f(objectKey(id, key), objects[key].unpack(key)); err != nil {
				return err
			}
		}
	}
	return walk(others[before:])
}

// Close implements storage.Client.
func (memoryClient) Close(context.Context) error { return nil }
