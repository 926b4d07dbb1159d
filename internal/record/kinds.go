package record

import semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

// groupResource names a resource whatever its version. The kind alone would not do: a custom resource may
// be called Service as well.
type groupResource struct{ group, plural string }

type nameAndUID struct{ name, uid string }

// kinds are the resources whose objects the semantic conventions have attributes for. Of a namespace and a
// storage class they define the name only.
// https://opentelemetry.io/docs/specs/semconv/registry/attributes/k8s/
var kinds = map[groupResource]nameAndUID{
	{"", "namespaces"}:             {string(semconv.K8SNamespaceNameKey), ""},
	{"", "nodes"}:                  {string(semconv.K8SNodeNameKey), string(semconv.K8SNodeUIDKey)},
	{"", "persistentvolumeclaims"}: {string(semconv.K8SPersistentvolumeclaimNameKey), string(semconv.K8SPersistentvolumeclaimUIDKey)},
	{"", "persistentvolumes"}:      {string(semconv.K8SPersistentvolumeNameKey), string(semconv.K8SPersistentvolumeUIDKey)},
	{"", "pods"}:                   {string(semconv.K8SPodNameKey), string(semconv.K8SPodUIDKey)},
	{"", "replicationcontrollers"}: {string(semconv.K8SReplicationControllerNameKey), string(semconv.K8SReplicationControllerUIDKey)},
	{"", "resourcequotas"}:         {string(semconv.K8SResourceQuotaNameKey), string(semconv.K8SResourceQuotaUIDKey)},
	{"", "services"}:               {string(semconv.K8SServiceNameKey), string(semconv.K8SServiceUIDKey)},

	{"apps", "daemonsets"}:   {string(semconv.K8SDaemonSetNameKey), string(semconv.K8SDaemonSetUIDKey)},
	{"apps", "deployments"}:  {string(semconv.K8SDeploymentNameKey), string(semconv.K8SDeploymentUIDKey)},
	{"apps", "replicasets"}:  {string(semconv.K8SReplicaSetNameKey), string(semconv.K8SReplicaSetUIDKey)},
	{"apps", "statefulsets"}: {string(semconv.K8SStatefulSetNameKey), string(semconv.K8SStatefulSetUIDKey)},

	{"autoscaling", "horizontalpodautoscalers"}: {string(semconv.K8SHPANameKey), string(semconv.K8SHPAUIDKey)},

	{"batch", "cronjobs"}: {string(semconv.K8SCronJobNameKey), string(semconv.K8SCronJobUIDKey)},
	{"batch", "jobs"}:     {string(semconv.K8SJobNameKey), string(semconv.K8SJobUIDKey)},

	{"storage.k8s.io", "storageclasses"}: {string(semconv.K8SStorageclassNameKey), ""},
}
