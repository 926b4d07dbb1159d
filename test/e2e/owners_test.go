package e2e

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// TestOwnersAndPlaces: a pod's record names the node, what controls it and the workload behind that, whether or not the
// ReplicaSets and Jobs in between are read.
func TestOwnersAndPlaces(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	c.Sample(t)
	pods, err := c.Client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("the sample workload has %d pods: %v", len(pods.Items), err)
	}
	web := pods.Items[0]
	set, err := c.Client.AppsV1().ReplicaSets(web.Namespace).Get(t.Context(), web.OwnerReferences[0].Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	minutes := time.Now().Unix() / 60
	cronJob := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "CronJob", Name: "report", UID: "cron-uid", Controller: new(true)}
	for _, name := range []string{fmt.Sprintf("report-%d", minutes), "by-hand"} {
		template := harness.SmallPod("").Spec
		template.RestartPolicy = "Never"
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{cronJob}}}
		job.Spec.Template.Spec = template
		if job, err = c.Client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pod := harness.SmallPod("of-" + name)
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
		if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	where := func(c content) map[string]any {
		found := map[string]any{}
		for _, key := range []string{"k8s.node.name", "k8s.pod.status.phase", "k8s.pod.start_time", "k8s.pod.ip", "k8s.owner.kind", "k8s.owner.name",
			"k8s.owner.uid", "k8s.owner.api_version", "k8s.replicaset.name", "k8s.replicaset.uid", "k8s.deployment.name", "k8s.deployment.uid",
			"k8s.job.name", "k8s.cronjob.name", "k8s.cronjob.uid"} {
			if value, ok := c.Attributes[key]; ok {
				found[key] = value
			}
		}
		delete(found, "k8s.owner.uid")
		return found
	}
	placed := map[string]any{
		"k8s.node.name": web.Spec.NodeName, "k8s.pod.status.phase": "Running", "k8s.pod.start_time": web.Status.StartTime.UTC().Format(time.RFC3339),
		"k8s.owner.kind": "ReplicaSet", "k8s.owner.name": set.Name, "k8s.owner.api_version": "apps/v1",
		"k8s.replicaset.name": set.Name, "k8s.replicaset.uid": string(set.UID), "k8s.deployment.name": "web",
	}
	job := func(name, cronJob string) map[string]any {
		m := map[string]any{"k8s.owner.kind": "Job", "k8s.owner.name": name, "k8s.owner.api_version": "batch/v1", "k8s.job.name": name, "k8s.pod.status.phase": "Pending"}
		if cronJob != "" {
			m["k8s.cronjob.name"] = cronJob
		}
		return m
	}
	check := func(records *contents, name string, want map[string]any) {
		t.Helper()
		if got := where(records.last(harness.Pods, name)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%v, want\n%v", name, got, want)
		}
	}
	scheduled := fmt.Sprintf("report-%d", minutes)

	var alone contents
	r := harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+"resources: [pods]", alone.consumer())
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	r.Shutdown(t)
	check(&alone, web.Name, placed)
	check(&alone, "of-"+scheduled, job(scheduled, "report"))
	check(&alone, "of-by-hand", job("by-hand", ""))

	var together contents
	r = harness.StartReceiver(t, kubeconfig(c.Kubeconfig())+"resources: [pods, replicasets.apps, jobs.batch]", together.consumer())
	for _, resource := range []string{"pods", "replicasets.apps", "jobs.batch"} {
		r.Records.AwaitSnapshot(t, resource, catchUp)
	}
	for _, name := range []string{web.Name, "of-by-hand", "of-" + scheduled} { // a change after all ReplicaSets and Jobs have come
		namespace := "default"
		if name == web.Name {
			namespace = web.Namespace
		}
		if _, err := c.Client.CoreV1().Pods(namespace).Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		r.Records.AwaitObject(t, "pods", name, "MODIFIED", catchUp)
	}
	r.Shutdown(t)
	placed["k8s.deployment.uid"] = string(set.OwnerReferences[0].UID)
	check(&together, web.Name, placed)
	for _, name := range []string{scheduled, "by-hand"} {
		want := job(name, "report")
		want["k8s.cronjob.uid"] = "cron-uid"
		check(&together, "of-"+name, want)
	}
}
