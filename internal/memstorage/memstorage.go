// Package memstorage is a storage extension for tests: in memory, and able to fail.
package memstorage

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// Extension keeps what its clients store for as long as the test runs.
type Extension struct {
	component.StartFunc
	component.ShutdownFunc

	mu      sync.Mutex
	clients map[string]map[string][]byte
	failure error
	writes  int
}

var _ storage.Extension = (*Extension)(nil)

// New returns an empty storage.
func New() *Extension { return &Extension{clients: make(map[string]map[string][]byte)} }

// Fail lets every operation fail with err from now on; nil lets them succeed again.
func (e *Extension) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failure = err
}

// Writes is how many transactions have been written.
func (e *Extension) Writes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.writes
}

// Names are those of the storages that clients were made for.
func (e *Extension) Names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.clients))
}

// Damage changes every value that is stored.
func (e *Extension) Damage(damage func(key string, value []byte) []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, values := range e.clients {
		for key, value := range values {
			values[key] = damage(key, value)
		}
	}
}

// Contains says whether the bytes stand anywhere in what is stored.
func (e *Extension) Contains(b []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, values := range e.clients {
		for key, value := range values {
			if bytes.Contains(value, b) || bytes.Contains([]byte(key), b) {
				return true
			}
		}
	}
	return false
}

// GetClient implements storage.Extension.
func (e *Extension) GetClient(_ context.Context, _ component.Kind, _ component.ID, name string) (storage.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure != nil {
		return nil, e.failure
	}
	if e.clients[name] == nil {
		e.clients[name] = make(map[string][]byte)
	}
	return &client{extension: e, values: e.clients[name]}, nil
}

type client struct {
	extension *Extension
	values    map[string][]byte
	closed    bool
}

var (
	_ storage.Client = (*client)(nil)
	_ storage.Walker = (*client)(nil)
)

func (c *client) Get(ctx context.Context, key string) ([]byte, error) {
	op := storage.GetOperation(key)
	err := c.Batch(ctx, op)
	return op.Value, err
}

func (c *client) Set(ctx context.Context, key string, value []byte) error {
	return c.Batch(ctx, storage.SetOperation(key, value))
}

func (c *client) Delete(ctx context.Context, key string) error {
	return c.Batch(ctx, storage.DeleteOperation(key))
}

func (c *client) Batch(_ context.Context, ops ...*storage.Operation) error {
	c.extension.mu.Lock()
	defer c.extension.mu.Unlock()
	return c.batchLocked(ops)
}

func (c *client) batchLocked(ops []*storage.Operation) error {
	if c.closed {
		return errors.New("storage client is closed")
	}
	if c.extension.failure != nil {
		return c.extension.failure
	}
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			op.Value = bytes.Clone(c.values[op.Key])
		case storage.Set:
			c.values[op.Key] = bytes.Clone(op.Value)
			c.extension.writes++
		case storage.Delete:
			delete(c.values, op.Key)
		}
	}
	return nil
}

func (c *client) Walk(_ context.Context, fn storage.WalkFunc) error {
	c.extension.mu.Lock()
	defer c.extension.mu.Unlock()
	if c.extension.failure != nil {
		return c.extension.failure
	}
	var all []*storage.Operation
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		ops, err := fn(key, c.values[key])
		if err != nil && !errors.Is(err, storage.SkipAll) {
			return err
		}
		all = append(all, ops...)
		if err != nil {
			break
		}
	}
	return c.batchLocked(all)
}

func (c *client) Close(context.Context) error {
	c.closed = true
	return nil
}
