// Package memstorage is an in-memory storage extension for tests that can be made to fail.
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

// Extension keeps what its clients store until the test ends.
type Extension struct {
	component.StartFunc
	component.ShutdownFunc

	mu      sync.Mutex
	clients map[string]map[string][]byte
	failure error
	full    error // of writes only
	hanging chan struct{}
	panics  any
	tries   int
	writes  int
	within  int // calls that have not returned yet
	most    int // the maximum of within
}

var _ storage.Extension = (*Extension)(nil)

// New returns an empty storage.
func New() *Extension { return &Extension{clients: make(map[string]map[string][]byte)} }

// Fail makes every operation fail with err; nil makes them succeed again.
func (e *Extension) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failure = err
}

// FailWrites makes every write fail with err, and nothing else; nil makes them succeed again.
func (e *Extension) FailWrites(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.full = err
}

// Hang blocks every current and future call until release is called. The calls ignore their context.
func (e *Extension) Hang() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	hanging := make(chan struct{})
	e.hanging = hanging
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.hanging = nil
		close(hanging)
	}
}

// Panic makes every call panic.
func (e *Extension) Panic(with any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.panics = with
}

// Tries returns how many calls were made, including failed ones.
func (e *Extension) Tries() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tries
}

// MostAtOnce returns the maximum number of concurrent calls.
func (e *Extension) MostAtOnce() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.most
}

// enter begins a call and locks the extension, unless the call has to fail; leave unlocks it and ends the call.
func (e *Extension) enter() error {
	e.mu.Lock()
	e.tries++
	e.within++
	e.most = max(e.most, e.within)
	if hanging := e.hanging; hanging != nil {
		e.mu.Unlock()
		<-hanging
		e.mu.Lock()
	}
	err, panics := e.failure, e.panics
	if err != nil || panics != nil {
		e.leave()
	}
	if panics != nil {
		panic(panics)
	}
	return err
}

func (e *Extension) leave() {
	e.within--
	e.mu.Unlock()
}

// Client returns what is stored under a name, by key.
func (e *Extension) Client(name string) map[string][]byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.clients[name])
}

// Writes returns how many transactions were written.
func (e *Extension) Writes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.writes
}

// Names returns the names under which clients were created.
func (e *Extension) Names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.clients))
}

// Damage changes every stored value.
func (e *Extension) Damage(damage func(key string, value []byte) []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, values := range e.clients {
		for key, value := range values {
			values[key] = damage(key, value)
		}
	}
}

// Contains reports whether the bytes occur anywhere in the storage.
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
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.leave()
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
	if err := c.extension.enter(); err != nil {
		return err
	}
	defer c.extension.leave()
	return c.batchLocked(ops)
}

func (c *client) batchLocked(ops []*storage.Operation) error {
	if c.closed {
		return errors.New("storage client is closed")
	}
	for _, op := range ops {
		if op.Type != storage.Get && c.extension.full != nil {
			return c.extension.full
		}
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
	if err := c.extension.enter(); err != nil {
		return err
	}
	defer c.extension.leave()
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
