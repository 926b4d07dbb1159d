package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// TestAPIServerThrottlesForAMinute: for a minute the API server answers the collector's requests with 429 and nothing
// else. The collector asks seldom, does not grow, and then goes on where it was.
func TestAPIServerThrottlesForAMinute(t *testing.T) {
	t.Parallel()
	const pods, mostRequests, mostGrowth = 2000, 40, 8 << 20
	c := harness.StartCluster(t, controlplane.Options{AuditLog: true})
	proxy := harness.StartProxy(t, c.Address())
	account, err := c.ServiceAccountCredentials(t.Context(), "default", watcherName)
	if err != nil {
		t.Fatal(err)
	}
	createWatchRole(t, c)
	grantWatch(t, c)
	harness.ConnectEtcd(t, c).PlantPods(t, c, "kept", pods, harness.SmallPod)
	for _, prefix := range []string{"changed", "deleted"} {
		c.CreatePods(t, prefix, 10, harness.SmallPod)
	}
	collector := harness.StartCollector(t, toFile(kubeconfig(c.KubeconfigVia(t, account.Config, proxy.Address()))+"resources: [{name: pods}]"))
	collector.Records.AwaitSnapshot(t, "pods", catchUp)
	c.CreatePods(t, "live", 1, harness.SmallPod)
	collector.Records.AwaitObject(t, "pods", "live-00000", "ADDED", catchUp)

	before := harness.UsageOf(t, collector.PID())
	throttle(t, c, account.Config)
	asked := answers(t, c, watcherUser, http.StatusTooManyRequests)
	proxy.Cut()
	proxy.Restore(t)
	began := time.Now()
	c.DeletePods(t, "deleted", 10)
	c.ChangePods(t, "changed", 10)
	c.CreatePods(t, "added", 10, harness.SmallPod)
	harness.Poll(t, 2*catchUp, "a minute of refusals", func() string {
		n := answers(t, c, watcherUser, http.StatusTooManyRequests) - asked
		if since := time.Since(began); since < time.Minute || n < 3 {
			return fmt.Sprintf("%d in %s", n, since)
		}
		return ""
	})
	asked = answers(t, c, watcherUser, http.StatusTooManyRequests) - asked
	after := harness.UsageOf(t, collector.PID())
	unthrottle(t, c)

	collector.Records.AwaitFold(t, "pods", c.List(t, harness.Pods).State, 2*catchUp)
	records := collector.Records.All()
	requireOnceAndInOrder(t, harness.Objects(records, "pods"))
	requireNothingRecovered(t, records)
	t.Logf("%d requests in a minute of 429, peak RSS %.1f MB before and %.1f MB after it", asked,
		float64(before.PeakResident)/1e6, float64(after.PeakResident)/1e6)
	if asked > mostRequests {
		t.Errorf("%d requests were made in the minute, want at most %d", asked, mostRequests)
	}
	if grown := after.PeakResident - before.PeakResident; grown > mostGrowth {
		t.Errorf("the collector has grown by %d bytes", grown)
	}
	if said := collector.LogLines("\twarn\t"); len(said) != 1 {
		t.Errorf("%d lines of the log tell of trouble, want one: %q", len(said), said)
	}
}

const throttled = "throttled"

// throttle gives the watcher a priority level without a seat, and waits until it counts.
func throttle(t *testing.T, c *harness.Cluster, config *rest.Config) {
	t.Helper()
	flow := c.Client.FlowcontrolV1()
	none := int32(0)
	level := &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: throttled},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: &none, LendablePercent: &none, BorrowingLimitPercent: &none,
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		},
	}
	if _, err := flow.PriorityLevelConfigurations().Create(t.Context(), level, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	schema := &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: throttled},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: throttled},
			MatchingPrecedence:         2,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:      []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindServiceAccount, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "default", Name: watcherName}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"}}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{
					Verbs: []string{"*"}, NonResourceURLs: []string{"*"},
				}},
			}},
		},
	}
	if _, err := flow.FlowSchemas().Create(t.Context(), schema, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitThrottled(t, c, config)
}

func awaitThrottled(t *testing.T, c *harness.Cluster, config *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	harness.Poll(t, catchUp, "the API server to throttle", func() string {
		response, err := client.Get("https://" + c.Address() + "/api")
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close() //nolint:errcheck // nothing of it is read
		if response.StatusCode != http.StatusTooManyRequests {
			return fmt.Sprintf("it answers %d", response.StatusCode)
		}
		return ""
	})
}

func unthrottle(t *testing.T, c *harness.Cluster) {
	t.Helper()
	if err := c.Client.FlowcontrolV1().FlowSchemas().Delete(t.Context(), throttled, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
