package catalog

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Builtin is a resource that comes with Kubernetes.
type Builtin struct {
	plural        string
	group         string
	version       string // the best that Kubernetes 1.37 serves; "" is v1
	kind          string
	shortNames    []string
	clusterScoped bool
	large         bool // many or large objects in most clusters
}

// Plural returns the resource's plural name.
func (b Builtin) Plural() string { return b.plural }

// Name returns the plural name, with the API group unless it is the core group.
func (b Builtin) Name() string { return b.resource().String() }

// ClusterScoped reports whether the objects have no namespace.
func (b Builtin) ClusterScoped() bool { return b.clusterScoped }

// bestVersion returns the version to use if discovery cannot find out which one the server prefers.
func (b Builtin) bestVersion() string { return cmp.Or(b.version, "v1") }

func (b Builtin) resource() schema.GroupResource {
	return schema.GroupResource{Group: b.group, Resource: b.plural}
}

// builtins lists the resources that can be watched in Kubernetes 1.37, so that mistakes about them are found without a
// request.
var builtins = []Builtin{
	{plural: "configmaps", kind: "ConfigMap", shortNames: []string{"cm"}, large: true},
	{plural: "endpoints", kind: "Endpoints", shortNames: []string{"ep"}},
	{plural: "events", kind: "Event", shortNames: []string{"ev"}},
	{plural: "limitranges", kind: "LimitRange", shortNames: []string{"limits"}},
	{plural: "namespaces", kind: "Namespace", shortNames: []string{"ns"}, clusterScoped: true},
	{plural: "nodes", kind: "Node", shortNames: []string{"no"}, clusterScoped: true},
	{plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim", shortNames: []string{"pvc"}},
	{plural: "persistentvolumes", kind: "PersistentVolume", shortNames: []string{"pv"}, clusterScoped: true},
	{plural: "pods", kind: "Pod", shortNames: []string{"po"}, large: true},
	{plural: "podtemplates", kind: "PodTemplate"},
	{plural: "replicationcontrollers", kind: "ReplicationController", shortNames: []string{"rc"}},
	{plural: "resourcequotas", kind: "ResourceQuota", shortNames: []string{"quota"}},
	{plural: "secrets", kind: "Secret"},
	{plural: "serviceaccounts", kind: "ServiceAccount", shortNames: []string{"sa"}},
	{plural: "services", kind: "Service", shortNames: []string{"svc"}},

	{plural: "mutatingadmissionpolicies", group: "admissionregistration.k8s.io", kind: "MutatingAdmissionPolicy", clusterScoped: true},
	{plural: "mutatingadmissionpolicybindings", group: "admissionregistration.k8s.io", kind: "MutatingAdmissionPolicyBinding", clusterScoped: true},
	{plural: "mutatingwebhookconfigurations", group: "admissionregistration.k8s.io", kind: "MutatingWebhookConfiguration", clusterScoped: true},
	{plural: "validatingadmissionpolicies", group: "admissionregistration.k8s.io", kind: "ValidatingAdmissionPolicy", clusterScoped: true},
	{plural: "validatingadmissionpolicybindings", group: "admissionregistration.k8s.io", kind: "ValidatingAdmissionPolicyBinding", clusterScoped: true},
	{plural: "validatingwebhookconfigurations", group: "admissionregistration.k8s.io", kind: "ValidatingWebhookConfiguration", clusterScoped: true},

	{plural: "customresourcedefinitions", group: "apiextensions.k8s.io", kind: "CustomResourceDefinition", shortNames: []string{"crd", "crds"}, clusterScoped: true, large: true},
	{plural: "apiservices", group: "apiregistration.k8s.io", kind: "APIService", clusterScoped: true},

	{plural: "controllerrevisions", group: "apps", kind: "ControllerRevision", large: true},
	{plural: "daemonsets", group: "apps", kind: "DaemonSet", shortNames: []string{"ds"}},
	{plural: "deployments", group: "apps", kind: "Deployment", shortNames: []string{"deploy"}},
	{plural: "replicasets", group: "apps", kind: "ReplicaSet", shortNames: []string{"rs"}, large: true},
	{plural: "statefulsets", group: "apps", kind: "StatefulSet", shortNames: []string{"sts"}},

	{plural: "horizontalpodautoscalers", group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler", shortNames: []string{"hpa"}},
	{plural: "cronjobs", group: "batch", kind: "CronJob", shortNames: []string{"cj"}},
	{plural: "jobs", group: "batch", kind: "Job"},

	{plural: "certificatesigningrequests", group: "certificates.k8s.io", kind: "CertificateSigningRequest", shortNames: []string{"csr"}, clusterScoped: true},
	{plural: "clustertrustbundles", group: "certificates.k8s.io", kind: "ClusterTrustBundle", clusterScoped: true},
	{plural: "podcertificaterequests", group: "certificates.k8s.io", kind: "PodCertificateRequest"},

	{plural: "leases", group: "coordination.k8s.io", kind: "Lease"},
	{plural: "endpointslices", group: "discovery.k8s.io", kind: "EndpointSlice", large: true},
	{plural: "events", group: "events.k8s.io", kind: "Event"},

	{plural: "flowschemas", group: "flowcontrol.apiserver.k8s.io", kind: "FlowSchema", clusterScoped: true},
	{plural: "prioritylevelconfigurations", group: "flowcontrol.apiserver.k8s.io", kind: "PriorityLevelConfiguration", clusterScoped: true},

	{plural: "ingressclasses", group: "networking.k8s.io", kind: "IngressClass", clusterScoped: true},
	{plural: "ingresses", group: "networking.k8s.io", kind: "Ingress", shortNames: []string{"ing"}},
	{plural: "ipaddresses", group: "networking.k8s.io", kind: "IPAddress", shortNames: []string{"ip"}, clusterScoped: true},
	{plural: "networkpolicies", group: "networking.k8s.io", kind: "NetworkPolicy", shortNames: []string{"netpol"}},
	{plural: "servicecidrs", group: "networking.k8s.io", kind: "ServiceCIDR", clusterScoped: true},

	{plural: "runtimeclasses", group: "node.k8s.io", kind: "RuntimeClass", clusterScoped: true},
	{plural: "poddisruptionbudgets", group: "policy", kind: "PodDisruptionBudget", shortNames: []string{"pdb"}},

	{plural: "clusterrolebindings", group: "rbac.authorization.k8s.io", kind: "ClusterRoleBinding", clusterScoped: true},
	{plural: "clusterroles", group: "rbac.authorization.k8s.io", kind: "ClusterRole", clusterScoped: true},
	{plural: "rolebindings", group: "rbac.authorization.k8s.io", kind: "RoleBinding"},
	{plural: "roles", group: "rbac.authorization.k8s.io", kind: "Role"},

	{plural: "deviceclasses", group: "resource.k8s.io", kind: "DeviceClass", clusterScoped: true},
	{plural: "devicetaintrules", group: "resource.k8s.io", kind: "DeviceTaintRule", clusterScoped: true},
	{plural: "resourceclaims", group: "resource.k8s.io", kind: "ResourceClaim"},
	{plural: "resourceclaimtemplates", group: "resource.k8s.io", kind: "ResourceClaimTemplate"},
	{plural: "resourceslices", group: "resource.k8s.io", kind: "ResourceSlice", clusterScoped: true},

	{plural: "priorityclasses", group: "scheduling.k8s.io", kind: "PriorityClass", shortNames: []string{"pc"}, clusterScoped: true},

	{plural: "csidrivers", group: "storage.k8s.io", kind: "CSIDriver", clusterScoped: true},
	{plural: "csinodes", group: "storage.k8s.io", kind: "CSINode", clusterScoped: true},
	{plural: "csistoragecapacities", group: "storage.k8s.io", kind: "CSIStorageCapacity"},
	{plural: "storageclasses", group: "storage.k8s.io", kind: "StorageClass", shortNames: []string{"sc"}, clusterScoped: true},
	{plural: "volumeattachments", group: "storage.k8s.io", kind: "VolumeAttachment", clusterScoped: true},
	{plural: "volumeattributesclasses", group: "storage.k8s.io", kind: "VolumeAttributesClass", shortNames: []string{"vac"}, clusterScoped: true},

	{plural: "storageversionmigrations", group: "storagemigration.k8s.io", kind: "StorageVersionMigration", clusterScoped: true},
}

// BuiltinNamed finds a built-in resource by its plural name and, if known, its group. A bare name means the core
// group's resource if there is one.
func BuiltinNamed(plural, group string, groupKnown bool) (Builtin, bool) {
	for _, b := range builtins { // the core group comes first
		if b.plural == plural && (!groupKnown || b.group == group) {
			return b, true
		}
	}
	return Builtin{}, false
}

// BuiltinMeant finds the built-in resource with that kind, singular or short name.
func BuiltinMeant(word string) (Builtin, bool) {
	for _, b := range builtins {
		if strings.EqualFold(word, b.kind) || strings.EqualFold(word, b.plural) {
			return b, true
		}
		for _, s := range b.shortNames {
			if strings.EqualFold(word, s) {
				return b, true
			}
		}
	}
	return Builtin{}, false
}

// HasBuiltins reports whether the API group has built-in resources.
func HasBuiltins(group string) bool {
	return slices.ContainsFunc(builtins, func(b Builtin) bool { return b.group == group })
}

// isBuiltinGroup reports whether kube-apiserver itself serves the group: groups without a dot, and the Kubernetes
// project's groups that are not add-ons.
func isBuiltinGroup(group string) bool {
	return !strings.Contains(group, ".") ||
		strings.HasSuffix(group, ".k8s.io") && !isMetrics(group)
}

// isMetrics reports whether the API group is one of those of the metrics APIs, which always come from another server.
func isMetrics(group string) bool {
	return group == "metrics.k8s.io" || strings.HasSuffix(group, ".metrics.k8s.io")
}
