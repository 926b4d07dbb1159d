package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap/zapcore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/fold"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// label sets the label env of a namespace.
func label(ctx context.Context, c *harness.Cluster, namespace, env string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"env":%q}}}`, env)
	_, err := c.Client.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// listLabelled lists the ConfigMaps in the namespaces that are labelled prod, except for those that begin with not-.
func listLabelled(t *testing.T, c *harness.Cluster) fold.State {
	t.Helper()
	list, err := c.Client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: "env=prod"})
	if err != nil {
		t.Fatal(err)
	}
	var matching []string
	for _, namespace := range list.Items {
		if !strings.HasPrefix(namespace.Name, "not-") {
			matching = append(matching, namespace.Name)
		}
	}
	return c.ListIn(t, configMaps, func(namespace string) bool { return slices.Contains(matching, namespace) }).State
}

const labelled = `{name: configmaps, exclude_namespaces: ["not-*"], namespace_label_selector: env=prod}`

// Labels of namespaces and the objects in them change at the same time. Then the fold of the records is the LIST of the
// namespaces whose labels match: with the history available, and after it was lost.
func TestNamespacesByLabels(t *testing.T) {
	t.Parallel()
	const each, spaces = 20, 12
	s := modern.start(t)
	env := func(i int) string { return []string{"prod", "test"}[i%2] }
	var names []string
	for i := range spaces {
		name := fmt.Sprintf("space-%d", i)
		if i == 0 {
			name = "not-selected"
		}
		createNamespace(t, s.Cluster, name, map[string]string{"env": env(i)}, each)
		names = append(names, name)
	}
	r := harness.StartReceiver(t, s.access+"resources: ["+labelled+"]\nrelist: {interval: 1s}", nil)
	r.Records.AwaitSnapshot(t, "configmaps", catchUp)
	r.Records.AwaitFold(t, "configmaps", listLabelled(t, s.Cluster), catchUp)

	churn := func(prefix string) {
		var group sync.WaitGroup
		for _, name := range names {
			group.Go(func() { createConfigMaps(t, s.Cluster, name, prefix, each) })
		}
		group.Go(func() {
			for i := range 5 * spaces {
				if err := label(t.Context(), s.Cluster, names[rand.N(spaces)], env(i)); err != nil {
					t.Error(err)
				}
			}
		})
		group.Wait()
		for _, name := range names {
			group.Go(func() { changeConfigMaps(t, s.Cluster, name, prefix, each) })
		}
		group.Go(func() {
			for i, name := range names {
				if err := label(t.Context(), s.Cluster, name, env(i/2)); err != nil {
					t.Error(err)
				}
			}
		})
		group.Wait()
	}
	for round := range 3 {
		churn(fmt.Sprintf("round%d", round))
		r.Records.AwaitFold(t, "configmaps", listLabelled(t, s.Cluster), catchUp)
	}
	requireNothingRecovered(t, r.Records.All())

	// A namespace that is deleted takes its objects with it, and they are seen to go.
	createNamespace(t, s.Cluster, "doomed", map[string]string{"env": "prod"}, each)
	r.Records.AwaitFold(t, "configmaps", listLabelled(t, s.Cluster), catchUp)
	mark := r.Records.Len()
	deleteNamespace(t, s.Cluster, "doomed")
	r.Records.AwaitFold(t, "configmaps", listLabelled(t, s.Cluster), catchUp)
	if n := liveDeletions(harness.Objects(r.Records.After(mark), "configmaps")); n != each {
		t.Errorf("%d deletions were live, want %d", n, each)
	}

	s.proxy.Cut()
	churn("unseen")
	s.RestartAPIServer(t)
	listed := listLabelled(t, s.Cluster)
	s.proxy.Restore(t)
	r.Records.AwaitFold(t, "configmaps", listed, 2*catchUp)

	objects := harness.Objects(r.Records.All(), "configmaps")
	requireOnceAndInOrder(t, objects)
	requireOnlyIn(t, r.Records.All(), "configmaps", func(namespace string) bool { return namespace != "not-selected" })
	entered, left := 0, 0
	for _, object := range objects {
		switch {
		case object.Origin != "selected":
		case object.Type == "ADDED":
			entered++
		case object.Type == "DELETED" && object.Inferred:
			left++
		default:
			t.Errorf("a record of an object that entered or left the selection: %s", object)
		}
	}
	if entered == 0 || left == 0 {
		t.Errorf("%d objects entered the selection and %d left it", entered, left)
	}
}

// Labels change while the Collector is down, in an orderly way or after it was killed.
func TestNamespacesByLabelsAndARestart(t *testing.T) {
	t.Parallel()
	const each = 10
	c := harness.StartCluster(t, controlplane.Options{})
	names := []string{"stays", "leaves", "enters", "not-prod"}
	for i, env := range []string{"prod", "prod", "test", "prod"} {
		createNamespace(t, c, names[i], map[string]string{"env": env}, each)
	}
	config := withStorage(kubeconfig(c.Kubeconfig())+"resources: ["+labelled+"]", t.TempDir())
	var records []harness.Record
	for round := range 4 {
		collector := harness.StartCollector(t, config)
		for _, name := range names {
			createConfigMaps(t, c, name, fmt.Sprintf("round%d", round), each)
		}
		listed := listLabelled(t, c)
		harness.Poll(t, 3*catchUp, "the fold to equal the LIST", func() string {
			all := append(slices.Clone(records), collector.Records.All()...)
			if differences := fold.Fold(harness.Objects(all, "configmaps")).Differences(listed); len(differences) > 0 {
				return fmt.Sprintf("%d differences, such as %s", len(differences), differences[0])
			}
			return ""
		})
		if round == 1 {
			collector.Kill(t)
		} else {
			collector.Interrupt(t)
		}
		records = append(records, collector.Records.All()...)
		// After a crash it is not known what of a namespace that entered or left was accepted.
		if gaps := harness.OfStream(records, "configmaps", "k8s.watch.gap"); len(gaps) > 0 && round < 2 {
			t.Errorf("a gap was emitted: %v", gaps[0])
		}
		for i, name := range names[1:3] {
			if err := label(t.Context(), c, name, []string{"test", "prod"}[(round+i)%2]); err != nil {
				t.Fatal(err)
			}
			changeConfigMaps(t, c, name, fmt.Sprintf("round%d", round), each)
		}
	}
}

// Without the right to watch namespaces, the right that is missing is reported, other resources are read, and it is asked
// again.
func TestNamespacesByLabelsWithoutTheRight(t *testing.T) {
	t.Parallel()
	const user = "system:serviceaccount:default:narrow"
	c := harness.StartCluster(t, modern.options)
	createNamespace(t, c, "shop", map[string]string{"env": "prod"}, 3)
	account, err := c.ServiceAccountCredentials(t.Context(), "default", "narrow")
	if err != nil {
		t.Fatal(err)
	}
	grantOne(t, c, user, "", "configmaps")
	grantOne(t, c, user, "", "serviceaccounts")
	r := harness.StartReceiver(t, kubeconfig(c.KubeconfigVia(t, account.Config, c.Address()))+"resources: ["+labelled+", serviceaccounts]", nil)
	line := r.Log.Await(t, zapcore.WarnLevel, "cannot watch which namespaces are selected", catchUp)
	for _, part := range []string{"resources[0].namespace_label_selector", "grant list and watch on namespaces"} {
		if !strings.Contains(line, part) {
			t.Errorf("the message lacks %q: %s", part, line)
		}
	}
	r.Records.AwaitSnapshot(t, "serviceaccounts", catchUp)
	if found := harness.OfStream(r.Records.All(), "configmaps", "k8s.snapshot.begin"); len(found) > 0 {
		t.Errorf("configmaps were read without knowing which: %v", found[0])
	}
}
