package diff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func state(r *rand.Rand) string {
	var s strings.Builder
	fmt.Fprintf(&s, `{"metadata":{"name":"n%d"},"spec":[`, r.Uint64())
	for range r.IntN(200) {
		fmt.Fprintf(&s, `{"name":"%x"},`, r.Uint32())
	}
	s.WriteString(`{}]}`)
	return s.String()
}

func TestStates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	budget := NewBudget(1<<30, func() { t.Error("the budget is too small") })
	a, b := NewStates[int](budget), NewStates[int](budget)
	want := map[int]string{}
	for range 250 {
		key := r.IntN(60)
		if r.IntN(3) == 0 {
			a.Remove(key)
			delete(want, key)
			continue
		}
		want[key] = state(r)
		assert.True(t, a.Put(key, want[key]))
		assert.True(t, b.Put(key, want[key]))
	}
	assert.Equal(t, len(want), a.Len())
	for key := range 60 {
		assert.Equal(t, want[key], string(a.Get(key)))
	}
	assert.Nil(t, a.Get(1000))
	a.Clear()
	assert.Zero(t, a.Len())
	b.Clear()
	assert.Zero(t, budget.Used())
	assert.True(t, a.Put(1, want[1]), "it is used again")
}

func TestBudget(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	full := 0
	budget := NewBudget(16<<10, func() { full++ })
	s := NewStates[int](budget)
	kept := 0
	for key := range 120 {
		if s.Put(key, state(r)) {
			kept++
		} else {
			assert.Nil(t, s.Get(key))
		}
		assert.LessOrEqual(t, budget.Used(), int64(16<<10))
	}
	assert.Equal(t, kept, s.Len())
	assert.Positive(t, kept)
	assert.Equal(t, 1, full, "it is reported once")

	// A state that no longer fits takes the older one with it: a diff with that would repeat changes.
	for key := range 120 {
		if s.Get(key) != nil {
			assert.False(t, s.Put(key, strings.Repeat(state(r), 100)+state(r)))
			assert.Nil(t, s.Get(key))
			break
		}
	}
	s.Clear()
	for key := range 120 {
		s.Put(key, state(r))
	}
	assert.Equal(t, 2, full, "it is reported again after there was space")
}
