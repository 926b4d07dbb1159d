package k8swatchlistreceiver

import (
	"context"
	"os"
	"regexp"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
)

// publishedRecently is how new the progress of another replica must be to conclude that it runs. That of a leader whose
// resources do not change becomes older.
const publishedRecently = 10 * time.Minute

// laterPod matches the names of the pods of a StatefulSet but its first. Those of other pods end in five or more characters.
// https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#ordinal-index
var laterPod = regexp.MustCompile(`^.+-[1-9][0-9]{0,2}$`)

// warnOfReplicas warns if this receiver, which knows nothing of others, seems to be one of several: then each of them emits every
// record. It only looks; nothing depends on the answer.
func (r *watchlistReceiver) warnOfReplicas(ctx context.Context) {
	if pod := os.Getenv(podNameVariable); laterPod.MatchString(pod) && r.cfg.Shard.Total <= 1 {
		r.set.Logger.Warn("this pod looks like one of several replicas, and each of them emits every record: enable leader_election, or run one replica",
			zap.String("pod", pod))
	}
	if !afterReaders(ctx) {
		return
	}
	if holder := r.otherReplica(ctx); holder != "" {
		r.set.Logger.Warn("another replica has leader_election, which is missing here, so that records are emitted twice: use the same configuration for all replicas",
			zap.String("holder", holder))
	}
}

// otherReplica returns the holder of the Lease in which a leader would publish its progress, if somebody does.
func (r *watchlistReceiver) otherReplica(ctx context.Context) string {
	suffix, err := r.cfg.leaseSuffix()
	if err != nil {
		return ""
	}
	_, progress := r.cfg.electionLeases(r.set.ID, suffix)
	if progress.Namespace == "" {
		if progress.Namespace, err = podNamespace(); err != nil {
			return "" // not in a pod
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// It is asked first, so that no request is refused.
	may, err := r.client.May(ctx, kubeclient.Right{
		Verb: "get", GroupResource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, Namespace: progress.Namespace, Name: progress.Name,
	})
	if err != nil || !may {
		return ""
	}
	lease, err := kubeclient.Leases{Client: r.client, Namespace: progress.Namespace, Name: progress.Name}.Get(ctx)
	if err != nil || time.Since(lease.Renewed).Abs() > publishedRecently {
		return ""
	}
	return servertext.Clean(lease.Holder)
}
