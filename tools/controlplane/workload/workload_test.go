package workload_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"go.uber.org/goleak"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every change is made several times. None may fail, and the pods must return to their original state.
func TestRounds(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})

	var mu sync.Mutex
	var lines []string
	rotations := make(chan struct{}, 100)
	load, err := workload.New(plane.RESTConfig(), func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		mu.Lock()
		lines = append(lines, line)
		mu.Unlock()
		if strings.HasPrefix(line, "rotated secret") { // the last of a round
			rotations <- struct{}{}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer load.Close()
	load.Pace = time.Millisecond
	if err := load.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() { load.Run(ctx) })
	for range 3 {
		select {
		case <-rotations:
		case <-time.After(time.Minute):
			t.Error("the workload makes no progress")
		}
	}
	cancel()
	worker.Wait()

	mu.Lock()
	defer mu.Unlock()
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "cannot") }); i >= 0 {
		t.Errorf("a change failed: %s", lines[i])
	}
	httpClient, err := rest.HTTPClientFor(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer httpClient.CloseIdleConnections()
	clients, err := kubernetes.NewForConfigAndClient(plane.RESTConfig(), httpClient)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := clients.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(pods.Items); n < 2 || n > 3 {
		t.Errorf("there are %d pods of the deployment, want 2 or 3", n)
	}
}
