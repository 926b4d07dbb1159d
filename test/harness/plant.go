package harness

import (
	"bytes"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// plantedAtOnce is etcd's maximum number of operations in a transaction.
const plantedAtOnce = 128

// PlantPods writes pods named prefix-00000 and so on to etcd like the API server: copies of one that it has created
// itself, as prefix-template, each with its own UID. That is many times faster than creating each.
func (e *Etcd) PlantPods(t testing.TB, c *Cluster, prefix string, n int, pod func(name string) *corev1.Pod) {
	t.Helper()
	template, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod(prefix+"-template"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template.ResourceVersion = "" // etcd's own
	template.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	var puts []clientv3.Op
	flush := func() {
		if _, err := e.client.Txn(t.Context()).Then(puts...).Commit(); err != nil {
			t.Fatalf("cannot put pods into etcd: %v", err)
		}
		puts = puts[:0]
	}
	for i := range n {
		template.Name = fmt.Sprintf("%s-%05d", prefix, i)
		template.UID = types.UID(fmt.Sprintf("%08x-%04x-4000-8000-%012x", i, len(prefix), i))
		var stored bytes.Buffer
		if err := encoder.Encode(template, &stored); err != nil {
			t.Fatalf("cannot encode a pod: %v", err)
		}
		puts = append(puts, clientv3.OpPut("/registry/pods/default/"+template.Name, stored.String()))
		// The last one is written alone. The API server's watch cache applies the operations of a transaction one by
		// one, and reaches their revision with the first: a snapshot at that moment would lack the others, and a watch
		// from it would never deliver them. No API server writes two objects in a transaction.
		if len(puts) == plantedAtOnce || i >= n-2 {
			flush()
		}
	}
}

// DeleteTogether deletes keys at one revision, as the end of a lease deletes all of its Events.
func (e *Etcd) DeleteTogether(t testing.TB, keys ...string) {
	t.Helper()
	var deletions []clientv3.Op
	for _, key := range keys {
		deletions = append(deletions, clientv3.OpDelete(key))
	}
	if _, err := e.client.Txn(t.Context()).Then(deletions...).Commit(); err != nil {
		t.Fatalf("cannot delete from etcd: %v", err)
	}
}
