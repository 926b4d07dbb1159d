package diff

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

const (
	// maxDictionary bounds the text that all states of a resource have in common for the compression.
	maxDictionary = 8 << 10
	// overhead is about what the map needs for a state beside its bytes.
	overhead = 80
)

// Budget bounds the bytes of all states that are kept. It is safe for concurrent use.
type Budget struct {
	max    int64
	used   atomic.Int64
	isFull atomic.Bool
	onFull func()
}

// NewBudget returns a budget of that many bytes. It calls onFull whenever it has just become too small.
func NewBudget(bytes int64, onFull func()) *Budget { return &Budget{max: bytes, onFull: onFull} }

// Used returns the bytes that are in use.
func (b *Budget) Used() int64 { return b.used.Load() }

// take reserves bytes and reports whether there were enough left.
func (b *Budget) take(bytes int) bool {
	if b.used.Add(int64(bytes)) <= b.max {
		return true
	}
	b.used.Add(-int64(bytes))
	if !b.isFull.Swap(true) {
		b.onFull()
	}
	return false
}

// giveBack returns bytes.
func (b *Budget) giveBack(bytes int) {
	if b.used.Add(-int64(bytes)) < b.max/10*9 {
		b.isFull.Store(false)
	}
}

// States keeps the last state of each object of a reader, compressed. It is not safe for concurrent use.
type States[K comparable] struct {
	budget     *Budget
	dictionary []byte // the first state
	states     map[K]string
}

// NewStates returns states that share a budget with others.
func NewStates[K comparable](budget *Budget) *States[K] {
	return &States[K]{budget: budget, states: make(map[K]string)}
}

// Len returns the number of states.
func (s *States[K]) Len() int { return len(s.states) }

// Put keeps a state instead of the object's last one, and reports whether the budget allows it. If it does not, no state of
// the object is kept, since an older one would claim changes that were already emitted.
func (s *States[K]) Put(key K, state string) bool {
	s.Remove(key)
	if state == "" {
		return true
	}
	if s.dictionary == nil {
		dictionary := []byte(state[:min(len(state), maxDictionary)])
		if !s.budget.take(cap(dictionary)) {
			return false
		}
		s.dictionary = dictionary
	}
	c := compressors.Get().(*compressor)
	defer compressors.Put(c)
	packed := c.pack(s.dictionary, state)
	if !s.budget.take(len(packed) + overhead) {
		return false
	}
	s.states[key] = string(packed)
	return true
}

// Get returns the last state of an object, or nil if it is not known.
func (s *States[K]) Get(key K) []byte {
	packed, ok := s.states[key]
	if !ok {
		return nil
	}
	state, err := unpack(s.dictionary, packed)
	if err != nil {
		return nil // cannot happen: the bytes have not left this process
	}
	return state
}

// Remove forgets an object.
func (s *States[K]) Remove(key K) {
	if packed, ok := s.states[key]; ok {
		delete(s.states, key)
		s.budget.giveBack(len(packed) + overhead)
	}
}

// Clear forgets all objects.
func (s *States[K]) Clear() {
	for key := range s.states {
		s.Remove(key)
	}
	s.budget.giveBack(cap(s.dictionary))
	s.dictionary = nil
}

// compressors are shared, since each has large tables.
var compressors = sync.Pool{New: func() any {
	c := &compressor{}
	c.writer, _ = flate.NewWriter(&c.out, flate.BestSpeed) // the level is valid
	return c
}}

type compressor struct {
	out    bytes.Buffer
	writer *flate.Writer
	in     []byte
}

// pack compresses a state. What it returns is valid until the next call. A writer with a dictionary would need tables of
// its own for each dictionary, so the dictionary is compressed first and its output thrown away.
func (c *compressor) pack(dictionary []byte, state string) []byte {
	c.out.Reset()
	c.writer.Reset(&c.out)
	_, _ = c.writer.Write(dictionary) // a buffer does not fail
	_ = c.writer.Flush()
	c.out.Reset()
	var size [binary.MaxVarintLen64]byte
	c.out.Write(size[:binary.PutUvarint(size[:], uint64(len(state)))])
	c.in = append(c.in[:0], state...)
	_, _ = c.writer.Write(c.in)
	_ = c.writer.Close()
	return c.out.Bytes()
}

var readers = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}

func unpack(dictionary []byte, packed string) ([]byte, error) {
	size, n := binary.Uvarint([]byte(packed[:min(len(packed), binary.MaxVarintLen64)]))
	if n <= 0 {
		return nil, errors.New("state without a size")
	}
	reader := readers.Get().(io.ReadCloser)
	defer readers.Put(reader)
	if err := reader.(flate.Resetter).Reset(bytes.NewReader([]byte(packed[n:])), dictionary); err != nil {
		return nil, err
	}
	state := make([]byte, size)
	if _, err := io.ReadFull(reader, state); err != nil {
		return nil, err
	}
	return state, nil
}
