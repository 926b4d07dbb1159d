// Package collector reads the k8s_watchlist receivers of a Collector configuration.
package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.uber.org/zap"

	k8swatchlistreceiver "github.com/k8swatchlist/k8swatchlistreceiver"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
)

// Receiver is a k8s_watchlist receiver of a configuration.
type Receiver struct {
	ID     component.ID
	Config *k8swatchlistreceiver.Config
}

// Load reads the receivers that the pipelines of a configuration use, or every one if it has no service. Locations are
// those of the Collector's --config: paths, or URIs such as env:NAME and yaml:TEXT, of which later ones override earlier
// ones; "-" is in. Only the receivers that ids name are returned, or all without ids. The logger receives the names of
// unset variables.
func Load(ctx context.Context, locations []string, in io.Reader, ids []string, logger *zap.Logger) ([]Receiver, error) {
	conf, err := resolve(ctx, locations, in, logger)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	all, err := conf.Sub("receivers")
	if err != nil {
		return nil, errors.New("cannot read the configuration: receivers is not a map")
	}
	used := usedReceivers(conf)
	var receivers []Receiver
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all.ToStringMap())) {
		var id component.ID
		if id.UnmarshalText([]byte(name)) != nil || id.Type() != metadata.Type {
			continue
		}
		switch {
		case len(ids) > 0 && !slices.Contains(ids, name):
			continue
		case len(ids) == 0 && used != nil && !used[name]:
			logger.Warn("no pipeline uses the receiver, leaving it out", zap.String("receiver", name))
			continue
		}
		config, err := load(all, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("receivers::%s: %w", name, err))
			continue
		}
		receivers = append(receivers, Receiver{ID: id, Config: config})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for _, id := range ids {
		if !slices.ContainsFunc(receivers, func(r Receiver) bool { return r.ID.String() == id }) {
			return nil, fmt.Errorf("the configuration has no %s receiver %q", metadata.Type, id)
		}
	}
	if len(receivers) == 0 {
		return nil, fmt.Errorf("the configuration has no %s receiver", metadata.Type)
	}
	return receivers, nil
}

func resolve(ctx context.Context, locations []string, in io.Reader, logger *zap.Logger) (*confmap.Conf, error) {
	locations = slices.Clone(locations)
	for i, location := range locations {
		if location != "-" {
			continue
		}
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		locations[i] = "yaml:" + string(text)
	}
	resolver, err := confmap.NewResolver(confmap.ResolverSettings{
		URIs:              locations,
		ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory(), envprovider.NewFactory(), yamlprovider.NewFactory()},
		ProviderSettings:  confmap.ProviderSettings{Logger: logger},
		DefaultScheme:     "env",
	})
	if err != nil {
		return nil, err
	}
	conf, err := resolver.Resolve(ctx)
	return conf, errors.Join(err, resolver.Shutdown(ctx))
}

// usedReceivers returns the receivers that pipelines name, or nil if the configuration has no pipelines.
func usedReceivers(conf *confmap.Conf) map[string]bool {
	pipelines, ok := conf.Get("service::pipelines").(map[string]any)
	if !ok {
		return nil
	}
	used := make(map[string]bool)
	for _, pipeline := range pipelines {
		of, _ := pipeline.(map[string]any)
		names, _ := of["receivers"].([]any)
		for _, name := range names {
			if name, ok := name.(string); ok {
				used[strings.TrimSpace(name)] = true
			}
		}
	}
	return used
}

func load(receivers *confmap.Conf, name string) (*k8swatchlistreceiver.Config, error) {
	conf, err := receivers.Sub(name)
	if err != nil {
		return nil, err
	}
	config := k8swatchlistreceiver.NewFactory().CreateDefaultConfig().(*k8swatchlistreceiver.Config)
	if err := conf.Unmarshal(config); err != nil {
		return nil, err
	}
	return config, confmap.Validate(config)
}
