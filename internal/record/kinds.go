package record

import (
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type nameAndUID struct{ name, uid string }

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
