package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Writer makes random changes to the pods of the namespace default, several at a time: creates, updates and deletes,
// even of pods that another of its workers is changing.
type Writer struct {
	cluster *Cluster
	seed    uint64
	runs    uint64
	created atomic.Int64

	mu    sync.Mutex
	names []string // of the pods believed to exist
}

// Operations counts a Writer's successful operations.
type Operations struct {
	Created, Updated, Deleted int
}

// Total returns the sum.
func (o Operations) Total() int { return o.Created + o.Updated + o.Deleted }

// NewWriter returns a writer that knows the existing pods. It logs its seed.
func NewWriter(t testing.TB, c *Cluster) *Writer {
	t.Helper()
	w := &Writer{cluster: c, seed: rand.Uint64()}
	t.Logf("seed of the random writer: %d", w.seed)
	pods, err := c.metadata.Resource(Pods).Namespace("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		w.names = append(w.names, pod.Name)
	}
	return w
}

const workers = 4

// Write makes changes until enough returns true, which is called after each of them. No change is in progress when it
// returns.
func (w *Writer) Write(t testing.TB, enough func(Operations) bool) Operations {
	t.Helper()
	var (
		mu      sync.Mutex
		done    Operations
		failure error
		running sync.WaitGroup
	)
	over := func() bool { return failure != nil || enough(done) }
	for worker := range uint64(workers) {
		random := rand.New(rand.NewPCG(w.seed, w.runs*workers+worker))
		running.Go(func() {
			for {
				count, err := w.change(t.Context(), random)
				mu.Lock()
				if err != nil {
					failure = err
				} else {
					count(&done)
				}
				stop := over()
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	w.runs++
	running.Wait()
	if failure != nil {
		t.Fatal(failure)
	}
	return done
}

// change makes one change and returns how it counts.
func (w *Writer) change(ctx context.Context, random *rand.Rand) (func(*Operations), error) {
	pods := w.cluster.Client.CoreV1().Pods("default")
	nothing := func(*Operations) {}
	var err error
	switch n := random.IntN(10); {
	case n < 3:
		name := fmt.Sprintf("random-%06d", w.created.Add(1))
		if _, err = pods.Create(ctx, SmallPod(name), metav1.CreateOptions{}); err == nil {
			w.add(name)
			return func(o *Operations) { o.Created++ }, nil
		}
	case n < 8:
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"round":"%d"},"annotations":{"example.com/note":"%x"}}}`, random.IntN(1000), random.Uint64())
		if _, err = pods.Patch(ctx, w.pick(random, false), types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
			return func(o *Operations) { o.Updated++ }, nil
		}
	default:
		if err = pods.Delete(ctx, w.pick(random, true), metav1.DeleteOptions{}); err == nil {
			return func(o *Operations) { o.Deleted++ }, nil
		}
	}
	// Another worker was faster.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nothing, nil
	}
	return nothing, err
}

func (w *Writer) add(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = append(w.names, name)
}

// pick returns the name of a pod, and forgets it if it will be deleted.
func (w *Writer) pick(random *rand.Rand, forget bool) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.names) == 0 {
		return "none"
	}
	i := random.IntN(len(w.names))
	name := w.names[i]
	if forget {
		last := len(w.names) - 1
		w.names[i] = w.names[last]
		w.names = w.names[:last]
	}
	return name
}

// Times returns an enough function for that many changes.
func Times(n int) func(Operations) bool {
	return func(o Operations) bool { return o.Total() >= n }
}
