package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

// wording is the part of the Collector's configuration that an operator edits without changing what is read, except for
// the namespaces.
type wording struct {
	selector   int // which spelling
	namespaces int // which list
	version    int // which version is pinned
}

// The alternatives, used in turn.
var (
	selectors      = []string{chosenKey + "=" + chosenValue, chosenKey + " in (" + chosenValue + ")", chosenKey + "==" + chosenValue, " " + chosenKey + "  =  " + chosenValue + " "}
	namespaceLists = [][]string{{namespace, otherNamespace}, nil, {otherNamespace, namespace}}
	pinnedVersions = []string{"", "v1", "v2"}
)

// The resources that they are applied to.
const (
	selectedResource  = "pods"
	spreadResource    = "deployments.apps"
	versionedResource = "horizontalpodautoscalers.autoscaling"
)

func (w wording) String() string {
	return fmt.Sprintf("label_selector %q, namespaces %v, version %q", w.selectorOf(selectedResource), w.namespacesOf(spreadResource), w.versionOf(versionedResource))
}

func (w wording) selectorOf(configured string) string {
	if configured != selectedResource {
		return ""
	}
	return selectors[w.selector%len(selectors)]
}

// namespacesOf returns the namespaces that are read separately; none if all are read at once.
func (w wording) namespacesOf(configured string) []string {
	switch configured {
	case spreadResource:
		return namespaceLists[w.namespaces%len(namespaceLists)]
	case "events":
		return []string{namespace, stillNamespace}
	}
	return nil
}

func (w wording) versionOf(configured string) string {
	if configured != versionedResource {
		return ""
	}
	return pinnedVersions[w.version%len(pinnedVersions)]
}

// scopes returns the scopes of a resource's readers.
func (w wording) scopes(o *objects) []scope.Scope {
	namespaces := w.namespacesOf(o.configured)
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var scopes []scope.Scope
	for _, namespace := range namespaces {
		scopes = append(scopes, scope.New(o.resource.GroupResource(), namespace, w.selectorOf(o.configured), ""))
	}
	return scopes
}

// resources returns the list of resources in the configuration.
func (w wording) resources() string {
	var b strings.Builder
	for _, o := range all {
		fmt.Fprintf(&b, "      - name: %s\n", o.configured)
		if selector := w.selectorOf(o.configured); selector != "" {
			fmt.Fprintf(&b, "        label_selector: %q\n", selector)
		}
		if namespaces := w.namespacesOf(o.configured); len(namespaces) > 0 {
			fmt.Fprintf(&b, "        namespaces: [%s]\n", strings.Join(namespaces, ", "))
		}
		if version := w.versionOf(o.configured); version != "" {
			fmt.Fprintf(&b, "        version: %s\n", version)
		}
	}
	return b.String()
}

// rescopes reports whether the scopes of a resource's readers change during a run.
func rescopes(resource string) bool {
	return resource == harness.Name(objectsOf(spreadResource).resource)
}

func (r *run) configuration(m *member) string {
	storage, extension, extensions := "", "", ""
	if m.storage != "" {
		storage, extensions = "\n    storage: file_storage", "file_storage"
		extension = fmt.Sprintf("\nextensions:\n  file_storage: {directory: %q}", m.storage)
	}
	return fmt.Sprintf(`
receivers:
  k8s_watchlist:
    auth_type: kubeConfig
    kubeconfig: %q
    kube_api_qps: 100
    kube_api_burst: 200%s%s
    body: %s
    events: {deleted: true}   # so that the fold has to agree with what the API server holds
    relist: {interval: %s, rotate_interval: %s}
    queue: {max_bytes: %d}
    batch: {max_records: %d}
    resources:
%s
exporters:
  otlp_grpc:
    endpoint: %s
    tls: {insecure: true}
    compression: none
    headers: {%s: "%d"}
    timeout: 10s
    sending_queue: {enabled: false}
    retry_on_failure: {enabled: false}%s
service:
  extensions: [%s]
  pipelines:
    logs: {receivers: [k8s_watchlist], exporters: [otlp_grpc]}
  telemetry:
    logs: {disable_stacktrace: true}
    metrics: %s
`, m.kubeconfig, storage, r.election(m), r.settings.Body, r.settings.RelistInterval, r.settings.RotateInterval, r.settings.QueueBytes, r.settings.BatchRecords,
		r.wording.resources(), r.sink.Address(), lifeHeader, m.life, extension, extensions, otelcol.PullMetrics(m.metrics))
}

// edit changes the configuration for the next life of the Collector.
func (r *run) edit(k Kind) {
	switch k {
	case SelectorEdited:
		r.wording.selector++
	case NamespacesEdited:
		r.wording.namespaces++
	case VersionEdited:
		r.wording.version++
	case ClusterUIDEdited:
		r.editClusterUID()
	}
	r.say("configured: %s, cluster UID granted: %t", r.wording, r.clusterUID)
}

// pathsOf returns the paths of a resource's watches.
func (r *run) pathsOf(o *objects) []string {
	served := o.served()
	if version := r.wording.versionOf(o.configured); version != "" {
		served.Version = version
	}
	var paths []string
	for _, of := range r.wording.scopes(o) {
		paths = append(paths, harness.PathOf(served.Group, served.Version, served.Resource, of.Namespace))
	}
	slices.Sort(paths)
	return paths
}
