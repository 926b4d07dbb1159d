package k8swatchlistreceiver

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// Config is the configuration of the receiver. Keys that the Collector's other Kubernetes components have
// too keep their names and meanings.
type Config struct {
	// AuthType is how the receiver shows the API server who it is: serviceAccount (the pod's), kubeConfig
	// or none. Default: serviceAccount.
	AuthType string `mapstructure:"auth_type"`

	// Kubeconfig is the path of a kubeconfig file. Default: what kubectl takes, which is $KUBECONFIG, then
	// ~/.kube/config. Only with auth_type kubeConfig.
	Kubeconfig string `mapstructure:"kubeconfig"`

	// Context is the kubeconfig's context to use. Default: its current context. Only with auth_type
	// kubeConfig.
	Context string `mapstructure:"context"`

	// APIServer is the URL of the API server. Default: the cluster that the pod runs in. Only with
	// auth_type none.
	APIServer string `mapstructure:"api_server"`

	// TLS says how to check the API server, and which certificate to show it. Only with auth_type none.
	// Default: the system's authorities, or the pod's without api_server; no certificate.
	TLS TLSConfig `mapstructure:"tls"`

	// KubeAPIQPS is how many requests a second may be sent to the API server, on average. Watches that resume go
	// before others. Default: 20.
	KubeAPIQPS float32 `mapstructure:"kube_api_qps"`

	// KubeAPIBurst is how many requests may be sent at once after a quiet time. Default: 40.
	KubeAPIBurst int `mapstructure:"kube_api_burst"`

	// UserAgent is the name under which the requests stand in the API server's audit log and metrics.
	// Default: otelcol-k8s_watchlist/<version> (<os>/<arch>).
	UserAgent string `mapstructure:"user_agent"`

	// Compression lets the API server compress its answers. That helps across zones and over slow links
	// and costs CPU time on both ends. Default: false.
	Compression bool `mapstructure:"compression"`

	// ClusterName becomes the resource attribute k8s.cluster.name. Default: none.
	ClusterName string `mapstructure:"cluster_name"`

	// Resources are the Kubernetes resources to read. At least one.
	Resources []ResourceConfig `mapstructure:"resources"`

	// Relist is how often the receiver makes sure that it missed nothing.
	Relist RelistConfig `mapstructure:"relist"`

	// Storage is the ID of a storage extension, such as file_storage, in which the receiver keeps how far it
	// has come, so that after a restart it goes on there. Default: none; every start begins afresh.
	Storage *component.ID `mapstructure:"storage"`

	// InitialState says what to do with the objects that exist when a resource is read for the first time:
	// emit them, or skip them and emit only what changes. Default: emit.
	InitialState string `mapstructure:"initial_state"`

	// Checkpoint says how often what is kept in the storage extension is written.
	Checkpoint CheckpointConfig `mapstructure:"checkpoint"`

	// Body is the form of the object in the record's body: map (structured) or json (one string).
	// Default: map.
	Body string `mapstructure:"body"`

	// Redaction says what is masked in objects beyond what is always masked, and what is not.
	Redaction RedactionConfig `mapstructure:"redaction"`

	// Queue bounds what waits for the next consumer.
	Queue QueueConfig `mapstructure:"queue"`

	// Batch bounds what the next consumer is given at once.
	Batch BatchConfig `mapstructure:"batch"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// TLSConfig is the part of the Collector's client TLS settings (configtls) that an API server without credentials may
// need, with the same keys. configtls itself would bring drivers for TPM chips into every build.
type TLSConfig struct {
	// CAFile is the path of the certificates of the authorities to trust, PEM. Default: the system's.
	CAFile string `mapstructure:"ca_file"`

	// CertFile and KeyFile are the paths of a client certificate and its key, PEM. Renewed files are read again.
	// Default: none.
	CertFile string `mapstructure:"cert_file"`
	KeyFile  string `mapstructure:"key_file"`

	// ServerNameOverride is the name that the server's certificate must have. Default: the host of api_server.
	ServerNameOverride string `mapstructure:"server_name_override"`

	// InsecureSkipVerify believes any server. Default: false.
	InsecureSkipVerify bool `mapstructure:"insecure_skip_verify"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// ResourceConfig names one Kubernetes resource, or a preset of several, and what to read of it.
type ResourceConfig struct {
	// Name is the plural name of a core resource (configmaps), the plural and the API group
	// (deployments.apps), or a preset: nodes, pods, namespaces, persistentvolumes, rbac, services,
	// deployments, ingresses, endpoints. Required.
	Name string `mapstructure:"name"`

	// Version pins a version of the API group (v1). Default: the one that the server prefers.
	Version string `mapstructure:"version"`

	// Namespaces to read, one stream each. Default: all, in one stream.
	Namespaces []string `mapstructure:"namespaces"`

	// LabelSelector and FieldSelector limit the objects, as kubectl's --selector and --field-selector do.
	// The API server applies them. Default: none.
	LabelSelector string `mapstructure:"label_selector"`
	FieldSelector string `mapstructure:"field_selector"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// UnmarshalText lets a resource of which nothing but the name is given stand as a string: resources: [pods].
func (r *ResourceConfig) UnmarshalText(text []byte) error {
	r.Name = string(text)
	return nil
}

// RelistConfig says how often a stream is swapped for a fresh one, to find what was missed.
type RelistConfig struct {
	// Interval between two relists of a resource, as a duration (6h). 0 means never, else 1h to 168h.
	// Default: 6h.
	Interval time.Duration `mapstructure:"interval"`

	// Emit says what a relist emits: changes (only what differs from what was emitted before) or snapshot
	// (every object). Default: changes.
	Emit string `mapstructure:"emit"`

	// RotateInterval is how often a stream is replaced by one on a new connection that goes on where the
	// old one stands, as a duration (30m), which costs the API server next to nothing. 0 means never, else
	// at least 1m. Default: 30m.
	RotateInterval time.Duration `mapstructure:"rotate_interval"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// CheckpointConfig says how often checkpoints are written. Only with a storage.
type CheckpointConfig struct {
	// Interval is how long after a record was accepted its checkpoint is written, as a duration. After a
	// crash what was accepted in that time comes again. Default: 1s.
	Interval time.Duration `mapstructure:"interval"`

	// MaxChanges is how many changes of a resource may wait for that. Default: 1000.
	MaxChanges int `mapstructure:"max_changes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// QueueConfig bounds what waits for the next consumer.
type QueueConfig struct {
	// MaxBytes of records that may wait. When the queue is full, streams are closed and resumed later.
	// Default: 16777216 (16 MiB).
	MaxBytes int `mapstructure:"max_bytes"`

	// DrainTimeout is how long Shutdown goes on delivering what waits, as a duration. Default: 10s.
	DrainTimeout time.Duration `mapstructure:"drain_timeout"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// BatchConfig bounds what the next consumer is given at once.
type BatchConfig struct {
	// MaxRecords in a batch. Default: 500.
	MaxRecords int `mapstructure:"max_records"`

	// MaxBytes of the records in a batch. A larger record is a batch of its own. Default: 524288 (512 KiB).
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

// Values of body.
const (
	bodyMap  = "map"
	bodyJSON = "json"
)

func createDefaultConfig() component.Config {
	return &Config{
		AuthType:     kubeclient.AuthServiceAccount,
		KubeAPIQPS:   20,
		KubeAPIBurst: 40,
		Relist: RelistConfig{
			Interval:       6 * time.Hour,
			Emit:           emitChanges,
			RotateInterval: 30 * time.Minute,
		},
		InitialState: initialEmit,
		Checkpoint: CheckpointConfig{
			Interval:   time.Second,
			MaxChanges: 1000,
		},
		Body:      bodyMap,
		Redaction: defaultRedaction(),
		Queue: QueueConfig{
			MaxBytes:     16 << 20,
			DrainTimeout: 10 * time.Second,
		},
		Batch: BatchConfig{
			MaxRecords: 500,
			MaxBytes:   512 << 10,
			Timeout:    200 * time.Millisecond,
		},
	}
}

// clientOptions are the options of the Kubernetes client. The collector's version is in the default user
// agent.
func (c *Config) clientOptions(version string) kubeclient.Options {
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
	}
}

// specs are the resources that the configuration asks for, presets expanded, in the order of the configuration.
func (c *Config) specs() []catalog.Spec {
	var specs []catalog.Spec
	for i := range c.Resources {
		specs = append(specs, c.Resources[i].specs(i)...)
	}
	return specs
}

// reads reports whether the configuration asks for a scope.
func (c *Config) reads(of scope.Scope) bool {
	return slices.ContainsFunc(c.specs(), func(s catalog.Spec) bool { return s.Reads(of) })
}

// specs expands the entry that stands at index in the list of resources.
func (r *ResourceConfig) specs(index int) []catalog.Spec {
	return catalog.Expand(index, r.Name, catalog.Spec{
		Version: r.Version, Namespaces: r.Namespaces, LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector,
	})
}
