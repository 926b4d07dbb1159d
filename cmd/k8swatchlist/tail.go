package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/receiver"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/term"

	k8swatchlistreceiver "github.com/k8swatchlist/k8swatchlistreceiver"
	"github.com/k8swatchlist/k8swatchlistreceiver/cmd/k8swatchlist/internal/collector"
	"github.com/k8swatchlist/k8swatchlistreceiver/cmd/k8swatchlist/internal/tail"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/metadata"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
)

type tailOptions struct {
	streams
	config        configFlags
	access        accessFlags
	filter        tail.Filter
	labelSelector string
	fieldSelector string
	duration      time.Duration
	output        string
	color         string
}

func newTail(name string, s streams) *cobra.Command {
	o := &tailOptions{streams: s}
	c := &cobra.Command{
		Use:   "tail [RESOURCE...]",
		Short: "Print changes as they happen, as the receiver would emit them",
		Long: `Print changes as they happen, as the receiver would emit them.

The changes are read, redacted and made into records by the receiver itself, in this process. With --config it is
configured as in the Collector, except that it stores no checkpoints and always has its own format; resources then select
from what it reads. Without, it reads the resources that are named: plurals with their API group (deployments.apps), presets
or patterns ("*.cert-manager.io").

  14:02:07.412  +  pods   shop/web-1   (kube-controller-manager)

A line has the time at which the change was read, what happened (+ added, ~ modified, - deleted, = existed at the start,
! a gap, in which changes may have been missed), the resource, the object, and what changed. With -o json each line is one
record of OTLP/JSON.

The objects that exist at the start are read, too, but only printed with --initial. Gaps are printed whatever the filters for
names, types and managers. If nobody reads the output for five seconds, records are left out and counted; the command
itself never falls behind the cluster because of that.

` + tailAccessHelp + `

It ends with Ctrl-C, or after --duration, with exit code 0.

` + exitCodes,
		Example: examples(name, `
  # Pods and Deployments in a namespace
  $ tail pods deployments.apps -n shop

  # Who changes the configuration of what, but not the controllers
  $ tail "*" --types modified --manager "kubectl*"

  # What the Collector would emit in the next minute, as OTLP/JSON
  $ tail --config collector.yaml --duration 1m -o json > changes.json`),
		RunE: func(c *cobra.Command, resources []string) error { return o.run(c.Context(), resources) },
	}
	flags := c.Flags()
	o.config.add(flags)
	o.access.clusterFlags.add(flags)
	flags.StringSliceVarP(&o.filter.Namespaces, "namespace", "n", nil, "namespace; may be repeated; by default all. With --config a pattern (shop-*)")
	flags.StringVarP(&o.labelSelector, "selector", "l", "", "label selector, as in kubectl; not with --config")
	flags.StringVar(&o.fieldSelector, "field-selector", "", "field selector, as in kubectl; not with --config")
	flags.StringSliceVar(&o.filter.Names, "name", nil, "pattern of the names of objects (web-*); may be repeated")
	flags.StringSliceVar(&o.filter.Types, "types", nil, "types of changes: added, modified, deleted, snapshot; by default all")
	flags.StringSliceVar(&o.filter.Managers, "manager", nil, "pattern of the field manager that made the change (kubectl*); may be repeated")
	flags.BoolVar(&o.filter.Initial, "initial", false, "print the objects that exist at the start, too")
	flags.DurationVar(&o.duration, "duration", 0, "how long to watch (1m); by default until Ctrl-C")
	flags.StringVarP(&o.output, "output", "o", "line", "line or json (OTLP/JSON, one record a line)")
	flags.StringVar(&o.color, "color", "auto", "auto (on a terminal, unless NO_COLOR is set), always or never")
	return c
}

const tailAccessHelp = `Cluster and credentials are those of the configuration. Without one, with auth_type serviceAccount outside the pod, or with
--kubeconfig or --context, they are those of a kubeconfig.`

// shutdownTime is how long the end may take: nothing more has to be delivered.
const shutdownTime = 5 * time.Second

func (o *tailOptions) run(ctx context.Context, resources []string) error {
	if err := o.check(resources); err != nil {
		return err
	}
	config, err := o.receiverConfig(ctx, resources)
	if err != nil {
		return err
	}
	if err := o.checkServed(ctx, config); err != nil {
		return err
	}
	o.filter.Others = o.output == "json"
	printer := tail.New(tail.Options{
		Filter: o.filter, Out: o.out, JSON: o.output == "json", Color: o.colored(),
		Note: func(text string) { fmt.Fprintln(o.err, text) },
	})
	return o.watch(ctx, config, printer)
}

func (o *tailOptions) watch(ctx context.Context, config *k8swatchlistreceiver.Config, printer *tail.Printer) error {
	set := receiver.Settings{
		ID: component.NewID(metadata.Type),
		TelemetrySettings: component.TelemetrySettings{
			Logger: warnings(o.err), MeterProvider: metricnoop.NewMeterProvider(), TracerProvider: tracenoop.NewTracerProvider(), Resource: pcommon.NewResource(),
		},
		BuildInfo: component.BuildInfo{Command: "k8swatchlist"},
	}
	running, err := k8swatchlistreceiver.NewFactory().CreateLogs(ctx, set, config, printer)
	if err != nil {
		return err
	}
	if err := running.Start(ctx, host{}); err != nil {
		return errors.Join(unreachable(err), running.Shutdown(context.WithoutCancel(ctx)))
	}
	began := time.Now()
	var over <-chan time.Time
	if o.duration > 0 {
		timer := time.NewTimer(o.duration)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-over:
	case <-printer.Failed():
	}
	took := time.Since(began)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	stopErr := running.Shutdown(ending)
	shown, dropped, err := printer.Close(time.Second)
	fmt.Fprintf(o.err, "%s in %s\n", counted(int(shown), "record"), took.Round(100*time.Millisecond))
	if dropped > 0 {
		fmt.Fprintf(o.err, "warning: %s left out, because the output was too slow\n", counted(int(dropped), "record"))
	}
	return errors.Join(err, stopErr)
}

// host is a Collector without extensions.
type host struct{}

func (host) GetExtensions() map[component.ID]component.Component { return nil }

func (o *tailOptions) check(resources []string) error {
	if len(o.config.locations) == 0 && len(resources) == 0 {
		return errors.New("name the resources to watch (tail pods deployments.apps), or a configuration with --config")
	}
	if len(o.config.locations) > 0 && o.labelSelector+o.fieldSelector != "" {
		return errors.New("--selector and --field-selector are part of the configuration; leave them out, or --config")
	}
	for i, name := range o.filter.Types {
		o.filter.Types[i] = strings.ToUpper(name)
		if !slices.Contains([]string{"SNAPSHOT", "ADDED", "MODIFIED", "DELETED"}, o.filter.Types[i]) {
			return fmt.Errorf("--types: %q is not one of added, modified, deleted, snapshot", name)
		}
	}
	switch {
	case slices.Contains(o.filter.Types, "SNAPSHOT") && !o.filter.Initial:
		return errors.New("--types: snapshots are the objects at the start, which are printed only with --initial")
	case !slices.Contains([]string{"line", "json"}, o.output):
		return fmt.Errorf("--output: %q is not one of line, json", o.output)
	case !slices.Contains([]string{"auto", "always", "never"}, o.color):
		return fmt.Errorf("--color: %q is not one of auto, always, never", o.color)
	case o.duration < 0:
		return fmt.Errorf("--duration: %s is negative", o.duration)
	}
	return nil
}

// receiverConfig returns the configuration of the receiver that runs here.
func (o *tailOptions) receiverConfig(ctx context.Context, resources []string) (*k8swatchlistreceiver.Config, error) {
	of := collector.Receiver{ID: component.NewID(metadata.Type)}
	if len(o.config.locations) > 0 {
		all, err := o.config.load(ctx, o.streams)
		if err != nil {
			return nil, err
		}
		if len(all) > 1 {
			return nil, fmt.Errorf("the configuration has %d receivers; choose one with --receiver, such as %s", len(all), all[0].ID)
		}
		of = all[0]
		o.filter.Resources = resources
	} else {
		of.Config = k8swatchlistreceiver.NewFactory().CreateDefaultConfig().(*k8swatchlistreceiver.Config)
		of.Config.AuthType = kubeclient.AuthKubeConfig
		of.Config.Kubeconfig, of.Config.Context = o.access.kubeconfig, o.access.context
		for _, name := range resources {
			of.Config.Resources = append(of.Config.Resources, k8swatchlistreceiver.ResourceConfig{
				Name: name, Namespaces: o.filter.Namespaces, LabelSelector: o.labelSelector, FieldSelector: o.fieldSelector,
			})
		}
		o.filter.Namespaces = nil // the receiver reads no others
	}
	config := of.Config
	access := o.access.options(of, o.streams)
	config.AuthType, config.Kubeconfig, config.Context = access.AuthType, access.Kubeconfig, access.Context
	config.UserAgent = "k8swatchlist"
	config.Storage = nil
	config.InitialState = "emit" // which shows when a resource is watched; what is printed is for the filter
	config.Format, config.StreamRecords = "watchlist", false
	for i := range config.Resources {
		config.Resources[i].Format = ""
	}
	if o.output == "line" {
		config.Body, config.ObjectAttribute, config.Entities.Enabled = "summary", "none", false
		for i := range config.Resources {
			r := &config.Resources[i]
			r.Diff = !scope.IsEvents(catalog.Expand(i, r.Name, catalog.Spec{})[0].GroupResource) // those have no diffs
		}
	}
	return config, confmap.Validate(config)
}

// checkServed finds at once what the receiver would wait for: a server that does not answer, and a resource that is not
// served.
func (o *tailOptions) checkServed(ctx context.Context, config *k8swatchlistreceiver.Config) error {
	client, err := kubeclient.Connect(config.ClientOptions(""))
	if err != nil {
		return unreachable(err)
	}
	defer client.Close()
	_, failures, err := catalog.Resolve(ctx, config.Specs(), client)
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted
		}
		return unreachable(err)
	}
	var errs []error
	for _, failure := range failures {
		if len(o.config.locations) > 0 {
			fmt.Fprintln(o.err, "warning:", servertext.Clean(failure.Error()))
			continue
		}
		errs = append(errs, errors.New(servertext.Clean(failure.Error())))
	}
	return errors.Join(errs...)
}

// colored reports whether lines are coloured. https://no-color.org
func (o *tailOptions) colored() bool {
	switch {
	case o.output == "json" || o.color == "never":
		return false
	case o.color == "always":
		return true
	}
	return os.Getenv("NO_COLOR") == "" && isTerminal(o.out)
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
