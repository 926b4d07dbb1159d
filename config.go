package k8swatchlistreceiver

import (
	"fmt"
	"runtime"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// Config is the configuration of the receiver. Keys shared with the Collector's other Kubernetes components have the
// same names and meanings.
type Config struct {
	// AuthType is how the receiver authenticates to the API server: serviceAccount (the pod's), kubeConfig or none.
	// Default: serviceAccount.
	AuthType string `mapstructure:"auth_type"`

	// Kubeconfig is the path of a kubeconfig file. Default: the same as kubectl's, $KUBECONFIG or else ~/.kube/config.
	// Only with auth_type kubeConfig.
	Kubeconfig string `mapstructure:"kubeconfig"`

	// Context is the kubeconfig's context to use. Default: its current context. Only with auth_type
	// kubeConfig.
	Context string `mapstructure:"context"`

	// APIServer is the URL of the API server. Default: the cluster that the pod runs in. Only with
	// auth_type none.
	APIServer string `mapstructure:"api_server"`

	// TLS configures how to verify the API server, and the client certificate. Only with auth_type none. Default: the
	// system's authorities, or the pod's without api_server; no client certificate.
	TLS TLSConfig `mapstructure:"tls"`

	// KubeAPIQPS is how many requests per second may be sent to the API server, on average. Resuming watches go first.
	// Default: 20.
	KubeAPIQPS float32 `mapstructure:"kube_api_qps"`

	// KubeAPIBurst is how many requests may be sent at once after a quiet time. Default: 40.
	KubeAPIBurst int `mapstructure:"kube_api_burst"`

	// UserAgent is the name of the requests in the API server's audit log and metrics. Default:
	// otelcol-k8s_watchlist/<version> (<os>/<arch>).
	UserAgent string `mapstructure:"user_agent"`

	// Compression lets the API server compress its answers, which helps across zones and over slow links but costs CPU
	// time on both ends. Default: false.
	Compression bool `mapstructure:"compression"`

	// ClusterName becomes the resource attribute k8s.cluster.name. Default: none.
	ClusterName string `mapstructure:"cluster_name"`

	// Resources are the Kubernetes resources to read. At least one.
	Resources []ResourceConfig `mapstructure:"resources"`

	// Shard makes the receiver read only a part of the objects, so that several can share the work.
	Shard ShardConfig `mapstructure:"shard"`

	// Relist configures how the receiver makes sure that it missed nothing.
	Relist RelistConfig `mapstructure:"relist"`

	// Storage is the ID of a storage extension, such as file_storage, for the checkpoints with which the receiver
	// continues after a restart. Default: none; every start begins afresh.
	Storage *component.ID `mapstructure:"storage"`

	// LeaderElection lets several replicas of the receiver decide which of them emits records. The others stand by.
	LeaderElection LeaderElectionConfig `mapstructure:"leader_election"`

	// K8sLeaderElector is the ID of the Collector's extension k8s_leader_elector, if that decides which replica emits records,
	// instead of leader_election. Default: none.
	K8sLeaderElector *component.ID `mapstructure:"k8s_leader_elector"`

	// Standby configures the replicas that do not lead.
	Standby StandbyConfig `mapstructure:"standby"`

	// InitialState decides about the objects that exist when a resource is first read: emit them, or skip them and emit
	// only changes. Default: emit.
	InitialState string `mapstructure:"initial_state"`

	// Checkpoint configures how often checkpoints are written.
	Checkpoint CheckpointConfig `mapstructure:"checkpoint"`

	// Body is the content of the body of a record: the object as a map or as one string (json), a sentence about the change
	// (summary), or none. Default: map.
	Body string `mapstructure:"body"`

	// ObjectAttribute adds the object as the attribute k8s.object.manifest: json (one string), map, or none. It has an effect
	// only if the body is summary or none. Default: none.
	ObjectAttribute string `mapstructure:"object_attribute"`

	// MaxRecordBytes is the largest size of a record as OTLP protobuf, in bytes. Parts of larger objects are left out, in a
	// defined order, and named in k8s.record.truncated. 0 means no limit, else at least 1024. Default: 1048576 (1 MiB).
	MaxRecordBytes int `mapstructure:"max_record_bytes"`

	// ExcludeTypes names the types of changes that do not become records: SNAPSHOT, ADDED, MODIFIED, DELETED. Default: none.
	ExcludeTypes []string `mapstructure:"exclude_types"`

	// DiffMaxBytes bounds the last states of all objects of resources with diff, in bytes. Objects for which not enough is
	// left have no diffs. Default: 67108864 (64 MiB).
	DiffMaxBytes int `mapstructure:"diff_max_bytes"`

	// ResourceGrouping is the OpenTelemetry resource of the records: the cluster, the namespace, or the object. Default:
	// cluster.
	ResourceGrouping string `mapstructure:"resource_grouping"`

	// ResourceAttributes are more attributes of the resource, such as service.name: strings, numbers or booleans. Default:
	// none.
	ResourceAttributes map[string]any `mapstructure:"resource_attributes"`

	// Format is the shape of the records: watchlist (docs/records.md) or, for what is built on the records of another
	// receiver of the Collector, k8sobjects (of k8s_objects) or k8sevents (of k8s_events, for Events only). Default:
	// watchlist.
	Format string `mapstructure:"format"`

	// StreamRecords adds records about gaps and snapshot sets to a format of another receiver, which has none. They have
	// the shape of format watchlist. Default: false; gaps are logged instead.
	StreamRecords bool `mapstructure:"stream_records"`

	// Events configures how Kubernetes Events become records.
	Events EventsConfig `mapstructure:"events"`

	// PodIP adds the attribute k8s.pod.ip to the records of pods. Default: false.
	PodIP bool `mapstructure:"pod_ip"`

	// Entities configures the entity events that are emitted beside the records of changes.
	Entities EntitiesConfig `mapstructure:"entities"`

	// Redaction configures what is masked in objects besides what is always masked, and what is exempt.
	Redaction RedactionConfig `mapstructure:"redaction"`

	// Suppress says which changes are not emitted, since they change nothing.
	Suppress SuppressConfig `mapstructure:"suppress"`

	// Queue bounds the records that wait for the next consumer.
	Queue QueueConfig `mapstructure:"queue"`

	// Batch bounds the batches for the next consumer.
	Batch BatchConfig `mapstructure:"batch"`

	// Telemetry configures the receiver's own metrics.
	Telemetry TelemetryConfig `mapstructure:"telemetry"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// TLSConfig is the part of the Collector's client TLS settings (configtls) that an API server without credentials may
// need, with the same keys. configtls itself would bring drivers for TPM chips into every build.
type TLSConfig struct {
	// CAFile is the path of the certificates of trusted authorities, PEM. Default: the system's.
	CAFile string `mapstructure:"ca_file"`

	// CertFile and KeyFile are the paths of a client certificate and its key, PEM. Renewed files are reloaded. Default:
	// none.
	CertFile string `mapstructure:"cert_file"`
	KeyFile  string `mapstructure:"key_file"`

	// ServerNameOverride is the name that the server's certificate must have. Default: the host of api_server.
	ServerNameOverride string `mapstructure:"server_name_override"`

	// InsecureSkipVerify trusts any server. Default: false.
	InsecureSkipVerify bool `mapstructure:"insecure_skip_verify"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// ResourceConfig selects Kubernetes resources by name, preset or pattern, and what to read of them.
type ResourceConfig struct {
	// Name is the plural name of a core resource (configmaps), the plural and the API group
	// (deployments.apps), a preset: nodes, pods, namespaces, persistentvolumes, rbac, services,
	// deployments, ingresses, endpoints; or a pattern with * of plural and group ("*", "*.cert-manager.io"). Required.
	Name string `mapstructure:"name"`

	// Exclude are names and patterns of resources that a pattern does not select. Default: none.
	Exclude []string `mapstructure:"exclude"`

	// IncludeAggregated makes a pattern select resources that other API servers serve too. Default: false.
	IncludeAggregated bool `mapstructure:"include_aggregated"`

	// Version pins a version of the API group (v1). Default: the one that the server prefers.
	Version string `mapstructure:"version"`

	// Namespaces are the names and patterns (team-*) of the namespaces to read. Names alone are read in one stream each.
	// With a pattern or with ExcludeNamespaces, all namespaces are read in one stream, and the objects of others passed
	// over. Default: all.
	Namespaces []string `mapstructure:"namespaces"`

	// ExcludeNamespaces are names and patterns of namespaces that are not read. Objects in no namespace are not affected.
	// Default: none.
	ExcludeNamespaces []string `mapstructure:"exclude_namespaces"`

	// NamespaceLabelSelector limits the namespaces to those whose labels match, also when they change. All namespaces are
	// then read in one stream. Default: none.
	NamespaceLabelSelector string `mapstructure:"namespace_label_selector"`

	// LabelSelector and FieldSelector limit the objects, as kubectl's --selector and --field-selector do.
	// The API server applies them. Default: none.
	LabelSelector string `mapstructure:"label_selector"`
	FieldSelector string `mapstructure:"field_selector"`

	// DropFields names parts of the objects that are left out, as paths: keys and indices of list elements joined by dots,
	// where * matches any of them (status.conditions, spec.containers.*.env). Default: none.
	DropFields []string `mapstructure:"drop_fields"`

	// KeepFields names the only parts of the objects that are kept, besides their identity. Default: all.
	KeepFields []string `mapstructure:"keep_fields"`

	// Diff adds what changed to the records of modified objects (k8s.change.diff), and their last state to the records of
	// objects that were deleted unseen. The receiver then keeps the last state of each object of the resource in memory.
	// Default: false.
	Diff bool `mapstructure:"diff"`

	// ExcludeTypes names further types of changes that do not become records, for this resource only. Default: none.
	ExcludeTypes []string `mapstructure:"exclude_types"`

	// Format is the shape of the records of this resource. Default: the receiver's.
	Format string `mapstructure:"format"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// UnmarshalText accepts a string for a resource that has only a name: resources: [pods].
func (r *ResourceConfig) UnmarshalText(text []byte) error {
	r.Name = string(text)
	return nil
}

// RelistConfig configures how often a stream is replaced by a fresh one, and compared to find missed changes.
type RelistConfig struct {
	// Interval between two relists of a resource, as a duration (6h). 0 means never, else 1h to 168h.
	// Default: 6h.
	Interval time.Duration `mapstructure:"interval"`

	// Emit is what a relist emits: changes (only differences from what was emitted before) or snapshot (every object).
	// Default: changes.
	Emit string `mapstructure:"emit"`

	// RotateInterval is how often a stream is continued over a new connection, as a duration (30m), which costs the API
	// server next to nothing. 0 means never, else at least 1m. Default: 30m.
	RotateInterval time.Duration `mapstructure:"rotate_interval"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// CheckpointConfig configures how often checkpoints are written. Only with a storage.
type CheckpointConfig struct {
	// Interval is the delay between the acceptance of a record and the write of its checkpoint, as a duration. After a
	// crash, records accepted in that time are repeated. Default: 1s.
	Interval time.Duration `mapstructure:"interval"`

	// MaxChanges is how many changes of a resource may wait for the write. Default: 1000.
	MaxChanges int `mapstructure:"max_changes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// QueueConfig bounds the records that wait for the next consumer.
type QueueConfig struct {
	// MaxBytes bounds the waiting records. When the queue is full, streams are closed and resumed later. Default:
	// 16777216 (16 MiB).
	MaxBytes int `mapstructure:"max_bytes"`

	// DrainTimeout is how long Shutdown keeps delivering the queue, as a duration. Default: 10s.
	DrainTimeout time.Duration `mapstructure:"drain_timeout"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// BatchConfig bounds the batches for the next consumer.
type BatchConfig struct {
	// MaxRecords bounds the records of a batch. Default: 500.
	MaxRecords int `mapstructure:"max_records"`

	// MaxBytes bounds the bytes of a batch. A larger record is a batch of its own. Default: 524288 (512 KiB).
	MaxBytes int `mapstructure:"max_bytes"`

	// Timeout is how long a record may wait for others to join its batch, as a duration. Default: 200ms.
	Timeout time.Duration `mapstructure:"timeout"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Values of relist.emit.
const (
	emitChanges  = "changes"
	emitSnapshot = "snapshot"
)

// Values of initial_state.
const (
	initialEmit = "emit"
	initialSkip = "skip"
)

func createDefaultConfig() component.Config {
	return &Config{
		AuthType:     kubeclient.AuthServiceAccount,
		KubeAPIQPS:   20,
		KubeAPIBurst: 40,
		Shard:        defaultShard(),
		Relist: RelistConfig{
			Interval:       6 * time.Hour,
			Emit:           emitChanges,
			RotateInterval: 30 * time.Minute,
		},
		LeaderElection: defaultLeaderElection(),
		Standby:        defaultStandby(),
		InitialState:   initialEmit,
		Checkpoint: CheckpointConfig{
			Interval:   time.Second,
			MaxChanges: 1000,
		},
		Body:             bodyMap,
		ObjectAttribute:  objectNone,
		MaxRecordBytes:   defaultMaxRecordBytes,
		DiffMaxBytes:     defaultDiffMaxBytes,
		ResourceGrouping: groupCluster,
		Format:           formatWatchlist,
		Events:           EventsConfig{Body: eventsMessage},
		Entities:         EntitiesConfig{Format: entitiesSpec},
		Redaction:        defaultRedaction(),
		Suppress:         defaultSuppress(),
		Queue: QueueConfig{
			MaxBytes:     16 << 20,
			DrainTimeout: 10 * time.Second,
		},
		Batch: BatchConfig{
			MaxRecords: 500,
			MaxBytes:   512 << 10,
			Timeout:    200 * time.Millisecond,
		},
		Telemetry: TelemetryConfig{PerResourceLimit: defaultPerResourceLimit},
	}
}

// ClientOptions returns the options of the Kubernetes client. The default user agent includes the Collector's version.
func (c *Config) ClientOptions(version string) kubeclient.Options {
	userAgent := c.UserAgent
	if userAgent == "" {
		userAgent = fmt.Sprintf("otelcol-k8s_watchlist/%s (%s/%s)", version, runtime.GOOS, runtime.GOARCH)
	}
	return kubeclient.Options{
		AuthType:   c.AuthType,
		Kubeconfig: c.Kubeconfig,
		Context:    c.Context,
		APIServer:  c.APIServer,
		TLS: kubeclient.TLS{
			CAFile:             c.TLS.CAFile,
			CertFile:           c.TLS.CertFile,
			KeyFile:            c.TLS.KeyFile,
			ServerName:         c.TLS.ServerNameOverride,
			InsecureSkipVerify: c.TLS.InsecureSkipVerify,
		},
		QPS:         c.KubeAPIQPS,
		Burst:       c.KubeAPIBurst,
		UserAgent:   userAgent,
		Compression: c.Compression,

		NoShardSelector: c.Shard.Server == shardServerOff,
	}
}

// Specs returns the configured resources in the order of the configuration, with presets expanded.
func (c *Config) Specs() []catalog.Spec {
	var specs []catalog.Spec
	for i := range c.Resources {
		specs = append(specs, c.Resources[i].specs(i)...)
	}
	return c.withShard(specs)
}

// reads reports whether the configuration includes a scope.
func (c *Config) reads(of scope.Scope) bool { return catalog.Reads(c.Specs(), of) }

// entryOf returns the entry of the list of resources that selects a scope, or nil if none does.
func (c *Config) entryOf(of scope.Scope) *ResourceConfig {
	var specs []catalog.Spec
	var entries []*ResourceConfig
	for i := range c.Resources {
		for _, spec := range c.Resources[i].specs(i) {
			specs = append(specs, spec)
			entries = append(entries, &c.Resources[i])
		}
	}
	if i := catalog.Reading(specs, of.Of(shard.Shard{})); i >= 0 { // shards do not matter
		return entries[i]
	}
	return nil
}

// specs expands the entry at index in the list of resources.
func (r *ResourceConfig) specs(index int) []catalog.Spec {
	spec := catalog.Spec{
		Version: r.Version, Namespaces: r.Namespaces, ExcludeNamespaces: r.ExcludeNamespaces,
		NamespaceLabels: r.NamespaceLabelSelector,
		LabelSelector:   r.LabelSelector, FieldSelector: r.FieldSelector,
	}
	if glob.Has(r.Name) {
		spec.Pattern = catalog.ParsePattern(r.Name).Excluding(r.Exclude, r.IncludeAggregated)
	}
	return catalog.Expand(index, r.Name, spec)
}
