package otelcol

import (
	"fmt"

	"go.opentelemetry.io/collector/confmap"
)

// LoadConfig reads YAML, in the form below a component's name, into the component's configuration, and validates it.
func LoadConfig(yaml string, into any) error {
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(yaml))
	if err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	conf, err := retrieved.AsConf()
	if err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	if err := conf.Unmarshal(into); err != nil {
		return fmt.Errorf("cannot read the configuration: %w", err)
	}
	if err := confmap.Validate(into); err != nil {
		return fmt.Errorf("invalid configuration: %w", err)
	}
	return nil
}
