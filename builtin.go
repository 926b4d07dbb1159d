package k8swatchlistreceiver

import (
	"cmp"
	"slices"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
)

// builtin is a resource that comes with Kubernetes.
type builtin struct {
	plural        string
	group         string
	version       string // the best that 1.37 serves; "" is v1
	kind          string
	shortNames    []string
	clusterScoped bool
}

// name is how the configuration names the resource.
func (b builtin) name() string {
	if b.group == "" {
		return b.plural
	}
	return b.plural + "." + b.group
}

// builtins are the resources that can be watched in Kubernetes 1.37, so that mistakes about them are found
// without asking a server.
var builtins = []builtin{
	{plural: "configmaps", kind: "ConfigMap", shortNames: []string{"cm"}},
	{plural: "endpoints", kind: "Endpoints", shortNames: []string{"ep"}},
	{plural: "events", kind: "Event", shortNames: []string{"ev"}},
	{plural: "limitranges", kind: "LimitRange", shortNames: []string{"limits"}},
	{plural: "namespaces", kind: "Namespace", shortNames: []string{"ns"}, clusterScoped: true},
	{plural: "nodes", kind: "Node", shortNames: []string{"no"}, clusterScoped: true},
	{plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim", shortNames: []string{"pvc"}},
	{plural: "persistentvolumes", kind: "PersistentVolume", shortNames: []string{"pv"}, clusterScoped: true},
	{plural: "pods", kind: "Pod", shortNames: []string{"po"}},
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

	{plural: "customresourcedefinitions", group: "apiextensions.k8s.io", kind: "CustomResourceDefinition", shortNames: []string{"crd", "crds"}, clusterScoped: true},
	{plural: "apiservices", group: "apiregistration.k8s.io", kind: "APIService", clusterScoped: true},

	{plural: "controllerrevisions", group: "apps", kind: "ControllerRevision"},
	{plural: "daemonsets", group: "apps", kind: "DaemonSet", shortNames: []string{"ds"}},
	{plural: "deployments", group: "apps", kind: "Deployment", shortNames: []string{"deploy"}},
	{plural: "replicasets", group: "apps", kind: "ReplicaSet", shortNames: []string{"rs"}},
	{plural: "statefulsets", group: "apps", kind: "StatefulSet", shortNames: []string{"sts"}},

	{plural: "horizontalpodautoscalers", group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler", shortNames: []string{"hpa"}},
	{plural: "cronjobs", group: "batch", kind: "CronJob", shortNames: []string{"cj"}},
	{plural: "jobs", group: "batch", kind: "Job"},

	{plural: "certificatesigningrequests", group: "certificates.k8s.io", kind: "CertificateSigningRequest", shortNames: []string{"csr"}, clusterScoped: true},
	{plural: "clustertrustbundles", group: "certificates.k8s.io", kind: "ClusterTrustBundle", clusterScoped: true},
	{plural: "podcertificaterequests", group: "certificates.k8s.io", kind: "PodCertificateRequest"},

	{plural: "leases", group: "coordination.k8s.io", kind: "Lease"},
	{plural: "endpointslices", group: "discovery.k8s.io", kind: "EndpointSlice"},
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

// builtinNamed finds a built-in resource by its plural name and, if known, its group. A bare name means the
// core group's resource where there is one, as at runtime.
func builtinNamed(plural, group string, groupKnown bool) (builtin, bool) {
	for _, b := range builtins { // the core group stands first
		if b.plural == plural && (!groupKnown || b.group == group) {
			return b, true
		}
	}
	return builtin{}, false
}

// isBuiltinGroup reports whether built-in resources are in the API group.
func isBuiltinGroup(group string) bool {
	return slices.ContainsFunc(builtins, func(b builtin) bool { return b.group == group })
}

// served is the resource as Kubernetes 1.37 serves it, for when discovery is refused or broken. Few resources had
// another version before; for these the configuration has to name it.
func (b builtin) served() kubeclient.Resource {
	return kubeclient.Resource{
		Group:      b.group,
		Version:    cmp.Or(b.version, "v1"),
		Plural:     b.plural,
		Kind:       b.kind,
		Namespaced: !b.clusterScoped,
		Verbs:      []string{"get", "list", "watch"},
	}
}

// builtinMeant finds the built-in resource that a person means with a kind, a singular or a short name.
func builtinMeant(word string) (builtin, bool) {
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
	return builtin{}, false
}
