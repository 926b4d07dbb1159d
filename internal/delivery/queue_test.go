package delivery

import (
	"math/rand/v2"
	"testing"
)

// The fifo behaves like a slice for any order of pushes and pops.
func TestFIFOAgainstSlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var f fifo[int]
	var model []int
	next := 0
	pop := func() {
		if got := f.front().item; got != model[0] {
			t.Fatalf("front is %d, want %d", got, model[0])
		}
		if got := f.pop(); got.item != model[0] || got.size != model[0] {
			t.Fatalf("popped %+v, want %d", got, model[0])
		}
		model = model[1:]
	}
	for range 2000 {
		for range rng.IntN(200) {
			f.push(entry[int]{item: next, size: next})
			model = append(model, next)
			next++
		}
		for range min(rng.IntN(210), len(model)) {
			pop()
		}
		if f.len() != len(model) {
			t.Fatalf("length is %d, want %d", f.len(), len(model))
		}
	}
	for len(model) > 0 {
		pop()
	}
	if f.len() != 0 || f.head != nil || f.tail != nil {
		t.Errorf("an empty fifo has length %d", f.len())
	}
}

func TestFIFOReleasesPoppedItems(t *testing.T) {
	var f fifo[*int]
	for range 10_000 {
		f.push(entry[*int]{item: new(int), size: 1})
	}
	for range 9_970 {
		f.pop()
	}
	held, blocks := 0, 0
	for _, list := range []*block[*int]{f.head, f.spare} {
		for b := list; b != nil; b = b.next {
			blocks++
			for _, e := range b.entries {
				if e.item != nil {
					held++
				}
			}
		}
	}
	if held != 30 {
		t.Errorf("%d items are held, want the 30 that are queued", held)
	}
	if blocks > maxSpares+2 {
		t.Errorf("%d blocks are held after a burst", blocks)
	}
}

func TestFIFODoesNotAllocateInASteadyState(t *testing.T) {
	var f fifo[int]
	batch := func() {
		for range 1000 {
			f.push(entry[int]{})
		}
		for range 1000 {
			f.pop()
		}
	}
	if allocs := testing.AllocsPerRun(100, batch); allocs != 0 {
		t.Errorf("a batch allocates %v times", allocs)
	}
}
