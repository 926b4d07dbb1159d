// Package reflection reads with client-go's reflector, like an informer, through the dynamic client and into a store
// that keeps nothing.
package reflection

import (
	"context"
	"errors"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/k8swatchlist/k8swatchlistreceiver/bench/internal/contender"
)

// Run reads the resources until ctx ends.
func Run(ctx context.Context, o contender.Options) ([]contender.Stamp, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.DisableCompression = !o.Gzip
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	s := &store{o.Progress}
	var running sync.WaitGroup
	for _, path := range o.Paths() {
		resource, err := parse(path)
		if err != nil {
			return nil, err
		}
		source := client.Resource(resource)
		// The reflector needs the client to know whether it can stream the initial state.
		lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return source.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return source.Watch(ctx, options)
			},
		}, client)
		reflector := cache.NewReflectorWithOptions(lw, &unstructured.Unstructured{}, s, cache.ReflectorOptions{})
		running.Go(func() { reflector.RunWithContext(ctx) })
	}
	running.Wait()
	return nil, nil
}

func parse(path string) (schema.GroupVersionResource, error) {
	parts := strings.Split(path, "/")
	switch {
	case len(parts) == 3 && parts[0] == "api":
		return schema.GroupVersionResource{Version: parts[1], Resource: parts[2]}, nil
	case len(parts) == 4 && parts[0] == "apis":
		return schema.GroupVersionResource{Group: parts[1], Version: parts[2], Resource: parts[3]}, nil
	}
	return schema.GroupVersionResource{}, errors.New("cannot read the path " + path)
}

// store counts what it receives. While the reflector streams an initial state, it keeps the objects in client-go's own
// temporary store, and passes them on at the end.
type store struct{ *contender.Progress }

func (s *store) Add(any) error    { s.Changes.Add(1); return nil }
func (s *store) Update(any) error { s.Changes.Add(1); return nil }
func (s *store) Delete(any) error { s.Changes.Add(1); return nil }
func (s *store) Resync() error    { return nil }

func (s *store) Replace(all []any, _ string) error {
	s.Objects.Add(int64(len(all)))
	s.CompleteOne()
	return nil
}
