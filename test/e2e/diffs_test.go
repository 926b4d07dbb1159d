package e2e

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDiffs: what changed comes with the change, of a live one and of one that a comparison has found, without values that
// are masked, and what was deleted unseen comes with its last state.
func TestDiffs(t *testing.T) {
	t.Parallel()
	s := modern.start(t)
	const pods = 3
	s.CreatePods(t, "deleted", pods, harness.SmallPod)
	s.CreatePods(t, "changed", pods, harness.SmallPod)
	etcd := harness.ConnectEtcd(t, s.Cluster)
	var records contents
	r := harness.StartReceiver(t, s.access+`
resources:
  - {name: pods, diff: true}
  - {name: deployments, diff: true}
  - {name: configmaps, diff: true}`, records.consumer())
	for _, resource := range []string{"pods", "deployments.apps", "configmaps"} {
		r.Records.AwaitSnapshot(t, resource, catchUp)
	}

	createDeployment(t, s.Cluster, "web", func(*appsv1.Deployment) {})
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"password": "it-was-blue-once", "old": "x"}}
	if _, err := s.Client.CoreV1().ConfigMaps("default").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"tier":"web"}},"spec":{"replicas":5,"template":{"spec":{"containers":[{"name":"c","image":"registry.example.com/web:2"}]}}}}`)
	if _, err := s.Client.AppsV1().Deployments("default").Patch(t.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	settings.Data = map[string]string{"password": "it-is-green-now!"}
	if _, err := s.Client.CoreV1().ConfigMaps("default").Update(t.Context(), settings, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Records.AwaitObject(t, "deployments.apps", "web", "MODIFIED", catchUp)
	r.Records.AwaitObject(t, "configmaps", "settings", "MODIFIED", catchUp)

	web := records.last(deployments, "web")
	want := []any{
		map[string]any{"path": "metadata.labels", "new": `{"tier":"web"}`},
		map[string]any{"path": "spec.replicas", "old": int64(1), "new": int64(5)},
		map[string]any{"path": "spec.template.spec.containers.c.image", "old": "registry.example.com/web:1", "new": "registry.example.com/web:2"},
	}
	if got := web.Attributes["k8s.change.diff"]; !reflect.DeepEqual(got, want) {
		t.Errorf("the diff of the Deployment is %v, want %v", got, want)
	}
	masked, _ := records.last(configMaps, "settings").Attributes["k8s.change.diff"].([]any)
	if len(masked) != 2 {
		t.Fatalf("the diff of the ConfigMap is %v", masked)
	}
	removed, changed := masked[0].(map[string]any), masked[1].(map[string]any)
	if removed["path"] != "data.old" || removed["new"] != nil || changed["path"] != "data.password" || changed["old"] == changed["new"] {
		t.Errorf("the diff of the ConfigMap is %v", masked)
	}
	for _, secret := range []string{"it-was-blue-once", "it-is-green-now!"} {
		if text := fmt.Sprint(masked); strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}

	s.proxy.Cut()
	s.DeletePods(t, "deleted", pods)
	s.ChangePods(t, "changed", pods)
	etcd.Compact(t)
	s.RestartAPIServer(t)
	listed := s.List(t, harness.Pods)
	s.proxy.Restore(t)
	r.Records.AwaitFold(t, "pods", listed.State, catchUp)
	r.Shutdown(t)
	for i := range pods {
		gone := records.last(harness.Pods, fmt.Sprintf("deleted-%05d", i))
		if body, _ := gone.Body.(map[string]any); body["spec"] == nil {
			t.Errorf("the record of a pod that was deleted unseen has the body %v", gone.Body)
		}
		changed := records.last(harness.Pods, fmt.Sprintf("changed-%05d", i))
		found, _ := changed.Attributes["k8s.change.diff"].([]any)
		if len(found) != 1 || found[0].(map[string]any)["new"] == nil {
			t.Errorf("the diff of a pod that was changed unseen is %v", found)
		}
	}
}
