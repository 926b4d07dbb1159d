package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// createNamespace creates a namespace with n ConfigMaps.
func createNamespace(t *testing.T, c *harness.Cluster, name string, labels map[string]string, n int) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	createConfigMaps(t, c, name, "first", n)
}

func createConfigMaps(t *testing.T, c *harness.Cluster, namespace, prefix string, n int) {
	t.Helper()
	harness.EachOf(t, prefix, n, func(ctx context.Context, name string) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"in": namespace}}
		_, err := c.Client.CoreV1().ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}

// changeConfigMaps changes the first half of the ConfigMaps of a namespace, and deletes the second.
func changeConfigMaps(t *testing.T, c *harness.Cluster, namespace, prefix string, n int) {
	t.Helper()
	client := c.Client.CoreV1().ConfigMaps(namespace)
	harness.EachOf(t, prefix, n, func(ctx context.Context, name string) error {
		if name >= fmt.Sprintf("%s-%05d", prefix, n/2) {
			return client.Delete(ctx, name, metav1.DeleteOptions{})
		}
		object, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.Data["changed"] = "yes"
		_, err = client.Update(ctx, object, metav1.UpdateOptions{})
		return err
	})
}

// requireOnlyIn requires that all objects of records are in selected namespaces.
func requireOnlyIn(t *testing.T, records []harness.Record, resource string, selects func(string) bool) {
	t.Helper()
	for _, record := range records {
		if object := record.Object; object != nil && record.Resource == resource && !selects(object.Namespace) {
			t.Errorf("an object outside of the selected namespaces was emitted: %s", object)
		}
	}
}

// Patterns select namespaces of one stream: what is in others is not emitted, live, in relists, and if the history is gone.
func TestNamespacesByPattern(t *testing.T) {
	t.Parallel()
	const each = 20
	s := modern.start(t)
	selects := scope.ParseNamespaces("shop,team-*,!team-x").Match
	all := []string{"shop", "team-a", "team-x", "other"}
	for _, namespace := range all {
		createNamespace(t, s.Cluster, namespace, nil, each)
	}
	r := harness.StartReceiver(t, s.access+`
resources:
  - {name: configmaps, namespaces: [shop, "team-*"], exclude_namespaces: [team-x]}
  - {name: "*", exclude: [endpoints], exclude_namespaces: ["kube-*", other]}
relist: {interval: 1s}
`, nil)
	r.Records.AwaitSnapshot(t, "configmaps", catchUp)
	r.Records.AwaitFold(t, "configmaps", s.ListIn(t, configMaps, selects).State, 0)
	// What is in no namespace is not affected.
	r.Records.AwaitSnapshot(t, "namespaces", catchUp)
	r.Records.AwaitFold(t, "namespaces", s.List(t, namespaces).State, catchUp)
	r.Records.AwaitSnapshot(t, "serviceaccounts", catchUp)

	for _, namespace := range all {
		changeConfigMaps(t, s.Cluster, namespace, "first", each)
	}
	createNamespace(t, s.Cluster, "team-new", nil, each) // needs no notice
	r.Records.AwaitFold(t, "configmaps", s.ListIn(t, configMaps, selects).State, catchUp)
	seen := r.CompleteRelists(t)
	harness.Poll(t, 2*catchUp, "relists", func() string {
		for _, namespace := range all {
			s.touch(t, namespace)
		}
		if n := r.CompleteRelists(t); n < seen+3 {
			return fmt.Sprintf("%d are complete", n-seen)
		}
		return ""
	})
	requireNothingRecovered(t, r.Records.All())

	s.proxy.Cut()
	for _, namespace := range all {
		createConfigMaps(t, s.Cluster, namespace, "unseen", each)
	}
	s.RestartAPIServer(t)
	listed := s.ListIn(t, configMaps, selects).State
	s.proxy.Restore(t)
	r.Records.AwaitFold(t, "configmaps", listed, 2*catchUp)

	requireOnlyIn(t, r.Records.All(), "configmaps", selects)
	requireOnlyIn(t, r.Records.All(), "serviceaccounts", scope.ParseNamespaces("!kube-*,!other").Match)
	requireOnceAndInOrder(t, harness.Objects(r.Records.All(), "configmaps"))
	for _, record := range r.Records.All() {
		if record.Resource == "configmaps" && record.Event == "k8s.snapshot.begin" && record.Stream["k8s.resource.namespaces"] != "shop,team-*,!team-x" {
			t.Errorf("the begin of the set does not name the namespaces: %v", record.Stream)
		}
	}
	if n := r.Count(t, "otelcol_k8s_watchlist_streams_opened", attribute.String("resource", "configmaps"), attribute.String("kind", "snapshot")); n < 1 {
		t.Errorf("configmaps were read over %d snapshots", n)
	}
	if warnings := r.Log.Lines(zapcore.WarnLevel, "pattern"); len(warnings) > 0 {
		t.Errorf("a warning was logged: %s", warnings[0])
	}
}

// touch creates and deletes a ConfigMap, so that streams soon pass the version of a snapshot.
func (s *site) touch(t *testing.T, namespace string) {
	t.Helper()
	client := s.Client.CoreV1().ConfigMaps(namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "touched-"}}
	created, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(t.Context(), created.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The selected namespaces change between two processes: reading goes on where the checkpoint has the objects, what is no
// longer selected is forgotten without a record, and what is selected now is emitted.
func TestSelectedNamespacesChange(t *testing.T) {
	t.Parallel()
	const each = 10
	c := harness.StartCluster(t, controlplane.Options{})
	all := []string{"shop", "team-a", "team-b", "pay-a"}
	for _, namespace := range all {
		createNamespace(t, c, namespace, nil, each)
	}
	folder := t.TempDir()
	var records []harness.Record
	for round, step := range []struct {
		options, selected string
		gaps              int
	}{
		{"", "", 0},
		{`namespaces: ["team-*", shop]`, "team-*,shop", 0}, // a part of what was read
		{`namespaces: ["team-*"]`, "team-*", 0},
		{`namespaces: ["pay-*", team-b]`, "pay-*,team-b", 1},
		{`exclude_namespaces: [team-a, "kube-*"]`, "!team-a,!kube-*", 1},
		{`namespaces: [pay-a]`, "pay-a", 0}, // a name alone is requested
	} {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			selects := scope.ParseNamespaces(step.selected).Match
			receiver := harness.StartCollector(t, withStorage(kubeconfig(c.Kubeconfig())+"resources: [{name: configmaps, "+step.options+"}]", folder))
			if round == 0 {
				receiver.Records.AwaitSnapshot(t, "configmaps", catchUp)
			}
			for _, namespace := range all {
				createConfigMaps(t, c, namespace, fmt.Sprintf("round%d", round), each)
			}
			state := func() fold.State {
				all := harness.Objects(append(slices.Clone(records), receiver.Records.All()...), "configmaps")
				return fold.Fold(slices.DeleteFunc(all, func(r fold.Record) bool { return !selects(r.Namespace) }))
			}
			listed := c.ListIn(t, configMaps, selects).State
			harness.Poll(t, catchUp, "the fold to equal the LIST", func() string {
				if differences := state().Differences(listed); len(differences) > 0 {
					return fmt.Sprintf("%d differences, such as %s", len(differences), differences[0])
				}
				return ""
			})
			receiver.Interrupt(t)
			if round > 0 {
				requireOnlyIn(t, receiver.Records.All(), "configmaps", selects)
			}
			if gaps := harness.OfStream(receiver.Records.All(), "configmaps", "k8s.watch.gap"); len(gaps) != step.gaps {
				t.Errorf("%d gaps were emitted, want %d", len(gaps), step.gaps)
			}
			records = append(records, receiver.Records.All()...)
		})
	}
}
