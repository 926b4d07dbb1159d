package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/confmap"
)

// Unmarshal implements confmap.Unmarshaler, so that an unknown key is reported together with the existing keys.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := expandEntities(conf); err != nil {
		return err
	}
	errs := unknownKeys(reflect.TypeFor[Config](), conf.ToStringMap(), "")
	errs = append(errs, conf.Unmarshal(c, confmap.WithIgnoreUnused()))
	return errors.Join(errs...)
}

// foreignKeys are keys of the Collector's other Kubernetes receivers, for themselves or for one of their resources.
var foreignKeys = map[string]string{
	"objects":        "write resources",
	"dedup_interval": "write events.dedup_interval",
	"group":          "write the API group into name, as in deployments.apps",
	"mode":           "leave it out, every resource is watched",
	"namespace":      "write namespaces",
	// A key of resources only.
	"exclude_namespaces": "write it in the entries of resources",

	"exclude_watch_type":    "write exclude_types",
	"interval":              "write relist.interval, and relist.emit: snapshot to have every object each time",
	"initial_delay":         "leave it out",
	"resource_version":      "leave it out; with storage the receiver continues where it stopped",
	"include_initial_state": "write initial_state: emit or skip",
	"error_mode":            "leave it out, a resource that is not served never stops the Collector",
	"cache_sync_timeout":    "leave it out",
}

// unknownKeys compares the configured keys with those of a struct. prefix is the path to it.
func unknownKeys(t reflect.Type, configured map[string]any, prefix string) []error {
	fields := map[string]reflect.Type{}
	var known []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("mapstructure"); key != "" {
			fields[key] = t.Field(i).Type
			known = append(known, key)
		}
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(configured)) {
		field, ok := fields[key]
		if !ok {
			hint, foreign := foreignKeys[key]
			// The other receivers have only the levels that became the receiver's and the resource's.
			foreign = foreign && (prefix == "" || strings.HasPrefix(prefix, "resources["))
			switch {
			case !foreign:
				hint = "the keys are " + strings.Join(known, ", ")
			}
			errs = append(errs, fmt.Errorf("%s%s: is an unknown key; %s", prefix, key, hint))
			continue
		}
		errs = append(errs, unknownKeysBelow(field, configured[key], prefix+key)...)
	}
	return errs
}

func unknownKeysBelow(field reflect.Type, value any, path string) []error {
	switch value := value.(type) {
	case map[string]any:
		if field.Kind() == reflect.Struct {
			return unknownKeys(field, value, path+".")
		}
	case []any:
		if field.Kind() == reflect.Slice {
			var errs []error
			for i, element := range value {
				errs = append(errs, unknownKeysBelow(field.Elem(), element, fmt.Sprintf("%s[%d]", path, i))...)
			}
			return errs
		}
	}
	return nil // a wrong type, which has its own message
}
