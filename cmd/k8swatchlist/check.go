package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/k8swatchlist/k8swatchlistreceiver/cmd/k8swatchlist/internal/collector"
	"github.com/k8swatchlist/k8swatchlistreceiver/cmd/k8swatchlist/internal/preflight"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
)

type checkOptions struct {
	streams
	config  configFlags
	access  accessFlags
	timeout time.Duration
	output  string
}

func newCheck(name string, s streams) *cobra.Command {
	o := &checkOptions{streams: s}
	c := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Show what a Collector configuration would read, and what is missing",
		Long: `Show what the k8s_watchlist receivers of a Collector configuration would read from the cluster: the resources, the
objects in them, over how many streams, and about what that costs. Missing rights are printed as rules to add, also those to
the Leases of replicas.

The configuration is loaded by the receiver's own code, so what is accepted here is accepted by the Collector. Which
resources are meant, and which a pattern selects, is found out by the receiver's own code too.

` + accessHelp + `

Nothing is watched, and no object is printed. To count objects the first ten of each resource are listed, where that is
allowed; of Secrets only the metadata. Estimates are computed from the figures in docs/performance-figures.md.

` + exitCodes,
		Example: examples(name, `
  # With the rights of the Collector's service account
  $ check --config collector.yaml --as system:serviceaccount:observability:otelcol

  # With your own rights, in another cluster
  $ check --config collector.yaml --context staging

  # For scripts: what cannot be read
  $ check --config collector.yaml -o json | jq '.[].resources[] | select(.state != "readable")'`),
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	flags := c.Flags()
	o.config.add(flags)
	o.access.add(flags)
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long the check of a receiver may take")
	flags.StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	return c
}

func (o *checkOptions) run(ctx context.Context) error {
	switch {
	case !slices.Contains([]string{"table", "json", "yaml"}, o.output):
		return fmt.Errorf("--output: %q is not one of table, json, yaml", o.output)
	case o.timeout <= 0:
		return fmt.Errorf("--timeout: %s is not a time; write one such as 2m", o.timeout)
	}
	receivers, err := o.config.load(ctx, o.streams)
	if err != nil {
		return err
	}
	var reports []*preflight.Report
	for _, receiver := range receivers {
		report, err := o.check(ctx, receiver)
		if err != nil {
			return err
		}
		reports = append(reports, report)
	}
	if err := o.print(reports); err != nil {
		return err
	}
	if slices.ContainsFunc(reports, func(r *preflight.Report) bool { return !r.OK() }) {
		return errFindings
	}
	return nil
}

func (o *checkOptions) check(ctx context.Context, receiver collector.Receiver) (*preflight.Report, error) {
	config, err := o.access.restConfig(receiver, o.streams)
	if err != nil {
		return nil, err
	}
	cluster, err := preflight.Connect(config)
	if err != nil {
		return nil, unreachable(err)
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("it took longer than %s (--timeout)", o.timeout))
	defer cancel()
	report, err := preflight.Check(ctx, preflight.Receiver{ID: receiver.ID, Config: receiver.Config}, config.Host, cluster)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, unreachable(fmt.Errorf("%s: cannot ask %s: %w", receiver.ID, config.Host, err))
	}
	return report, nil
}

// accessFlags choose the cluster and the credentials for the work of a receiver.
type accessFlags struct {
	clusterFlags
	as string
}

const accessHelp = `Cluster and credentials are those of the configuration. With auth_type serviceAccount, outside the pod, or with
--kubeconfig, --context or --as, they are those of a kubeconfig.`

func (f *accessFlags) add(flags *pflag.FlagSet) {
	f.clusterFlags.add(flags)
	flags.StringVar(&f.as, "as", "", "user to ask as, such as system:serviceaccount:NAMESPACE:NAME, which needs the right to impersonate it")
}

func (f *accessFlags) flagsAreSet() bool { return f.kubeconfig+f.context+f.as != "" }

// inPod reports whether the credentials of a pod are there.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// options returns how to reach the API server for a receiver.
func (f *accessFlags) options(receiver collector.Receiver, s streams) kubeclient.Options {
	o := receiver.Config.ClientOptions("")
	switch {
	case f.flagsAreSet():
	case receiver.Config.AuthType == kubeclient.AuthServiceAccount && !inPod():
		fmt.Fprintf(s.err, "warning: %s: auth_type is serviceAccount, and this is no pod; using the kubeconfig\n", receiver.ID)
	default:
		return o
	}
	chosen := f.clusterFlags.options()
	chosen.Compression = o.Compression
	return chosen
}

func (f *accessFlags) restConfig(receiver collector.Receiver, s streams) (*rest.Config, error) {
	o := f.options(receiver, s)
	o.QPS, o.Burst, o.UserAgent = 50, 100, "k8swatchlist"
	config, err := kubeclient.RESTConfig(o)
	if err != nil {
		return nil, unreachable(fmt.Errorf("%s: %w", receiver.ID, err))
	}
	config.Impersonate.UserName = f.as
	return config, nil
}

func (o *checkOptions) print(reports []*preflight.Report) error {
	var text []byte
	var err error
	switch o.output {
	case "json":
		text, err = json.MarshalIndent(reports, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(reports)
	default:
		var b strings.Builder
		for i, r := range reports {
			if i > 0 {
				b.WriteByte('\n')
			}
			writeReport(&b, r)
		}
		text = []byte(b.String())
	}
	if err != nil {
		return fmt.Errorf("cannot print the result: %w", err)
	}
	_, err = o.out.Write(text)
	return err
}

func writeReport(b *strings.Builder, r *preflight.Report) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	streaming := "the initial state is streamed"
	if !r.StreamsInitialState {
		streaming = "the initial state is listed"
	}
	fmt.Fprintf(w, "Receiver\t%s: the configuration is valid\n", r.Receiver)
	fmt.Fprintf(w, "Cluster\t%s, version %s, UID %s; %s\n", servertext.Clean(r.Server), cmp.Or(servertext.Clean(r.Version), "unknown"), cmp.Or(servertext.Clean(r.UID), "unknown"), streaming)
	fmt.Fprintf(w, "User\t%s\n", cmp.Or(servertext.Clean(r.User), "unknown"))
	if r.Shard != "" {
		fmt.Fprintf(w, "Shard\t%s; objects and costs below are those of all shards\n", r.Shard)
	}
	w.Flush() //nolint:errcheck // a strings.Builder never fails
	b.WriteByte('\n')

	w = tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RESOURCE\tMATCHED BY\tSCOPE\tOBJECTS\tSTREAMS\tRIGHTS\tNOTE")
	for _, resource := range r.Resources {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", resource.Resource, resource.MatchedBy, resource.Scope,
			objects(resource), orDash(resource.Streams), rights(resource), strings.Join(resource.Notes, "; "))
	}
	w.Flush() //nolint:errcheck // a strings.Builder never fails
	for line := range strings.Lines(trimLines(b)) {
		b.WriteString(line)
	}
	e := r.Estimate
	fmt.Fprintf(b, "\n%s, %s on %s, %s\n", counted(len(r.Resources), "resource"), counted(e.Streams, "stream"), counted(e.Connections, "connection"), cost(e))
	if e.DiffBytes > 0 {
		fmt.Fprintf(b, "Diffs at most %s\n", size(e.DiffBytes))
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(b, "! %s\n", warning)
	}
	writeRules(b, "✗ Rights are missing. Add", r.Missing)
	writeRules(b, "! Rights are missing that only help. Add", r.Optional)
}

// cost describes how much there is to read.
func cost(e preflight.Estimate) string {
	least := "about"
	switch {
	case !e.Complete && e.Objects == 0:
		return "which cannot be counted"
	case !e.Complete:
		least = "at least"
	}
	text := fmt.Sprintf("%s %s\nInventory %s %s; initial state %s %s of JSON, ",
		least, counted64(e.Objects, "object"), least, size(e.InventoryBytes), least, size(e.InitialBytes))
	if e.ServerCPU < 1 {
		return text + "less than a second of CPU time"
	}
	return text + fmt.Sprintf("%s %.0f CPU seconds here and %.0f in kube-apiserver", least, e.CollectorCPU, e.ServerCPU)
}

func counted64(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return preflight.Thousands(n) + " " + noun + "s"
}

// trimLines takes the text out of b, and returns it without the spaces at the ends of its lines.
func trimLines(b *strings.Builder) string {
	var lines []string
	for line := range strings.SplitSeq(b.String(), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	b.Reset()
	return strings.Join(lines, "\n")
}

func writeRules(b *strings.Builder, head string, rules map[string]string) {
	for _, namespace := range slices.Sorted(maps.Keys(rules)) {
		role := "the ClusterRole"
		if namespace != "" {
			role = "a Role in the namespace " + namespace
		}
		fmt.Fprintf(b, "\n%s to %s:\n\n%s", head, role, rules[namespace])
	}
}

func objects(r preflight.Resource) string {
	switch {
	case r.Streams == 0:
		return "-"
	case r.Objects == nil:
		return "?"
	case r.More:
		return preflight.Thousands(*r.Objects) + "+"
	}
	return preflight.Thousands(*r.Objects)
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func rights(r preflight.Resource) string {
	words := slices.Clone(r.Rights)
	for _, verb := range r.Lacks {
		words = append(words, "✗ "+verb)
	}
	if words == nil {
		return "-"
	}
	return strings.Join(words, " ")
}

// size returns a number of bytes for people.
func size(bytes int64) string {
	for _, unit := range []struct {
		name  string
		bytes float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		switch n := float64(bytes) / unit.bytes; {
		case n >= 9.95:
			return fmt.Sprintf("%.0f %s", n, unit.name)
		case n >= 1:
			return fmt.Sprintf("%.1f %s", n, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}
