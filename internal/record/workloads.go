package record

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

var (
	deployments = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	replicaSets = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	cronJobs    = schema.GroupKind{Group: "batch", Kind: "CronJob"}
	jobs        = schema.GroupKind{Group: "batch", Kind: "Job"}
)

// between maps the resources between pods and their top workload to the kind of that workload.
var between = map[schema.GroupResource]schema.GroupKind{
	{Group: "apps", Resource: "replicasets"}: deployments,
	{Group: "batch", Resource: "jobs"}:       cronJobs,
}

// workloads maps the ReplicaSets and Jobs that the receiver reads to their Deployments and CronJobs, because pods refer only
// to the former. Nothing is requested for this: if a ReplicaSet or Job is not read, or not yet, the name of its owner is
// derived from its own name where that is certain.
type workloads struct {
	mu   sync.Mutex
	of   map[watchlist.Key]workload // by the UID of the ReplicaSet or Job
	gone []watchlist.Key            // ring of the last deleted ones
	next int                        // the oldest in gone once that is full
}

// workload is a Deployment or CronJob. The name is "" if the ReplicaSet or Job is controlled by another kind, or not at all.
type workload struct{ name, uid string }

// maxGone is the number of deleted ReplicaSets and Jobs that are remembered: their pods are often deleted after them.
const maxGone = 1024

// learn remembers the owner of a ReplicaSet or Job.
func (w *workloads) learn(c *watchlist.Change) {
	kind, ok := between[c.Scope.GroupResource]
	if !ok || c.Object.UID == "" {
		return
	}
	key := watchlist.KeyOf(c.Object.UID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Type == watchlist.Deleted {
		w.forgetLater(key)
		return
	}
	if c.Object.RedactionFailed || c.Object.JSON == "" {
		return // the owner is not known
	}
	var top workload
	if o := &c.Object.Owner; o.Controls && groupKindOf(o.APIVersion, o.Kind) == kind {
		top = workload{name: o.Name, uid: o.UID}
	}
	if known, ok := w.of[key]; ok && known == top {
		return
	}
	if w.of == nil {
		w.of = make(map[watchlist.Key]workload)
	}
	w.of[key] = workload{name: strings.Clone(top.name), uid: strings.Clone(top.uid)} // so that the object's memory is freed
}

// forgetLater forgets a deleted object after maxGone further deletions.
func (w *workloads) forgetLater(key watchlist.Key) {
	if _, ok := w.of[key]; !ok {
		return
	}
	if len(w.gone) < maxGone {
		w.gone = append(w.gone, key)
		return
	}
	delete(w.of, w.gone[w.next])
	w.gone[w.next] = key
	w.next = (w.next + 1) % maxGone
}

// ofPod returns the top workload of a pod and the attributes of its kind, if the workload is certain.
func (w *workloads) ofPod(o *redact.Object) (top workload, convention nameAndUID, ok bool) {
	if !o.Owner.Controls {
		return workload{}, nameAndUID{}, false
	}
	var kind schema.GroupKind
	var name string
	switch groupKindOf(o.Owner.APIVersion, o.Owner.Kind) {
	case replicaSets:
		kind, name = deployments, deploymentOf(o.Owner.Name, o.Pod.TemplateHash)
	case jobs:
		kind, name = cronJobs, cronJobOf(o.Owner.Name, o.Times.Created)
	default:
		return workload{}, nameAndUID{}, false
	}
	w.mu.Lock()
	top, known := w.of[watchlist.KeyOf(o.Owner.UID)]
	w.mu.Unlock()
	if !known {
		top = workload{name: name}
	}
	return top, conventions[kind], top.name != ""
}

// maxName is the maximum length of an object's name.
const maxName = 253

// deploymentOf derives the name of a Deployment from that of its ReplicaSet, or returns "" if that is not certain. The
// Deployment controller names a ReplicaSet <deployment>-<hash>, truncates the Deployment's name if that is too long, and
// labels the pods with the hash.
func deploymentOf(replicaSet, templateHash string) string {
	name, ok := strings.CutSuffix(replicaSet, "-"+templateHash)
	if !ok || templateHash == "" || len(replicaSet) >= maxName {
		return ""
	}
	return name
}

const (
	// maxCronJobName is the maximum length of a CronJob's name.
	// https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/
	maxCronJobName = 52
	// longestDelay is the longest time between the scheduled time and the creation of the pod with which the name of a Job
	// is certain.
	longestDelay = 24 * time.Hour
)

// cronJobOf derives the name of a CronJob from that of its Job, or returns "" if that is not certain. The CronJob controller
// names a Job <cronjob>-<minutes>, with the minutes from 1970 to the scheduled time. Other Jobs may also have names that end
// in a number, but not in one that matches the time at which their pod was created.
func cronJobOf(job string, created time.Time) string {
	at := strings.LastIndexByte(job, '-')
	if at < 1 || at > maxCronJobName || job[at+1:] == "" || job[at+1] < '1' || job[at+1] > '9' {
		return ""
	}
	minutes, err := strconv.ParseInt(job[at+1:], 10, 32)
	if err != nil {
		return ""
	}
	delay := created.Sub(time.Unix(minutes*60, 0))
	if delay < -time.Minute || delay > longestDelay {
		return ""
	}
	return job[:at]
}
