package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"go.uber.org/zap/zapcore"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane"
)

// sayingProgress matches an entry of the log that says how far the initial state of pods is.
var sayingProgress = regexp.MustCompile(`bytes:[1-9]\d* bytes_per_second:[1-9]\d* .*objects:[1-9]\d* objects_per_second:[1-9]\d* resource:pods`)

// Over a slow network the initial state takes long. The log says how far it is.
func TestProgressOverASlowNetwork(t *testing.T) {
	t.Parallel()
	const kilobytesPerSecond = 20 // 450 KB of pods take about 23 seconds
	c := harness.StartCluster(t, controlplane.Options{})
	c.CreatePods(t, "kept", 300, harness.SmallPod)
	proxy := harness.StartProxy(t, c.Address())
	proxy.Afflict(t, harness.Slow(0, kilobytesPerSecond)...)
	r := harness.StartReceiver(t, kubeconfig(c.KubeconfigVia(t, c.RESTConfig(), proxy.Address()))+"resources: [{name: pods}]", nil)
	harness.Poll(t, 2*catchUp, "the log to say how far the initial state is", func() string {
		said := r.Log.Lines(zapcore.InfoLevel, "still reading initial state")
		if !slices.ContainsFunc(said, sayingProgress.MatchString) {
			return fmt.Sprintf("it says %q", said)
		}
		return ""
	})
	r.Records.AwaitSnapshot(t, "pods", catchUp)
	r.Records.AwaitFold(t, "pods", c.List(t, harness.Pods).State, catchUp)
}
