package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// SuppressConfig configures which modifications are not emitted because they change nothing. docs/records.md explains what
// that means.
type SuppressConfig struct {
	// Noop leaves out a modification after which an object differs from what was emitted last only in its
	// resourceVersion, in managedFields and in what is ignored. Default: true.
	Noop bool `mapstructure:"noop"`

	// Ignore lists what does not count as a change, besides what never does, such as the times of heartbeats. Default:
	// none.
	Ignore []SuppressIgnoreConfig `mapstructure:"ignore"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// SuppressIgnoreConfig names parts of the objects of one resource that do not count as changes.
type SuppressIgnoreConfig struct {
	// Resource is the name of the resource, as in resources[].name. Required.
	Resource string `mapstructure:"resource"`

	// Paths of the values, and of objects and lists with all that is in them, in the form of redaction.keep[].paths:
	// keys joined by dots, where * is any key or element (status.lastSyncTime, status.conditions.*.lastProbeTime). At
	// least one.
	Paths []string `mapstructure:"paths"`

	// prevent unkeyed literal initialization
	_ struct{}
}

func defaultSuppress() SuppressConfig { return SuppressConfig{Noop: true} }

// validate returns errors that begin with the key below suppress.
func (c *SuppressConfig) validate() []error {
	var errs []error
	if !c.Noop && len(c.Ignore) > 0 {
		errs = append(errs, errors.New("ignore: is of no use with noop: false; leave one of them out"))
	}
	for i := range c.Ignore {
		for _, err := range c.Ignore[i].validate() {
			errs = append(errs, fmt.Errorf("ignore[%d].%w", i, err))
		}
	}
	return errs
}

// validate returns errors that begin with the key inside the entry.
func (c *SuppressIgnoreConfig) validate() []error {
	var errs []error
	if err := checkExactName(c.Resource, "whose parts are ignored"); err != nil {
		errs = append(errs, fmt.Errorf("resource: %w", err))
	}
	if len(c.Paths) == 0 {
		errs = append(errs, errors.New("paths: is missing; name what to ignore, as in paths: [status.lastSyncTime]"))
	}
	for i, path := range c.Paths {
		switch err := checkPath(path, "status.lastSyncTime"); {
		case err != nil:
			errs = append(errs, fmt.Errorf("paths[%d]: %w", i, err))
		case strings.ContainsAny(path, "[]"):
			errs = append(errs, fmt.Errorf("paths[%d]: %q has brackets; write the name of an element, or *, between dots, as in status.conditions.*.lastProbeTime", i, path))
		case strings.HasPrefix(path, "/"):
			errs = append(errs, fmt.Errorf("paths[%d]: %q begins with a slash; write keys joined by dots, as in status.lastSyncTime", i, path))
		case strings.HasPrefix(path, "*"):
			errs = append(errs, fmt.Errorf("paths[%d]: %q would ignore parts of everything; begin with a key, as in status.lastSyncTime", i, path))
		}
	}
	return errs
}

// checkPath returns what is wrong with the form of a path.
func checkPath(path, example string) error {
	if path == "" || strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") || strings.Contains(path, "..") {
		return fmt.Errorf("%q has an empty part; write keys joined by dots, as in %s", path, example)
	}
	return nil
}

// ignored returns the parts of objects whose changes do not count.
func (c *SuppressConfig) ignored() []redact.Ignored {
	if !c.Noop {
		return nil
	}
	ignored := append([]redact.Ignored(nil), redact.UsuallyIgnored...)
	for i := range c.Ignore {
		for _, resource := range resourcesNamed(c.Ignore[i].Resource) {
			ignored = append(ignored, redact.Ignored{Group: resource.Group, Resource: resource.Resource, Paths: c.Ignore[i].Paths})
		}
	}
	return ignored
}

// resourcesNamed returns the resources that a name selects: one, or several of a preset.
func resourcesNamed(name string) []schema.GroupResource {
	if checkName(name) != nil || glob.Has(name) {
		return nil
	}
	var all []schema.GroupResource
	named := ResourceConfig{Name: name}
	for _, spec := range named.specs(0) {
		all = append(all, spec.GroupResource)
	}
	return all
}
