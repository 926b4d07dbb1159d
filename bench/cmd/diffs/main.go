// Command diffs measures what the option diff costs: the memory of the last state of an object, and the time to keep it and
// to compare it with the next one. It prints a table in Markdown.
//
// The objects are different in their content, unlike those of the other benchmarks, whose templates would all be like the
// first state, with which the others are compressed.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/corpus"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/diff"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

const (
	objects   = 3200
	templates = 64 // of one seed
)

func main() {
	fmt.Printf("%d objects of each kind, %s, %s/%s\n\n", objects, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Println("| Objects | Wire bytes | Redacted bytes | Kept bytes | Time to keep | Time to compare |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, kind := range []*corpus.Kind{corpus.Pods2K, corpus.Pods8K, corpus.Pods20K, corpus.Deployments, corpus.Nodes} {
		if err := measure(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func measure(kind *corpus.Kind) error {
	plan := redact.NewPlan(kind.Group, kind.Plural)
	states := make([]string, objects)
	wire, redacted := 0, 0
	var of *corpus.Objects
	for i := range states {
		if i%templates == 0 {
			of = corpus.New(kind, uint64(i))
		}
		data := of.Append(nil, i, 5, corpus.Full)
		object, _, err := plan.Decode(data)
		if err != nil {
			return fmt.Errorf("cannot decode object %d of %s: %w", i, kind.Resource(), err)
		}
		states[i] = object.JSON
		wire += len(data)
		redacted += len(object.JSON)
	}

	kept := diff.NewStates[[16]byte](diff.NewBudget(1<<40, func() {}))
	before := heap()
	began := time.Now()
	for i, state := range states {
		kept.Put(key(i), state)
	}
	keep := time.Since(began) / objects
	bytes := (heap() - before) / objects

	compared := time.Duration(0)
	for i := range states {
		data := []byte(states[(i+templates)%objects]) // differs everywhere, which takes longest
		from := time.Now()
		diff.Compare(kept.Get(key(i)), data, plan.Ignores)
		compared += time.Since(from)
	}
	fmt.Printf("| %s | %d | %d | %d | %d µs | %d µs |\n", kind.Resource(), wire/objects, redacted/objects, bytes,
		keep.Microseconds(), (compared / objects).Microseconds())
	runtime.KeepAlive(kept)
	return nil
}

func key(i int) (k [16]byte) {
	binary.BigEndian.PutUint64(k[:], uint64(i)*0x9e3779b97f4a7c15)
	return k
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
