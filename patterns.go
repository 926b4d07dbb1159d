package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
)

// checkPattern returns what is wrong with a pattern of plural and API group.
func checkPattern(pattern string) error {
	plural, group, hasGroup := strings.Cut(pattern, ".")
	const right = "write patterns of the plural name and the API group, as in *.cert-manager.io"
	switch {
	case strings.Contains(pattern, "/"):
		return fmt.Errorf("%q has a slash; %s", pattern, right)
	case pattern != strings.ToLower(pattern):
		return fmt.Errorf("%q has capital letters, which no resource has; %s", pattern, right)
	case plural == "" || hasGroup && group == "":
		return fmt.Errorf("%q has an empty part; %s", pattern, right)
	case !onlyNameCharacters(pattern):
		return fmt.Errorf("%q has characters that no resource has; %s", pattern, right)
	case hasGroup && !glob.Has(group):
		return checkGroup(plural, group)
	}
	return nil
}

// checkExactName is checkName where a pattern is not possible. The message asks to name each resource that whose describes.
func checkExactName(name, whose string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if glob.Has(name) {
		return fmt.Errorf("%q is a pattern; name each resource %s", name, whose)
	}
	return nil
}

// onlyNameCharacters reports whether a pattern can match the name of a resource.
func onlyNameCharacters(pattern string) bool {
	return !strings.ContainsFunc(pattern, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-.*", r)
	})
}

// validatePattern finds options that only patterns have, or that they cannot have.
func (r *ResourceConfig) validatePattern() []error {
	var errs []error
	if !glob.Has(r.Name) {
		if len(r.Exclude) > 0 {
			errs = append(errs, errors.New("exclude: is used only with a pattern; leave it out"))
		}
		if r.IncludeAggregated {
			errs = append(errs, errors.New("include_aggregated: is used only with a pattern; a resource that is named is read whatever serves it"))
		}
		return errs
	}
	for i, name := range r.Exclude {
		if err := checkName(name); err != nil {
			errs = append(errs, fmt.Errorf("exclude[%d]: %w", i, err))
		}
	}
	if r.Version != "" {
		errs = append(errs, errors.New("version: a pattern selects each resource in the version that the server prefers; name the resource in an entry of its own to pin a version"))
	}
	selector, err := fields.ParseSelector(r.FieldSelector)
	if err != nil {
		return errs // has its own message
	}
	for _, requirement := range selector.Requirements() {
		if requirement.Field != "metadata.name" {
			errs = append(errs, fmt.Errorf("field_selector: %s is not a field of every resource, so a pattern cannot select by it; only metadata.name is", requirement.Field))
		}
	}
	return errs
}
