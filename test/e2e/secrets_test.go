package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// No secret value of any object is in the output of the real Collector, neither in its file nor in its log at debug
// level, whether the object exists at the start, is created, changed or deleted.
func TestSecretsNeverLeave(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, controlplane.Options{})
	planted := &sentinels{}
	before := planted.plant(t, c, "before")

	collectors := map[string]*harness.Collector{}
	for _, body := range []string{"map", "json"} {
		collectors[body] = harness.StartCollector(t, toFile(kubeconfig(c.Kubeconfig())+`
kube_api_burst: 50
resources: [{name: secrets}, {name: configmaps}, {name: pods}, {name: deployments}, {name: cronjobs.batch}]
relist: {interval: 2s, emit: snapshot}
body: `+body), "--feature-gates="+harness.ShortRelistGate)
		for _, resource := range sentinelResources {
			collectors[body].Records.AwaitSnapshot(t, harness.Name(resource), catchUp)
		}
	}
	after := planted.plant(t, c, "after")
	planted.requireFindable(t, c)
	for _, objects := range [][]object{before, after} {
		for _, o := range objects {
			o.change(t, c)
			o.remove(t, c)
		}
	}

	for body, collector := range collectors {
		for _, o := range append(before, after...) {
			for _, change := range []string{"MODIFIED", "DELETED"} {
				collector.Records.AwaitObject(t, harness.Name(o.resource), o.name, change, catchUp)
			}
		}
		collector.Interrupt(t)
		output, log := collector.Output(t), collector.Log()
		for _, sentinel := range planted.all {
			for where, text := range map[string]string{"file": output, "log": log} {
				report(t, fmt.Sprintf("traces of a secret value are in the collector's %s with body %s", where, body), sentinel.Traces(text))
			}
		}
		// It was redacted, not merely left out with everything else.
		for _, want := range []string{"[REDACTED]", "password", "TOKEN", "plain-value"} {
			if !strings.Contains(output, want) {
				t.Errorf("%s is nowhere in the collector's file with body %s", want, body)
			}
		}
	}
}

// sentinels are the planted secret values.
type sentinels struct {
	all []harness.Sentinel
}

// next returns a value that was never used before. Its quoting differs from form to form, except for its core.
func (s *sentinels) next(where string) string {
	value := harness.Sentinel(fmt.Sprintf(`<"%s%02dNeverToBeSeen4711'\é&>`, where, len(s.all)))
	s.all = append(s.all, value)
	return string(value)
}

// The resources in whose objects secret values are planted.
var (
	secrets           = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	deployments       = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	cronJobs          = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}
	sentinelResources = []schema.GroupVersionResource{secrets, configMaps, harness.Pods, deployments, cronJobs}
)

// object is an object with secret values.
type object struct {
	resource schema.GroupVersionResource
	name     string
}

// plant creates objects of all kinds with secret values, both directly and in the manner of `kubectl apply`.
func (s *sentinels) plant(t *testing.T, c *harness.Cluster, name string) []object {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"note": "plain-value"}},
		Data:       map[string][]byte{"password": []byte(s.next("data"))},
		StringData: map[string]string{"dsn": s.next("stringData")},
	}
	if _, err := c.Client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{harness.LastApplied: `{"data":` + yamlString(s.next("configmap")) + `}`}},
		Data:       map[string]string{"mode": "plain-value"},
	}
	if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := harness.SmallPod(name)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TOKEN", Value: s.next("env")}}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "init", Image: "registry.example.com/init:1", Env: []corev1.EnvVar{{Name: "TOKEN", Value: s.next("initEnv")}},
	}}
	if _, err := c.Client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	template := fmt.Sprintf(`{"metadata":{"labels":{"app":%[1]q}},"spec":{"restartPolicy":%%q,`+
		`"initContainers":[{"name":"i","image":"registry.example.com/i:1","env":[{"name":"TOKEN","value":%%s}]}],`+
		`"containers":[{"name":"c","image":"registry.example.com/c:1","env":[{"name":"TOKEN","value":%%s}]}]}}`, name)
	for _, manifest := range []string{
		fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q},"spec":{"selector":{"matchLabels":{"app":%[1]q}},"template":%[2]s}}`,
			name, fmt.Sprintf(template, "Always", yamlString(s.next("deploymentInit")), yamlString(s.next("deployment")))),
		fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":%q},"spec":{"schedule":"0 0 1 1 *","jobTemplate":{"spec":{"template":%s}}}}`,
			name, fmt.Sprintf(template, "Never", yamlString(s.next("cronjobInit")), yamlString(s.next("cronjob")))),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"applied-%s"},"data":{"password":%q},"stringData":{"dsn":%s}}`,
			name, base64.StdEncoding.EncodeToString([]byte(s.next("appliedData"))), yamlString(s.next("appliedStringData"))),
	} {
		c.Apply(t, manifest)
	}
	return []object{
		{secrets, name},
		{configMaps, name},
		{harness.Pods, name},
		{deployments, name},
		{cronJobs, name},
		{secrets, "applied-" + name},
	}
}

// requireFindable requires that the search for traces finds every value in the API server's answers.
func (s *sentinels) requireFindable(t *testing.T, c *harness.Cluster) {
	t.Helper()
	served := ""
	for _, path := range []string{
		"/api/v1/secrets", "/api/v1/configmaps", "/api/v1/pods", "/apis/apps/v1/deployments", "/apis/batch/v1/cronjobs",
	} {
		list, err := c.Client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		served += string(list)
	}
	for _, sentinel := range s.all {
		if len(sentinel.Traces(served)) == 0 {
			t.Errorf("%s was not planted, or is not found", sentinel)
		}
	}
}

func (o object) change(t *testing.T, c *harness.Cluster) {
	t.Helper()
	c.Annotate(t, o.resource, o.name, "changed", "yes")
}

func (o object) remove(t *testing.T, c *harness.Cluster) {
	t.Helper()
	c.Delete(t, o.resource, o.name)
}

// yamlString quotes a string for a manifest.
func yamlString(s string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
	return `"` + quoted + `"`
}
