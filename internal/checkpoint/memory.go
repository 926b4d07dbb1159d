package checkpoint

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// Memory is a storage extension that lasts as long as the process. A replica without a storage follows the leader with it.
type Memory struct {
	component.StartFunc
	component.ShutdownFunc

	mu     sync.Mutex
	values map[string][]byte
}

var _ storage.Extension = (*Memory)(nil)

// NewMemory returns an empty storage.
func NewMemory() *Memory { return &Memory{values: make(map[string][]byte)} }

// GetClient implements storage.Extension. All clients share what is stored, so there must be only one.
func (m *Memory) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return memoryClient{m}, nil
}

type memoryClient struct{ *Memory }

var _ storage.Walker = memoryClient{}

// Get implements storage.Client.
func (c memoryClient) Get(_ context.Context, key string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[key], nil
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
	c.applyLocked(operations)
	return nil
}

func (c memoryClient) applyLocked(operations []*storage.Operation) {
	for _, op := range operations {
		switch op.Type {
		case storage.Get:
			op.Value = c.values[op.Key]
		case storage.Set:
			c.values[op.Key] = op.Value
		case storage.Delete:
			delete(c.values, op.Key)
		}
	}
}

// Walk implements storage.Walker. Keys come in order.
func (c memoryClient) Walk(_ context.Context, f storage.WalkFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var collected []*storage.Operation
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		operations, err := f(key, c.values[key])
		if err != nil && !errors.Is(err, storage.SkipAll) {
			return err
		}
		collected = append(collected, operations...)
		if err != nil {
			break
		}
	}
	c.applyLocked(collected)
	return nil
}

// Close implements storage.Client.
func (memoryClient) Close(context.Context) error { return nil }
