package record

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// nameAndUID holds the attributes for the name and the UID of a kind; uid is "" if only the name is defined.
type nameAndUID struct{ name, uid string }

func (c nameAndUID) put(m pcommon.Map, name, uid string) {
	putNonEmpty(m, c.name, name)
	if c.uid != "" {
		putNonEmpty(m, c.uid, uid)
	}
}

// kinds maps resources, in any API version, to the attributes that the semantic conventions define for their objects.
// The kind alone is not enough: a custom resource may also be called Service. For namespaces and storage classes the
// conventions define only the name.
// https://opentelemetry.io/docs/specs/semconv/registry/attributes/k8s/
var kinds = map[schema.GroupResource]nameAndUID{
	{Group: "", Resource: "namespaces"}:             {string(semconv.K8SNamespaceNameKey), ""},
	{Group: "", Resource: "nodes"}:                  {string(semconv.K8SNodeNameKey), string(semconv.K8SNodeUIDKey)},
	{Group: "", Resource: "persistentvolumeclaims"}: {string(semconv.K8SPersistentvolumeclaimNameKey), string(semconv.K8SPersistentvolumeclaimUIDKey)},
	{Group: "", Resource: "persistentvolumes"}:      {string(semconv.K8SPersistentvolumeNameKey), string(semconv.K8SPersistentvolumeUIDKey)},
	{Group: "", Resource: "pods"}:                   {string(semconv.K8SPodNameKey), string(semconv.K8SPodUIDKey)},
	{Group: "", Resource: "replicationcontrollers"}: {string(semconv.K8SReplicationControllerNameKey), string(semconv.K8SReplicationControllerUIDKey)},
	{Group: "", Resource: "resourcequotas"}:         {string(semconv.K8SResourceQuotaNameKey), string(semconv.K8SResourceQuotaUIDKey)},
	{Group: "", Resource: "services"}:               {string(semconv.K8SServiceNameKey), string(semconv.K8SServiceUIDKey)},

	{Group: "apps", Resource: "daemonsets"}:   {string(semconv.K8SDaemonSetNameKey), string(semconv.K8SDaemonSetUIDKey)},
	{Group: "apps", Resource: "deployments"}:  {string(semconv.K8SDeploymentNameKey), string(semconv.K8SDeploymentUIDKey)},
	{Group: "apps", Resource: "replicasets"}:  {string(semconv.K8SReplicaSetNameKey), string(semconv.K8SReplicaSetUIDKey)},
	{Group: "apps", Resource: "statefulsets"}: {string(semconv.K8SStatefulSetNameKey), string(semconv.K8SStatefulSetUIDKey)},

	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}: {string(semconv.K8SHPANameKey), string(semconv.K8SHPAUIDKey)},

	{Group: "batch", Resource: "cronjobs"}: {string(semconv.K8SCronJobNameKey), string(semconv.K8SCronJobUIDKey)},
	{Group: "batch", Resource: "jobs"}:     {string(semconv.K8SJobNameKey), string(semconv.K8SJobUIDKey)},

	{Group: "storage.k8s.io", Resource: "storageclasses"}: {string(semconv.K8SStorageclassNameKey), ""},
}

// ConventionOf returns the attributes that the semantic conventions define for the name and, unless uid is "", the UID of
// the objects of a resource.
func ConventionOf(resource schema.GroupResource) (name, uid string, ok bool) {
	c, ok := kinds[resource]
	return c.name, c.uid, ok
}

// ConventionOfReference returns the same for the object of a reference.
func ConventionOfReference(apiVersion, kind string) (name, uid string, ok bool) {
	c, ok := conventionOf(apiVersion, kind)
	return c.name, c.uid, ok
}

// conventions maps groups and kinds to the same attributes, for references to objects.
var conventions = func() map[schema.GroupKind]nameAndUID {
	all := make(map[schema.GroupKind]nameAndUID, len(kinds))
	for resource, kind := range map[string]string{
		"namespaces": "Namespace", "nodes": "Node", "persistentvolumeclaims": "PersistentVolumeClaim", "persistentvolumes": "PersistentVolume",
		"pods": "Pod", "replicationcontrollers": "ReplicationController", "resourcequotas": "ResourceQuota", "services": "Service",
		"daemonsets.apps": "DaemonSet", "deployments.apps": "Deployment", "replicasets.apps": "ReplicaSet", "statefulsets.apps": "StatefulSet",
		"horizontalpodautoscalers.autoscaling": "HorizontalPodAutoscaler", "cronjobs.batch": "CronJob", "jobs.batch": "Job",
		"storageclasses.storage.k8s.io": "StorageClass",
	} {
		of := schema.ParseGroupResource(resource)
		all[schema.GroupKind{Group: of.Group, Kind: kind}] = kinds[of]
	}
	return all
}()

// conventionOf returns the attributes that the conventions define for the object of a reference.
func conventionOf(apiVersion, kind string) (nameAndUID, bool) {
	c, ok := conventions[groupKindOf(apiVersion, kind)]
	return c, ok
}

// groupKindOf returns the group and kind of a reference. A reference without apiVersion is to the core group.
func groupKindOf(apiVersion, kind string) schema.GroupKind {
	group, _, hasGroup := strings.Cut(apiVersion, "/")
	if !hasGroup {
		group = ""
	}
	return schema.GroupKind{Group: group, Kind: kind}
}
