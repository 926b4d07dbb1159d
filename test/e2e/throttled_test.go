package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// For a minute the API server answers the Collector's requests only with 429. The Collector rarely asks, does not grow,
// and then continues where it stopped.
func TestAPIServerThrottlesForAMinute(t *testing.T) {
	t.Parallel()
	const pods, mostRequests, mostGrowth = 2000, 40, 8 << 20
	c := harness.StartCluster(t, controlplane.Options{
		AuditLog:      true,
		APIServerArgs: []string{"--request-timeout=10m"}, // for the request that holds the seat
	})
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
	unthrottle := throttle(t, c, watcherUser, account.Config)
	asked := answers(t, c, watcherUser, http.StatusTooManyRequests)
	proxy.Cut()
	proxy.Restore(t)
	began := time.Now()
	c.DeletePods(t, "deleted", 10)
	c.ChangePods(t, "changed", 10)
	c.CreatePods(t, "added", 10, harness.SmallPod)
	// The warning comes with the first refusal after 30 seconds, which may be more than a minute after the first one: the
	// pauses between the tries grow to 45 seconds.
	harness.Poll(t, 2*catchUp, "a minute of refusals and a warning", func() string {
		n, said := answers(t, c, watcherUser, http.StatusTooManyRequests)-asked, collector.LogLines("\twarn\t")
		if since := time.Since(began); since < time.Minute || n < 3 || len(said) == 0 {
			return fmt.Sprintf("%d in %s, and the warnings %q", n, since, said)
		}
		return ""
	})
	asked = answers(t, c, watcherUser, http.StatusTooManyRequests) - asked
	after := harness.UsageOf(t, collector.PID())
	unthrottle()

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
		t.Errorf("%d warnings are logged, want one: %q", len(said), said)
	}
}

const (
	throttled = "throttled"
	occupant  = "occupant"
)

// throttle puts a user into a priority level with one seat, the minimum, and occupies that seat with a request that does
// not end before the returned function is called. config is the user's.
func throttle(t *testing.T, c *harness.Cluster, user string, config *rest.Config) (unthrottle func()) {
	t.Helper()
	createPriorityLevel(t, c, user)
	leave := occupy(t, c)
	awaitThrottled(t, c, config)
	return leave
}

func createPriorityLevel(t *testing.T, c *harness.Cluster, throttledUser string) {
	t.Helper()
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
	if _, err := c.Client.FlowcontrolV1().PriorityLevelConfigurations().Create(t.Context(), level, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	everything := []string{"*"}
	user := func(name string) flowcontrolv1.Subject {
		return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}
	}
	schema := &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: throttled},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: throttled},
			MatchingPrecedence:         2,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         []flowcontrolv1.Subject{user(throttledUser), user(occupant)},
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: everything, APIGroups: everything, Resources: everything, ClusterScope: true, Namespaces: everything}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: everything, NonResourceURLs: everything}},
			}},
		},
	}
	if _, err := c.Client.FlowcontrolV1().FlowSchemas().Create(t.Context(), schema, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// occupy begins to create a pod without finishing, which takes a seat. If there is none it tries again.
func occupy(t *testing.T, c *harness.Cluster) (leave func()) {
	t.Helper()
	grantCreatePods(t, c, occupant)
	credentials, err := c.UserCredentials(occupant)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(credentials.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var occupying sync.WaitGroup
	occupying.Go(func() {
		defer client.CloseIdleConnections()
		for ctx.Err() == nil {
			body, unfinished := io.Pipe()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+c.Address()+"/api/v1/namespaces/default/pods", body)
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Content-Type", "application/json")
			if response, err := client.Do(request); err == nil {
				_ = response.Body.Close()
			}
			_ = unfinished.Close()
		}
	})
	leave = func() {
		cancel()
		occupying.Wait()
	}
	t.Cleanup(leave)
	return leave
}

func grantCreatePods(t *testing.T, c *harness.Cluster, user string) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}
	if _, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func awaitThrottled(t *testing.T, c *harness.Cluster, config *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	refused := 0
	harness.Poll(t, catchUp, "the API server to throttle", func() string {
		response, err := client.Get("https://" + c.Address() + "/api")
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close() //nolint:errcheck // it is not read
		if response.StatusCode != http.StatusTooManyRequests {
			refused = 0
			return fmt.Sprintf("it answers %d", response.StatusCode)
		}
		if refused++; refused < 10 { // in a row: the seat is permanently taken
			return fmt.Sprintf("it has refused %d times", refused)
		}
		return ""
	})
}
