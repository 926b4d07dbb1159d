package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// Writer makes random changes to all resources, several at a time, for as long as it runs. The API server may be down
// in between.
type Writer struct {
	client dynamic.Interface
	seed   uint64
	rate   int                        // operations per second, if the machine is fast enough
	exists map[*objects][]atomic.Bool // believed to exist, by slot

	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	counts map[string]int // operations that the API server has acknowledged
	failed int            // those that it has not, because it was down or the answer was lost
	fatal  error          // an error that no fault explains
}

const (
	writers          = 6
	quietWriter      = 1 << 20 // the number of the worker that changes quiet resources
	quietPause       = 25 * time.Second
	operationTimeout = 15 * time.Second
	retryPause       = 200 * time.Millisecond // after the API server did not answer
)

// NewWriter returns a writer that has written nothing yet.
func NewWriter(c *harness.Cluster, seed uint64, perSecond int) *Writer {
	w := &Writer{client: c.Dynamic, seed: seed, rate: perSecond, exists: map[*objects][]atomic.Bool{}, counts: map[string]int{}}
	for _, o := range all {
		w.exists[o] = make([]atomic.Bool, o.slots)
	}
	return w
}

// Start writes until Stop or the end of the test.
func (w *Writer) Start(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	limit := rate.NewLimiter(rate.Limit(w.rate), w.rate/4)
	for worker := range uint64(writers) {
		random := rand.New(rand.NewPCG(w.seed, worker))
		w.running.Go(func() {
			for limit.Wait(ctx) == nil {
				w.operate(ctx, random, limit)
			}
		})
	}
	random := rand.New(rand.NewPCG(w.seed, quietWriter))
	w.running.Go(func() {
		for sleep(ctx, quietPause+time.Duration(random.Int64N(int64(quietPause)))) {
			w.operateQuietly(ctx, random)
		}
	})
	t.Cleanup(w.Stop)
}

// Stop ends the writing. No operation is in progress when it returns.
func (w *Writer) Stop() {
	w.cancel()
	w.running.Wait()
}

// Counts returns the successful operations by kind, and how many have failed.
func (w *Writer) Counts() (counts map[string]int, total, failed int, fatal error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.counts {
		total += n
	}
	return maps.Clone(w.counts), total, w.failed, w.fatal
}

// operate performs one random operation.
func (w *Writer) operate(ctx context.Context, random *rand.Rand, limit *rate.Limiter) {
	o := w.pick(random)
	slot := random.IntN(o.slots)
	exists := w.exists[o][slot].Load()
	switch n := random.IntN(1000); {
	case n < 3:
		w.deleteGroup(ctx, o, random.IntN(groups))
	case n < 10 && exists: // as fast as possible
		for range 5 + random.IntN(25) {
			_ = limit.Wait(ctx)
			w.patch(ctx, o, slot, o.change(random), "")
		}
	case !exists:
		w.create(ctx, o, slot, random)
	case n < 600:
		w.patch(ctx, o, slot, o.change(random), "")
	case n < 800 && o.status != nil:
		w.patch(ctx, o, slot, o.status(random), "status")
	case n < 870:
		w.delete(ctx, o, slot)
		w.create(ctx, o, slot, random)
	case n < 930:
		w.delete(ctx, o, slot)
	case n < 965 && o.heartbeat != nil && random.IntN(3) > 0:
		w.patch(ctx, o, slot, o.heartbeat(random), "status")
	case n < 965:
		w.patch(ctx, o, slot, forgetManagers(), "")
	default:
		w.patch(ctx, o, slot, annotation(random), "")
	}
}

// operateQuietly changes one object of each resource with rare changes.
func (w *Writer) operateQuietly(ctx context.Context, random *rand.Rand) {
	for _, o := range all {
		switch o.quiet {
		case "":
		case everywhere:
			slot := random.IntN(o.slots)
			if w.exists[o][slot].Load() && random.IntN(3) > 0 {
				w.delete(ctx, o, slot)
				continue
			}
			w.create(ctx, o, slot, random)
			w.patch(ctx, o, slot, o.change(random), "")
		default:
			still := o.object(0, random)
			still.SetName(fmt.Sprintf("%s-%x", still.GetName(), random.Uint64()))
			still.SetNamespace(o.quiet)
			if err := unstructured.SetNestedField(still.Object, o.quiet, "involvedObject", "namespace"); err != nil {
				panic(err) // the field exists
			}
			w.do(ctx, "create", func(ctx context.Context) error {
				_, err := o.in(w.client, o.quiet).Create(ctx, still, metav1.CreateOptions{})
				return err
			})
		}
	}
}

func (w *Writer) pick(random *rand.Rand) *objects {
	total := 0
	for _, o := range all {
		total += o.weight
	}
	n := random.IntN(total)
	for _, o := range all {
		if n < o.weight {
			return o
		}
		n -= o.weight
	}
	panic("weights have no end")
}

func (w *Writer) of(o *objects, slot int) dynamic.ResourceInterface {
	return o.in(w.client, o.namespace(slot))
}

func (w *Writer) create(ctx context.Context, o *objects, slot int, random *rand.Rand) {
	w.do(ctx, "create", func(ctx context.Context) error {
		_, err := w.of(o, slot).Create(ctx, o.object(slot, random), metav1.CreateOptions{})
		w.learn(o, slot, err, true)
		return err
	})
}

func (w *Writer) patch(ctx context.Context, o *objects, slot int, patch object, subresource string) {
	what, subresources := "update", []string(nil)
	if subresource != "" {
		what, subresources = subresource, []string{subresource}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		panic(err) // it consists of strings and numbers
	}
	w.do(ctx, what, func(ctx context.Context) error {
		_, err := w.of(o, slot).Patch(ctx, o.name(slot), types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
		w.learn(o, slot, err, true)
		return err
	})
}

func (w *Writer) delete(ctx context.Context, o *objects, slot int) {
	w.do(ctx, "delete", func(ctx context.Context) error {
		err := w.of(o, slot).Delete(ctx, o.name(slot), deleteNow)
		w.learn(o, slot, err, false)
		return err
	})
}

func (w *Writer) deleteGroup(ctx context.Context, o *objects, n int) {
	w.do(ctx, "delete collection", func(ctx context.Context) error {
		err := w.of(o, n).DeleteCollection(ctx, deleteNow, metav1.ListOptions{LabelSelector: "group=" + group(n)})
		if err == nil {
			for slot := range o.slots {
				if group(slot) == group(n) {
					w.exists[o][slot].Store(false)
				}
			}
		}
		return err
	})
}

// learn records whether the object exists according to the answer to a request.
func (w *Writer) learn(o *objects, slot int, err error, after bool) {
	switch {
	case err == nil:
		w.exists[o][slot].Store(after)
	case apierrors.IsAlreadyExists(err):
		w.exists[o][slot].Store(true)
	case apierrors.IsNotFound(err):
		w.exists[o][slot].Store(false)
	}
}

// do performs one request and counts it. It is not a failure if another worker was faster; if the API server is down,
// it waits briefly.
func (w *Writer) do(ctx context.Context, what string, request func(context.Context) error) {
	limited, cancel := context.WithTimeout(ctx, operationTimeout)
	err := request(limited)
	cancel()
	w.mu.Lock()
	switch {
	case err == nil:
		w.counts[what]++
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), ctx.Err() != nil:
	default:
		w.failed++
		if (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)) && w.fatal == nil {
			w.fatal = fmt.Errorf("cannot %s: %w", what, err)
		}
	}
	w.mu.Unlock()
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		sleep(ctx, retryPause)
	}
}

// sleep reports whether the time has passed before the context was done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Fill creates about half of all objects.
func (w *Writer) Fill(t testing.TB) {
	t.Helper()
	random := rand.New(rand.NewPCG(w.seed, writers))
	for _, o := range all {
		for slot := range min(o.slots, 500) {
			if random.IntN(2) == 0 {
				w.create(t.Context(), o, slot, random)
			}
		}
	}
	w.operateQuietly(t.Context(), random)
	if _, _, failed, fatal := w.Counts(); failed > 0 {
		t.Fatalf("%d objects could not be created: %v", failed, fatal)
	}
}

// Touch changes a few objects of every resource, and creates missing ones. One of them also has a version that changes nothing.
func (w *Writer) Touch(ctx context.Context, round int) {
	random := rand.New(rand.NewPCG(w.seed, uint64(writers+1+round)))
	w.operateQuietly(ctx, random)
	for _, o := range all {
		for slot := range 5 {
			w.create(ctx, o, slot, random)
			w.patch(ctx, o, slot, o.change(random), "")
		}
		w.patch(ctx, o, 0, forgetManagers(), "")
	}
}

func summarize(counts map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[what], what))
	}
	return strings.Join(parts, ", ")
}
