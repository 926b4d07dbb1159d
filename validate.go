package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
)

const (
	minRelistInterval = time.Hour
	maxRelistInterval = 7 * 24 * time.Hour
	minRotateInterval = time.Minute
)

// Validate finds every mistake that can be found without asking a server, and names for each the key and
// what would be right.
func (c *Config) Validate() error {
	var errs []error
	errs = append(errs, c.validateClient()...)
	errs = append(errs, c.validateResources()...)
	for _, err := range c.Shard.validate() {
		errs = append(errs, fmt.Errorf("shard.%w", err))
	}
	errs = append(errs, c.Relist.validate()...)
	errs = append(errs, c.validateReplicas()...)
	if c.InitialState != initialEmit && c.InitialState != initialSkip {
		errs = append(errs, fmt.Errorf("initial_state: %q is not one of emit, skip", c.InitialState))
	}
	errs = append(errs, c.validateRecords()...)
	errs = append(errs, c.validateDiffs()...)
	errs = append(errs, c.validateFormat()...)
	for _, err := range c.Events.validate() {
		errs = append(errs, fmt.Errorf("events.%w", err))
	}
	errs = append(errs, c.validateEntities()...)
	for _, err := range c.Redaction.validate() {
		errs = append(errs, fmt.Errorf("redaction.%w", err))
	}
	for _, err := range c.Suppress.validate() {
		errs = append(errs, fmt.Errorf("suppress.%w", err))
	}
	errs = append(errs, c.validateLimits()...)
	return errors.Join(errs...)
}

func (c *Config) validateClient() []error {
	var errs []error
	switch c.AuthType {
	case kubeclient.AuthServiceAccount, kubeclient.AuthKubeConfig, kubeclient.AuthNone:
		if c.Kubeconfig != "" && c.AuthType != kubeclient.AuthKubeConfig {
			errs = append(errs, fmt.Errorf("kubeconfig: is used only with auth_type kubeConfig, not %s", c.AuthType))
		}
		if c.Context != "" && c.AuthType != kubeclient.AuthKubeConfig {
			errs = append(errs, fmt.Errorf("context: is used only with auth_type kubeConfig, not %s", c.AuthType))
		}
		if c.APIServer != "" && c.AuthType != kubeclient.AuthNone {
			errs = append(errs, fmt.Errorf("api_server: is used only with auth_type none, not %s", c.AuthType))
		}
		if c.TLS != (TLSConfig{}) && c.AuthType != kubeclient.AuthNone {
			errs = append(errs, fmt.Errorf("tls: is used only with auth_type none, not %s, which has settings of its own", c.AuthType))
		}
	default:
		errs = append(errs, fmt.Errorf("auth_type: %q is not one of serviceAccount, kubeConfig, none", c.AuthType))
	}
	if c.APIServer != "" {
		if err := checkURL(c.APIServer); err != nil {
			errs = append(errs, fmt.Errorf("api_server: %w (for example https://10.0.0.1:6443)", err))
		}
	}
	if kubeclient.IsFileList(c.Kubeconfig) && !exists(c.Kubeconfig) {
		errs = append(errs, fmt.Errorf("kubeconfig: %q is a list of files; leave kubeconfig out and set the environment variable $KUBECONFIG to it", c.Kubeconfig))
	}
	errs = append(errs, c.validateTLS()...)
	if !(c.KubeAPIQPS > 0) { // NaN too
		errs = append(errs, fmt.Errorf("kube_api_qps: %v is not above 0 (the default is 20)", c.KubeAPIQPS))
	}
	if c.KubeAPIBurst < 1 {
		errs = append(errs, fmt.Errorf("kube_api_burst: %d is less than 1 (the default is 40)", c.KubeAPIBurst))
	}
	if strings.ContainsFunc(c.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }) {
		errs = append(errs, fmt.Errorf("user_agent: %q has characters other than printable ASCII", c.UserAgent))
	}
	return errs
}

// exists allows a file whose name looks like a list of files.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (c *Config) validateTLS() []error {
	var errs []error
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		errs = append(errs, errors.New("tls: cert_file and key_file belong together; write both or neither"))
	}
	if c.TLS.InsecureSkipVerify && c.TLS.CAFile != "" {
		errs = append(errs, errors.New("tls: ca_file is of no use with insecure_skip_verify; leave one of them out"))
	}
	if c.TLS != (TLSConfig{}) && strings.HasPrefix(c.APIServer, "http://") {
		errs = append(errs, errors.New("tls: is of no use with an api_server that begins with http://; write https:// or leave tls out"))
	}
	return errs
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%q is not an http or https URL", s)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the URL has more than scheme, host, port and path")
	}
	return nil
}

func (c *Config) validateResources() []error {
	if len(c.Resources) == 0 {
		return []error{errors.New("resources: is empty; name at least one resource, as in resources: [pods]")}
	}
	var errs []error
	var specs []catalog.Spec
	for i := range c.Resources {
		r := &c.Resources[i]
		for _, err := range append(r.validate(), r.validateRecords()...) {
			errs = append(errs, fmt.Errorf("resources[%d].%w", i, err))
		}
		if checkName(r.Name) == nil {
			specs = append(specs, r.specs(i)...)
		}
	}
	return append(errs, catalog.Overlaps(specs)...)
}

// validate returns errors that begin with the key inside the entry.
func (r *ResourceConfig) validate() []error {
	var errs []error
	if err := checkName(r.Name); err != nil {
		errs = append(errs, fmt.Errorf("name: %w", err))
	} else {
		errs = append(errs, r.validateScope()...)
	}
	errs = append(errs, r.validatePattern()...)
	if err := r.checkVersion(); err != nil {
		errs = append(errs, fmt.Errorf("version: %w", err))
	}
	errs = append(errs, r.validateNamespaces()...)
	if _, err := labels.Parse(r.LabelSelector); err != nil {
		errs = append(errs, fmt.Errorf("label_selector: cannot parse %q: %w (for example app=web,tier in (front,back))", r.LabelSelector, err))
	}
	if _, err := fields.ParseSelector(r.FieldSelector); err != nil {
		errs = append(errs, fmt.Errorf("field_selector: cannot parse %q: %w (for example status.phase=Running,spec.nodeName!=n1)", r.FieldSelector, err))
	}
	return errs
}

var (
	// versionWord matches versions in places where there should be none.
	versionWord = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

	// subresources of built-in resources, which can be neither listed nor watched.
	subresources = []string{"approval", "attach", "binding", "ephemeralcontainers", "eviction", "exec", "finalize", "log", "portforward", "proxy", "resize", "scale", "status", "token"}
)

// checkName returns what is wrong with a resource's name, and which name was probably meant.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("is missing; write a plural name (configmaps), a plural name and its API group (deployments.apps) or a preset: " + strings.Join(catalog.PresetNames(), ", "))
	case catalog.Preset(name) != nil:
		return nil
	case strings.ContainsAny(name, "?[]()^$|\\"):
		return fmt.Errorf("%q is not a pattern; * is the only wildcard, as in *.cert-manager.io", name)
	case glob.Has(name):
		return checkPattern(name)
	case strings.Contains(name, "/"):
		return checkSlashes(name)
	}
	plural, group, hasGroup := strings.Cut(name, ".")
	if hasGroup {
		if right := rightOrder(name); right != "" {
			return fmt.Errorf("%q is not a resource's name; write %s", name, right)
		}
	}
	if b, ok := catalog.BuiltinMeant(plural); ok && plural != b.Plural() && (!hasGroup || plural != strings.ToLower(plural)) {
		return fmt.Errorf("%q is not a plural name; write %s", name, b.Name())
	}
	if plural != strings.ToLower(plural) {
		return fmt.Errorf("%q looks like a kind; write the resource's plural name in lower case, as `kubectl api-resources` shows it", name)
	}
	if msgs := validation.IsDNS1035Label(plural); len(msgs) > 0 {
		return fmt.Errorf("%q is not a plural name: %s", plural, strings.Join(msgs, "; "))
	}
	if !hasGroup {
		return nil
	}
	return checkGroup(plural, group)
}

func checkGroup(plural, group string) error {
	version, rest, _ := strings.Cut(group, ".")
	switch {
	case group == "":
		return fmt.Errorf("%q ends in a dot without an API group; write %s", plural+".", plural)
	case group == "core" || group == "api":
		return fmt.Errorf("there is no API group %q; resources of the core group have none: write %s", group, plural)
	case versionWord.MatchString(version) && rest == "":
		return fmt.Errorf("%q is a version, not an API group; write name: %s and version: %s", version, nameOf(plural, ""), version)
	case versionWord.MatchString(version) && catalog.HasBuiltins(rest): // other groups may begin like that
		return fmt.Errorf("%q has a version in the API group; write name: %s.%s and version: %s", plural+"."+group, plural, rest, version)
	}
	if msgs := validation.IsDNS1123Subdomain(group); len(msgs) > 0 {
		return fmt.Errorf("%q is not an API group: %s", group, strings.Join(msgs, "; "))
	}
	return nil
}

// rightOrder returns the correction for a name whose parts are not in the order plural, group: with the version before
// or after them, or the group first. It is "" if the order is right.
func rightOrder(name string) string {
	parts := strings.Split(name, ".")
	last := len(parts) - 1
	version := ""
	switch {
	case versionWord.MatchString(parts[0]):
		version, parts = parts[0], parts[1:]
	case last > 1 && versionWord.MatchString(parts[last]):
		version, parts = parts[last], parts[:last]
	}
	if swapped := groupFirst(parts, &version); swapped != nil {
		parts = swapped
	} else if version == "" {
		return ""
	}
	right := nameOf(meant(parts[0]), strings.Join(parts[1:], "."))
	if version == "" {
		return right
	}
	return fmt.Sprintf("name: %s and version: %s", right, version)
}

// groupFirst reorders the parts of a built-in resource if its group comes first, as in apps.deployments,
// apps.v1.deployments and Go's package names.
func groupFirst(parts []string, version *string) []string {
	last := len(parts) - 1
	if last < 1 {
		return nil
	}
	group := parts[:last]
	if last > 1 && versionWord.MatchString(parts[last-1]) {
		group = parts[:last-1]
	}
	if group[0] == "core" {
		group = group[1:]
	}
	plural, name := meant(parts[last]), strings.Join(group, ".")
	if _, ok := catalog.BuiltinNamed(plural, name, true); !ok {
		return nil
	}
	if versionWord.MatchString(parts[last-1]) {
		*version = parts[last-1]
	}
	return append([]string{plural}, group...)
}

// meant returns the plural name of the built-in resource that a word means, or the word itself.
func meant(word string) string {
	if b, ok := catalog.BuiltinMeant(word); ok {
		return b.Plural()
	}
	return word
}

// nameOf returns the built-in resource's full name, or the plural if it is not built in.
func nameOf(plural, group string) string {
	if b, ok := catalog.BuiltinNamed(plural, group, group != ""); ok {
		return b.Name()
	}
	if group == "" {
		return plural
	}
	return plural + "." + group
}

// checkSlashes explains a name in a form that other tools use: group/version/plural, group/plural, or
// plural/subresource.
func checkSlashes(name string) error {
	parts := strings.Split(name, "/")
	last := parts[len(parts)-1]
	switch {
	case len(parts) == 2 && slices.Contains(subresources, last):
		return fmt.Errorf("%q is a subresource, which cannot be watched; write %s", name, parts[0])
	case len(parts) == 2 && versionWord.MatchString(last):
		return fmt.Errorf("%q is not a resource's name; write name: %s and version: %s", name, parts[0], last)
	case len(parts) == 2 && versionWord.MatchString(parts[0]):
		return fmt.Errorf("%q is not a resource's name; write name: %s and version: %s", name, nameOf(last, ""), parts[0])
	case len(parts) == 2:
		return fmt.Errorf("%q is not a resource's name; write the plural name first and then the API group: %s", name, nameOf(last, parts[0]))
	case len(parts) == 3:
		return fmt.Errorf("%q is not a resource's name; write name: %s and version: %s", name, nameOf(last, parts[0]), parts[1])
	default:
		return fmt.Errorf("%q is not a resource's name; write the plural name and the API group, as in deployments.apps", name)
	}
}

func (r *ResourceConfig) checkVersion() error {
	if r.Version == "" {
		return nil
	}
	if group, version, ok := strings.Cut(r.Version, "/"); ok {
		return fmt.Errorf("%q is a group and a version; write name: %s.%s and version: %s", r.Version, strings.SplitN(r.Name, ".", 2)[0], group, version)
	}
	if msgs := validation.IsDNS1035Label(r.Version); len(msgs) > 0 {
		return fmt.Errorf("%q is not a version, such as v1 or v1beta1", r.Version)
	}
	preset := catalog.Preset(r.Name)
	for _, gr := range preset {
		if gr.Group != preset[0].Group {
			return fmt.Errorf("the preset %s names resources of several API groups, which have versions of their own; name the one to pin, for example %s",
				r.Name, nameOf(gr.Resource, gr.Group))
		}
	}
	return nil
}

func (r *RelistConfig) validate() []error {
	var errs []error
	short := shortRelistGate.IsEnabled()
	switch {
	case r.Interval == 0:
	case r.Interval < 0, r.Interval < minRelistInterval && !short:
		errs = append(errs, fmt.Errorf("relist.interval: %s is less than 1h; write 0 for never, or 1h to 168h%s", r.Interval, unitHint(r.Interval, "6h", minRelistInterval, maxRelistInterval)))
	case r.Interval > maxRelistInterval:
		errs = append(errs, fmt.Errorf("relist.interval: %s is more than 168h; write 0 for never, or 1h to 168h", r.Interval))
	}
	switch {
	case r.RotateInterval == 0:
	case r.RotateInterval < 0, r.RotateInterval < minRotateInterval && !short:
		errs = append(errs, fmt.Errorf("relist.rotate_interval: %s is less than 1m; write 0 for never, or 1m or more%s", r.RotateInterval, unitHint(r.RotateInterval, "30m", minRotateInterval, 24*time.Hour)))
	}
	switch r.Emit {
	case emitChanges:
	case emitSnapshot:
		if r.Interval == 0 {
			errs = append(errs, errors.New("relist.emit: snapshot needs relists, and relist.interval 0 turns them off; set an interval of 1h to 168h"))
		}
	default:
		errs = append(errs, fmt.Errorf("relist.emit: %q is not one of changes, snapshot", r.Emit))
	}
	return errs
}

// longestUnitless is the longest duration that counts as a number without a unit, which YAML yields as nanoseconds.
const longestUnitless = 100 * time.Microsecond

// unitHint suggests a unit for a number without one: the smallest unit that makes the number a duration between lowest
// and highest, or the example if none does.
func unitHint(d time.Duration, example string, lowest, highest time.Duration) string {
	if d <= 0 || d >= longestUnitless {
		return ""
	}
	for _, unit := range []struct {
		name  string
		value time.Duration
	}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}} {
		if meant := time.Duration(d.Nanoseconds()) * unit.value; lowest <= meant && meant <= highest {
			example = fmt.Sprintf("%d%s", d.Nanoseconds(), unit.name)
			break
		}
	}
	return fmt.Sprintf(" (a duration needs a unit, as in %s)", example)
}

// checkUnit finds a number without a unit if every duration is allowed.
func checkUnit(key string, d time.Duration, unit string) []error {
	if d <= 0 || d >= longestUnitless {
		return nil
	}
	return []error{fmt.Errorf("%s: %s is too short; a duration needs a unit, as in %d%s", key, d, d.Nanoseconds(), unit)}
}

func (c *Config) validateLimits() []error {
	var errs []error
	if c.Queue.MaxBytes < 1 {
		errs = append(errs, fmt.Errorf("queue.max_bytes: %d is less than 1 (the default is 16777216)", c.Queue.MaxBytes))
	}
	if c.Queue.DrainTimeout < 0 {
		errs = append(errs, fmt.Errorf("queue.drain_timeout: %s is negative; write 0 to deliver nothing more at shutdown", c.Queue.DrainTimeout))
	}
	errs = append(errs, checkUnit("queue.drain_timeout", c.Queue.DrainTimeout, "s")...)
	errs = append(errs, checkUnit("checkpoint.interval", c.Checkpoint.Interval, "s")...)
	errs = append(errs, checkUnit("batch.timeout", c.Batch.Timeout, "ms")...)
	if c.Checkpoint.Interval < 0 {
		errs = append(errs, fmt.Errorf("checkpoint.interval: %s is negative; write 0 to write at once", c.Checkpoint.Interval))
	}
	if c.Checkpoint.MaxChanges < 1 {
		errs = append(errs, fmt.Errorf("checkpoint.max_changes: %d is less than 1 (the default is 1000)", c.Checkpoint.MaxChanges))
	}
	if c.Batch.MaxRecords < 1 {
		errs = append(errs, fmt.Errorf("batch.max_records: %d is less than 1 (the default is 500)", c.Batch.MaxRecords))
	}
	if c.Batch.MaxBytes < 1 {
		errs = append(errs, fmt.Errorf("batch.max_bytes: %d is less than 1 (the default is 524288)", c.Batch.MaxBytes))
	} else if c.Queue.MaxBytes >= 1 && c.Batch.MaxBytes > c.Queue.MaxBytes {
		errs = append(errs, fmt.Errorf("batch.max_bytes: %d is more than the queue holds; write at most queue.max_bytes, which is %d", c.Batch.MaxBytes, c.Queue.MaxBytes))
	}
	if c.Telemetry.PerResourceLimit < 1 {
		errs = append(errs, fmt.Errorf("telemetry.per_resource_limit: %d is less than 1 (the default is %d)", c.Telemetry.PerResourceLimit, defaultPerResourceLimit))
	}
	if c.Batch.Timeout < 0 {
		errs = append(errs, fmt.Errorf("batch.timeout: %s is negative; write 0 to send every record at once", c.Batch.Timeout))
	}
	return errs
}
