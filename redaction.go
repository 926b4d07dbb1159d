package k8swatchlistreceiver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// RedactionConfig configures what is masked in objects besides what is always masked, and what is exempt. Values of
// Secrets are always masked. docs/redaction.md explains the policy.
type RedactionConfig struct {
	// ConfigMaps is how the values of ConfigMaps are treated: fingerprint (each is replaced by its length and a
	// fingerprint), scan (they are kept, except for secrets found in them) or keep. Default: fingerprint.
	ConfigMaps string `mapstructure:"configmaps"`

	// Environment is how the values of environment variables are treated: redact (all are masked) or scan (those with a
	// sensitive name are masked, and secrets found in the others). Default: redact.
	Environment string `mapstructure:"environment"`

	// FingerprintKey is the key of the fingerprints, at least 16 characters. Default: a random key, which is kept in
	// the storage extension, or until the process ends if none is configured.
	FingerprintKey secretString `mapstructure:"fingerprint_key"`

	// MaskKeys adds keys whose values are masked: their last words (licenseText), or a pattern with * for the whole key
	// ("*_pin"). Case does not matter. Default: none.
	MaskKeys []string `mapstructure:"mask_keys"`

	// Keep lists values that are not masked. Default: none.
	Keep []RedactionKeepConfig `mapstructure:"keep"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// RedactionKeepConfig names values of one resource that are not masked.
type RedactionKeepConfig struct {
	// Resource is the name of the resource, as in resources[].name. Values of Secrets cannot be kept. Required.
	Resource string `mapstructure:"resource"`

	// Namespaces and Names limit the objects, by patterns with *. Default: all.
	Namespaces []string `mapstructure:"namespaces"`
	Names      []string `mapstructure:"names"`

	// Paths of the values, or of objects and lists with everything in them: keys joined by dots, where * is any key or
	// element (data.*, spec.containers.*.env.LOG_LEVEL). The name of a list element may be used as its key. At least
	// one.
	Paths []string `mapstructure:"paths"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// secretString hides its value when the configuration is printed or marshaled.
type secretString string

// String returns the mask.
func (secretString) String() string { return redact.Masked }

// GoString returns the mask.
func (secretString) GoString() string { return redact.Masked }

// MarshalText returns the mask.
func (secretString) MarshalText() ([]byte, error) { return []byte(redact.Masked), nil }

// Values of redaction.configmaps and redaction.environment.
const (
	configMapsFingerprint = "fingerprint"
	configMapsScan        = "scan"
	configMapsKeep        = "keep"
	environmentRedact     = "redact"
	environmentScan       = "scan"
)

const minFingerprintKey = 16

func defaultRedaction() RedactionConfig {
	return RedactionConfig{ConfigMaps: configMapsFingerprint, Environment: environmentRedact}
}

// validate returns errors that begin with the key below redaction.
func (c *RedactionConfig) validate() []error {
	var errs []error
	switch c.ConfigMaps {
	case configMapsFingerprint, configMapsScan, configMapsKeep:
	default:
		errs = append(errs, fmt.Errorf("configmaps: %q is not one of fingerprint, scan, keep", c.ConfigMaps))
	}
	switch c.Environment {
	case environmentRedact, environmentScan:
	default:
		errs = append(errs, fmt.Errorf("environment: %q is not one of redact, scan", c.Environment))
	}
	if n := len(c.FingerprintKey); n > 0 && n < minFingerprintKey {
		errs = append(errs, fmt.Errorf("fingerprint_key: has %d characters, fewer than %d; leave it out for a random key", n, minFingerprintKey))
	}
	for i, key := range c.MaskKeys {
		if strings.Trim(key, "*") == "" {
			errs = append(errs, fmt.Errorf("mask_keys[%d]: %q names no key; write the last words of a key (licenseText) or a pattern (*_pin)", i, key))
		}
	}
	for i := range c.Keep {
		for _, err := range c.Keep[i].validate() {
			errs = append(errs, fmt.Errorf("keep[%d].%w", i, err))
		}
	}
	return errs
}

// validate returns errors that begin with the key inside the entry.
func (c *RedactionKeepConfig) validate() []error {
	var errs []error
	if err := checkExactName(c.Resource, "whose values may be kept"); err != nil {
		errs = append(errs, fmt.Errorf("resource: %w", err))
	}
	for _, resource := range resourcesNamed(c.Resource) {
		if resource == (schema.GroupResource{Resource: "secrets"}) {
			errs = append(errs, errors.New("resource: values of Secrets are always masked; name another resource"))
		}
	}
	for _, list := range []struct {
		key      string
		patterns []string
	}{{"namespaces", c.Namespaces}, {"names", c.Names}} {
		for i, pattern := range list.patterns {
			if pattern == "" {
				errs = append(errs, fmt.Errorf("%s[%d]: is empty; write a name, or a pattern with *", list.key, i))
			}
		}
	}
	if len(c.Paths) == 0 {
		errs = append(errs, errors.New("paths: is missing; name the values to keep, as in paths: [data.*]"))
	}
	for i, path := range c.Paths {
		first, _, _ := strings.Cut(path, ".")
		switch err := checkPath(path, "data.*"); {
		case err != nil:
			errs = append(errs, fmt.Errorf("paths[%d]: %w", i, err))
		case first == "*":
			errs = append(errs, fmt.Errorf("paths[%d]: %q would keep whole objects; begin with a key, as in spec.template", i, path))
		}
	}
	return errs
}

// options returns the options of the policy, without a fingerprint key from the storage.
func (c *RedactionConfig) options() redact.Options {
	o := redact.Options{FingerprintKey: []byte(c.FingerprintKey), MaskKeys: c.MaskKeys}
	switch c.ConfigMaps {
	case configMapsScan:
		o.ConfigMaps = redact.ConfigMapScan
	case configMapsKeep:
		o.ConfigMaps = redact.ConfigMapKeep
	}
	if c.Environment == environmentScan {
		o.Environment = redact.EnvironmentScan
	}
	for i := range c.Keep {
		k := &c.Keep[i]
		for _, resource := range resourcesNamed(k.Resource) {
			o.Keep = append(o.Keep, redact.Keep{
				Group: resource.Group, Resource: resource.Resource, Namespaces: k.Namespaces, Names: k.Names, Paths: k.Paths,
			})
		}
	}
	return o
}

// newRedaction makes the policy, and reports whether the fingerprints have a key that ends with the process.
func (r *watchlistReceiver) newRedaction(ctx context.Context, host component.Host) (policy *redact.Policy, isPerProcess bool) {
	o := r.cfg.Redaction.options()
	o.Ignored = r.cfg.Suppress.ignored()
	if len(o.FingerprintKey) == 0 && r.cfg.Storage != nil {
		key, err := r.storedFingerprintKey(ctx, host)
		if err != nil {
			r.set.Logger.Warn("fingerprints of masked values change when the collector restarts: cannot keep their key in the storage", zap.Error(err))
		}
		o.FingerprintKey = key
	}
	for i := range r.cfg.Redaction.Keep {
		k := &r.cfg.Redaction.Keep[i]
		r.set.Logger.Info("values are exempt from redaction", zap.String("resource", k.Resource),
			zap.Strings("namespaces", k.Namespaces), zap.Strings("names", k.Names), zap.Strings("paths", k.Paths))
	}
	return redact.NewPolicy(o), len(o.FingerprintKey) == 0
}

// The client and the key under which the fingerprint key is stored.
const (
	redactionStorage    = "redaction"
	storedKey           = "fingerprint_key"
	fingerprintKeyBytes = 32
)

// storedFingerprintKey returns the key of this installation, and makes it on the first start.
func (r *watchlistReceiver) storedFingerprintKey(ctx context.Context, host component.Host) (key []byte, err error) {
	extension, ok := host.GetExtensions()[*r.cfg.Storage].(storage.Extension)
	if !ok {
		return nil, fmt.Errorf("%s is not a storage extension", r.cfg.Storage)
	}
	client, err := extension.GetClient(ctx, component.KindReceiver, r.set.ID, redactionStorage)
	if err != nil {
		return nil, fmt.Errorf("cannot open storage of the fingerprint key: %w", err)
	}
	defer func() { err = errors.Join(err, client.Close(ctx)) }()
	key, err = client.Get(ctx, storedKey)
	if err != nil {
		return nil, fmt.Errorf("cannot read the fingerprint key: %w", err)
	}
	if len(key) >= minFingerprintKey {
		return key, nil
	}
	key = make([]byte, fingerprintKeyBytes)
	_, _ = rand.Read(key) // never fails
	if err = client.Set(ctx, storedKey, key); err != nil {
		return nil, fmt.Errorf("cannot store the fingerprint key: %w", err)
	}
	return key, nil
}

// redactionObserver counts what is masked in the objects of one resource.
type redactionObserver struct{ *resourceTelemetry }

func (o redactionObserver) Redacted(rule redact.Rule, n int) {
	o.addN(redactions, values{first: rule.String()}, int64(n))
}

func (o redactionObserver) Kept(n int) { o.addN(kept, values{}, int64(n)) }

func (o redactionObserver) Failed() { o.add(redactionFailures, "") }
