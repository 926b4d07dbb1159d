package k8swatchlistreceiver

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/takeover/elector"
)

// LeaderElectionConfig lets several replicas of the receiver decide with a Lease which of them emits records.
type LeaderElectionConfig struct {
	// Enabled turns the leader election on. Default: false.
	Enabled bool `mapstructure:"enabled"`

	// LeaseName is the name of the Lease, the same in all replicas. Each shard has a Lease of its own, whose name ends in the
	// shard, as in k8s-watchlist-0-of-4. Default: from the ID of the receiver, k8s-watchlist.
	LeaseName string `mapstructure:"lease_name"`

	// LeaseNamespace is the namespace of the Lease. Default: that of the pod, from the environment variable POD_NAMESPACE or
	// else its service account.
	LeaseNamespace string `mapstructure:"lease_namespace"`

	// Identity names the replica in the Lease. Something random is added for each process. Default: the environment variable
	// POD_NAME, or else the name of the host.
	Identity string `mapstructure:"identity"`

	// LeaseDuration is how long the others wait for the leader to renew the Lease before one of them takes over, as a
	// duration. Default: 15s.
	LeaseDuration time.Duration `mapstructure:"lease_duration"`

	// RenewDeadline is how long the leader begins batches after it last renewed the Lease, as a duration. Default: 10s.
	RenewDeadline time.Duration `mapstructure:"renew_deadline"`

	// RetryPeriod is how often the leader renews the Lease, as a duration. Default: 2s.
	RetryPeriod time.Duration `mapstructure:"retry_period"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// StandbyConfig configures the replicas that do not lead. Only with leader_election or k8s_leader_elector.
type StandbyConfig struct {
	// Mode is what a standby does: warm (it follows the changes, so that it knows which objects were emitted when it takes
	// over) or cold (it reads nothing). Default: warm.
	Mode string `mapstructure:"mode"`

	// Progress is the namespace and name of the Lease in which the leader publishes how far records were accepted, as in
	// observability/k8s-watchlist-progress. Each shard has one of its own, as with lease_name. Required with
	// k8s_leader_elector. Default: the Lease of leader_election, with the suffix -progress.
	Progress string `mapstructure:"progress"`

	// PublishInterval is how often the leader publishes that, as a duration. After a crash of the leader, what was accepted in
	// that time is repeated. Default: 1s.
	PublishInterval time.Duration `mapstructure:"publish_interval"`

	// StepDownAfter is how long the leader's pipeline may accept nothing, while records wait, before the leader lets another
	// replica lead, as a duration. Not with k8s_leader_elector. Default: 0, never.
	StepDownAfter time.Duration `mapstructure:"step_down_after"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Values of standby.mode.
const (
	standbyWarm = "warm"
	standbyCold = "cold"
)

const (
	// shortestInterval bounds the intervals at which requests are sent.
	shortestInterval = 100 * time.Millisecond
	minLeaseDuration = time.Second // a Lease has whole seconds

	progressSuffix = "-progress"
	divisionSuffix = "-shards"

	// maxIdentity is the longest configured identity, in bytes.
	maxIdentity = 200

	podNamespaceVariable = "POD_NAMESPACE"
)

// serviceAccountNamespace is where a pod finds its namespace. Tests replace it.
var serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func defaultLeaderElection() LeaderElectionConfig {
	return LeaderElectionConfig{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
}

func defaultStandby() StandbyConfig {
	return StandbyConfig{Mode: standbyWarm, PublishInterval: time.Second}
}

func (c *Config) validateReplicas() []error {
	var errs []error
	for _, err := range c.LeaderElection.validate(c.leaseSuffixes()) {
		errs = append(errs, fmt.Errorf("leader_election.%w", err))
	}
	for _, err := range c.Standby.validate(c.leaseSuffixes()) {
		errs = append(errs, fmt.Errorf("standby.%w", err))
	}
	e := &c.LeaderElection
	if c.K8sLeaderElector != nil {
		switch {
		case e.Enabled:
			errs = append(errs, errors.New("k8s_leader_elector: excludes leader_election, which is enabled; leave one of them out"))
		case *e != defaultLeaderElection():
			errs = append(errs, errors.New("leader_election: has no effect with k8s_leader_elector, whose extension has settings of its own; leave one of them out"))
		}
		if c.Standby.Progress == "" {
			errs = append(errs, errors.New("standby.progress: is missing; with k8s_leader_elector, write a namespace and the name of a Lease that is not the one of the extension, as in observability/k8s-watchlist-progress"))
		}
	}
	if e.LeaseName != "" && c.Standby.Progress == e.LeaseNamespace+"/"+e.LeaseName {
		errs = append(errs, fmt.Errorf("standby.progress: %s is the Lease of leader_election; leave it out, or name another Lease", c.Standby.Progress))
	}
	if c.K8sLeaderElector != nil && c.Standby.StepDownAfter > 0 {
		errs = append(errs, errors.New("standby.step_down_after: has no effect with k8s_leader_elector, whose extension holds the Lease; leave one of them out"))
	}
	if c.Standby.PublishInterval > e.RenewDeadline/3 && e.RenewDeadline > 0 {
		errs = append(errs, fmt.Errorf("standby.publish_interval: %s is more than a third of leader_election.renew_deadline, which is %s; write at most %s",
			c.Standby.PublishInterval, e.RenewDeadline, (e.RenewDeadline/3).Truncate(100*time.Millisecond)))
	}
	return errs
}

func (e *LeaderElectionConfig) validate(suffixes []string) []error {
	var errs []error
	if e.LeaseName != "" {
		if err := checkLeaseName(e.LeaseName, suffixes, progressSuffix); err != nil {
			errs = append(errs, fmt.Errorf("lease_name: %w", err))
		}
	}
	if e.LeaseNamespace != "" {
		if err := checkLeaseNamespace(e.LeaseNamespace); err != nil {
			errs = append(errs, fmt.Errorf("lease_namespace: %w", err))
		}
	}
	switch {
	case len(e.Identity) > maxIdentity:
		errs = append(errs, fmt.Errorf("identity: has %d bytes, and at most %d are allowed", len(e.Identity), maxIdentity))
	case strings.ContainsFunc(e.Identity, func(r rune) bool { return r <= ' ' || r > '~' }):
		errs = append(errs, fmt.Errorf("identity: %q has characters other than printable ASCII, or blanks", e.Identity))
	}
	switch {
	case e.LeaseDuration < minLeaseDuration:
		errs = append(errs, fmt.Errorf("lease_duration: %s is less than 1s (the default is 15s)%s", e.LeaseDuration, unitHint(e.LeaseDuration, "15s", minLeaseDuration, time.Hour)))
	case e.LeaseDuration <= e.RenewDeadline:
		errs = append(errs, fmt.Errorf("lease_duration: %s is not longer than renew_deadline, which is %s; another replica could take over while the leader still emits (the defaults are 15s and 10s)", e.LeaseDuration, e.RenewDeadline))
	}
	switch {
	case e.RenewDeadline < shortestInterval:
		errs = append(errs, fmt.Errorf("renew_deadline: %s is less than 100ms (the default is 10s)%s", e.RenewDeadline, unitHint(e.RenewDeadline, "10s", minLeaseDuration, time.Hour)))
	case e.RetryPeriod >= shortestInterval && e.RenewDeadline <= e.RetryPeriod*12/10:
		errs = append(errs, fmt.Errorf("renew_deadline: %s is not longer than 1.2 times retry_period, which is %s; the leader needs time to try again (the defaults are 10s and 2s)", e.RenewDeadline, e.RetryPeriod))
	}
	if e.RetryPeriod < shortestInterval {
		errs = append(errs, fmt.Errorf("retry_period: %s is less than 100ms (the default is 2s)%s", e.RetryPeriod, unitHint(e.RetryPeriod, "2s", time.Second, time.Hour)))
	}
	return errs
}

func (s *StandbyConfig) validate(suffixes []string) []error {
	var errs []error
	if s.Mode != standbyWarm && s.Mode != standbyCold {
		errs = append(errs, fmt.Errorf("mode: %q is not one of warm, cold", s.Mode))
	}
	if s.Progress != "" {
		namespace, name, ok := strings.Cut(s.Progress, "/")
		if !ok || strings.Contains(name, "/") {
			errs = append(errs, fmt.Errorf("progress: %q is not a namespace and a name, as in observability/k8s-watchlist-progress", s.Progress))
		} else if err := checkLeaseNamespace(namespace); err != nil {
			errs = append(errs, fmt.Errorf("progress: %w", err))
		} else if err := checkLeaseName(name, suffixes, ""); err != nil {
			errs = append(errs, fmt.Errorf("progress: %w", err))
		}
	}
	if s.PublishInterval < shortestInterval {
		errs = append(errs, fmt.Errorf("publish_interval: %s is less than 100ms (the default is 1s)%s", s.PublishInterval, unitHint(s.PublishInterval, "1s", time.Second, time.Hour)))
	}
	if s.StepDownAfter != 0 && s.StepDownAfter < time.Second {
		errs = append(errs, fmt.Errorf("step_down_after: %s is less than 1s; write 0 for never%s", s.StepDownAfter, unitHint(s.StepDownAfter, "5m", time.Second, time.Hour)))
	}
	return errs
}

// checkLeaseName checks the longest of the names that are made from a configured one.
func checkLeaseName(name string, suffixes []string, suffix string) error {
	if messages := validation.IsDNS1123Subdomain(name); len(messages) > 0 {
		return fmt.Errorf("%q is not the name of a Lease: %s", name, strings.Join(messages, "; "))
	}
	if longest := suffixes[len(suffixes)-1] + suffix; len(name)+len(longest) > validation.DNS1123SubdomainMaxLength {
		return fmt.Errorf("%q is too long by %d characters, since %s is added to it", name, len(name)+len(longest)-validation.DNS1123SubdomainMaxLength, longest)
	}
	return nil
}

func checkLeaseNamespace(namespace string) error {
	if messages := validation.IsDNS1123Label(namespace); len(messages) > 0 {
		return fmt.Errorf("%q is not a namespace: %s", namespace, strings.Join(messages, "; "))
	}
	return nil
}

// leaseSuffixes returns what is added to the names of Leases, one for each shard, of which the last is the longest.
func (c *Config) leaseSuffixes() []string {
	if c.Shard.Total <= 1 || c.Shard.Total > maxShards {
		return []string{""}
	}
	var suffixes []string
	for i := range c.Shard.Total {
		suffixes = append(suffixes, shardSuffix(i, c.Shard.Total))
	}
	return suffixes
}

// leaseSuffix returns what is added to the names of this receiver's Leases.
func (c *Config) leaseSuffix() (string, error) {
	if c.Shard.Total <= 1 {
		return "", nil
	}
	index, err := c.Shard.index()
	if err != nil {
		return "", fmt.Errorf("shard.index: %w", err)
	}
	return shardSuffix(index, c.Shard.Total), nil
}

func shardSuffix(index, total int) string { return fmt.Sprintf("-%d-of-%d", index, total) }

// ElectionLease is the namespace and name of a Lease that the replicas share. Namespace "" is that of the pod.
type ElectionLease struct{ Namespace, Name string }

// ElectionLeases returns the Leases that the replicas of a receiver create, get and update, with those of all shards. There are
// none without leader election; that of an extension belongs to the extension.
func (c *Config) ElectionLeases(id component.ID) []ElectionLease {
	var leases []ElectionLease
	for _, suffix := range c.leaseSuffixes() {
		lease, progress := c.electionLeases(id, suffix)
		if c.LeaderElection.Enabled {
			leases = append(leases, lease)
		}
		if c.LeaderElection.Enabled || c.K8sLeaderElector != nil {
			leases = append(leases, progress)
		}
	}
	if c.Shard.Total > 1 && len(leases) > 0 {
		leases = append(leases, c.divisionLease(id))
	}
	return leases
}

// electionLeases returns the Lease of the election and that of the progress.
func (c *Config) electionLeases(id component.ID, suffix string) (lease, progress ElectionLease) {
	name := c.LeaderElection.LeaseName
	if name == "" {
		name = leaseNameOf(id)
	}
	lease = ElectionLease{c.LeaderElection.LeaseNamespace, name + suffix}
	progress = ElectionLease{lease.Namespace, lease.Name + progressSuffix}
	if namespace, name, ok := strings.Cut(c.Standby.Progress, "/"); ok {
		progress = ElectionLease{namespace, name + suffix}
	}
	return lease, progress
}

// divisionLease returns the Lease that the replicas of all shards share.
func (c *Config) divisionLease(id component.ID) ElectionLease {
	lease, progress := c.electionLeases(id, divisionSuffix)
	if c.K8sLeaderElector != nil {
		return progress
	}
	return lease
}

// longestOfID is the longest part of an ID that a name keeps, so that there is room for suffixes.
const longestOfID = 150

// leaseNameOf makes a name from the ID of a receiver: k8s-watchlist, or k8s-watchlist-b of k8s_watchlist/b. Two receivers of a
// Collector must not have the same one. If the name of a receiver cannot be part of it as it is, a hash tells them apart.
func leaseNameOf(id component.ID) string {
	name := strings.ReplaceAll(id.Type().String(), "_", "-")
	if id.Name() == "" {
		return name
	}
	if len(id.Name()) <= longestOfID && len(validation.IsDNS1123Subdomain(name+"-"+id.Name())) == 0 {
		return name + "-" + id.Name()
	}
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(id.Name()))
	safe = strings.Trim(safe[:min(len(safe), longestOfID)], "-")
	if safe != "" {
		name += "-" + safe
	}
	hash := sha256.Sum256([]byte(id.String()))
	return name + "-" + hex.EncodeToString(hash[:4])
}

// election is what the replicas need to know of one another.
type election struct {
	// lease is that of the election, unless there is an extension; progress is where the leader publishes.
	lease, progress ElectionLease
	// division is the Lease that the replicas of all shards share, and divided its holder. "" without shards.
	division ElectionLease
	divided  string
	// extension is the ID of the extension k8s_leader_elector, or nil.
	extension *component.ID
	identity  string // of this process

	leaseDuration, renewDeadline, retryPeriod time.Duration

	cold            bool // a standby reads nothing
	stepDownAfter   time.Duration
	publishInterval time.Duration
	// heartbeat is how often the leader publishes even if nothing has changed, which proves its leadership if there is an
	// extension. 0 is never.
	heartbeat time.Duration
}

// election returns the configured election with its defaults, or nil if there is none. It is called once for each process: the
// identity is another one each time.
func (c *Config) election(id component.ID) (*election, error) {
	e := c.LeaderElection
	if !e.Enabled && c.K8sLeaderElector == nil {
		return nil, nil
	}
	suffix, err := c.leaseSuffix()
	if err != nil {
		return nil, err
	}
	division, divided := ElectionLease{}, ""
	if c.Shard.Total > 1 {
		division, divided = c.divisionLease(id), fmt.Sprintf("%d shards by %s", c.Shard.Total, c.Shard.By)
	}
	of := &election{
		extension:       c.K8sLeaderElector,
		division:        division,
		divided:         divided,
		identity:        newIdentity(e.Identity),
		leaseDuration:   e.LeaseDuration,
		renewDeadline:   e.RenewDeadline,
		retryPeriod:     e.RetryPeriod,
		cold:            c.Standby.Mode == standbyCold,
		publishInterval: c.Standby.PublishInterval,
		stepDownAfter:   c.Standby.StepDownAfter,
	}
	if of.extension != nil {
		of.heartbeat = e.RenewDeadline / 3
	}
	of.lease, of.progress = c.electionLeases(id, suffix)
	for _, namespace := range []*string{&of.lease.Namespace, &of.progress.Namespace, &of.division.Namespace} {
		switch {
		case *namespace != "", namespace == &of.lease.Namespace && of.extension != nil, namespace == &of.division.Namespace && divided == "":
			continue
		}
		var err error
		if *namespace, err = podNamespace(); err != nil {
			return nil, fmt.Errorf("leader_election.lease_namespace: %w", err)
		}
	}
	return of, nil
}

// podNamespace returns the namespace of the pod.
func podNamespace() (string, error) {
	namespace, origin := os.Getenv(podNamespaceVariable), "environment variable "+podNamespaceVariable
	if namespace == "" {
		content, err := os.ReadFile(serviceAccountNamespace)
		if err != nil {
			return "", fmt.Errorf("is missing, and the namespace of the pod is not known: the environment variable %s is not set, and there is no %s; write a namespace", podNamespaceVariable, serviceAccountNamespace)
		}
		namespace, origin = strings.TrimSpace(string(content)), "file "+serviceAccountNamespace
	}
	if err := checkLeaseNamespace(namespace); err != nil {
		return "", fmt.Errorf("is missing, and the %s does not help: %w; write a namespace", origin, err)
	}
	return namespace, nil
}

// newIdentity returns the identity of this process. A process that is started again in the same pod must not take itself for the
// one before.
func newIdentity(name string) string {
	if name == "" {
		name = os.Getenv(podNameVariable)
	}
	if name == "" {
		name, _ = os.Hostname() // the random part is what counts
	}
	if name == "" {
		name = "otelcol"
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // it never fails
	return name + "_" + hex.EncodeToString(random[:])
}

// callbacks returns the extension k8s_leader_elector.
func (e *election) callbacks(host component.Host) (elector.Callbacks, error) {
	extension, ok := host.GetExtensions()[*e.extension]
	if !ok {
		return nil, fmt.Errorf("k8s_leader_elector: there is no extension %s; define it under extensions and name it in service.extensions", e.extension)
	}
	callbacks, ok := extension.(elector.Callbacks)
	if !ok {
		return nil, fmt.Errorf("k8s_leader_elector: the extension %s is not a leader elector; use k8s_leader_elector", e.extension)
	}
	return callbacks, nil
}
