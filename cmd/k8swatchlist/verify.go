package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/yaml"

	"github.com/k8swatchlist/k8swatchlistreceiver/cmd/k8swatchlist/internal/collector"
	"github.com/k8swatchlist/k8swatchlistreceiver/cmd/k8swatchlist/internal/verify"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
)

type verifyOptions struct {
	streams
	config    configFlags
	cluster   clusterFlags
	resources []string
	wait      time.Duration
	output    string
	all       bool
}

func newVerify(name string, s streams) *cobra.Command {
	o := &verifyOptions{streams: s}
	c := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Compare emitted records with the live cluster",
		Long: `Compare emitted records with the live cluster.

The records are read from files of OTLP/JSON, as the Collector's file exporter writes them, and folded: the last record of
each object says whether and in which version it exists. The metadata of the objects are then listed from the cluster. With
rotated files, name all of them, oldest first, and with shards those of every shard, in any order. The last one may still
be written: a difference counts only if it lasts for the time of --wait.

Findings:
  missing     an object exists, but it has no record, or its last one is DELETED
  stale       an object exists in a later version, with another content, than that of its last record
  extra       an object does not exist, but its last record is not DELETED
  duplicate   the same change of an object (UID, version, type) is in two records, other than in two sets of snapshots
  disorder    an older version came after a newer one
  altered     a record contradicts itself or the cluster: its id, identity or version
  incomplete  a set of snapshots has fewer or more records than its end states
  unreadable  a line is not OTLP/JSON

Changes that change nothing, such as heartbeats, are not emitted. Objects that are at a later version than that of their last
record are therefore read, and compared by content with the one in that record. --config names the configuration of the
Collector, which is needed if it has suppress.ignore, drop_fields or keep_fields. Masked values cannot be compared.

Gaps are listed too. They are not findings, since the receiver itself states that it could not observe every change. A
record whose absence nothing shows cannot be found: one of a change before the last change of its object.

` + exitCodes,
		Example: examples(name, `
  # What the file exporter has written, with the cluster of the current context
  $ verify /var/log/k8s-changes.json

  # Rotated files, oldest first, and one resource only
  $ verify changes-2026-01-01.json changes.json --resource deployments.apps

  # For scripts
  $ verify changes.json -o json | jq '.findings[]'`),
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, paths []string) error { return o.run(c.Context(), paths) },
	}
	flags := c.Flags()
	o.config.add(flags)
	o.cluster.add(flags)
	flags.StringSliceVar(&o.resources, "resource", nil, "resource to compare (deployments.apps); by default all in the records; may be repeated")
	flags.DurationVar(&o.wait, "wait", 10*time.Second, "how long a difference must last to count, because records arrive later than changes")
	flags.StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	flags.BoolVar(&o.all, "all", false, "print every finding instead of the first 20 of each resource")
	return c
}

func (o *verifyOptions) run(ctx context.Context, paths []string) error {
	switch {
	case !slices.Contains([]string{"table", "json", "yaml"}, o.output):
		return fmt.Errorf("--output: %q is not one of table, json, yaml", o.output)
	case o.wait < 0:
		return fmt.Errorf("--wait: %s is negative", o.wait)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("cannot read the records: %w", err)
		}
	}
	receivers, err := o.receivers(ctx)
	if err != nil {
		return err
	}
	live, err := o.connect(ctx)
	if err != nil {
		return unreachable(err)
	}
	defer live.client.Close()
	fold := verify.NewFold(live.uid)
	files := verify.NewFiles(paths)
	if err := files.ReadInto(fold); err != nil {
		return err
	}
	if err := o.checkCluster(fold, live.uid); err != nil {
		return err
	}
	result, err := (&verify.Comparison{
		Fold: fold,
		List: live.list,
		Read: func() error { return files.ReadInto(fold) },
		Same: func(ctx context.Context, resource string, older []verify.Object) (map[string]verify.Sameness, error) {
			return live.compareContents(ctx, files, receivers, resource, older)
		},
		Wait:      o.wait,
		Resources: o.resources,
	}).Run(ctx)
	if err != nil {
		return err
	}
	if err := o.print(result); err != nil {
		return err
	}
	if len(result.Findings) > 0 {
		return errFindings
	}
	return nil
}

// receivers returns the receivers of the configuration, if there is one.
func (o *verifyOptions) receivers(ctx context.Context) ([]collector.Receiver, error) {
	if len(o.config.locations) == 0 {
		return nil, nil
	}
	return o.config.load(ctx, o.streams)
}

// contents compares the objects of a resource as each of the receivers' entries for it emits them.
type contents struct {
	resource  schema.GroupResource
	receivers []collector.Receiver
	ignored   []redact.Ignored
	made      map[string]*verify.Contents // by what is emitted of an object
}

func newContents(resource schema.GroupResource, receivers []collector.Receiver) *contents {
	c := &contents{resource: resource, receivers: receivers, ignored: slices.Clone(redact.UsuallyIgnored), made: make(map[string]*verify.Contents)}
	for _, r := range receivers {
		for i, entry := range r.Config.Suppress.Ignore {
			for _, spec := range catalog.Expand(i, entry.Resource, catalog.Spec{}) {
				c.ignored = append(c.ignored, redact.Ignored{Group: spec.Group, Resource: spec.Resource, Paths: entry.Paths})
			}
		}
	}
	return c
}

// compare returns the best result, since the record does not name its entry.
func (c *contents) compare(live []byte, body verify.Body, namespace string) (verify.Sameness, error) {
	var fields []redact.Fields
	for _, r := range c.receivers {
		fields = append(fields, r.Config.FieldsOf(c.resource, namespace)...)
	}
	if fields == nil {
		fields = []redact.Fields{{}}
	}
	best := verify.Different
	for _, f := range fields {
		key := fmt.Sprintf("%q", f)
		if c.made[key] == nil {
			c.made[key] = verify.NewContents(c.resource, f, c.ignored)
		}
		same, err := c.made[key].Compare(live, body)
		if err != nil {
			return best, err
		}
		if best == verify.Different || same == verify.Same {
			best = same
		}
	}
	return best, nil
}

// checkCluster requires that the records are of this cluster.
func (o *verifyOptions) checkCluster(fold *verify.Fold, uid string) error {
	if len(fold.Clusters) == 0 {
		if len(fold.Findings) > 0 {
			return fmt.Errorf("the files have no records of this receiver; %s is not OTLP/JSON: %s", fold.Findings[0].Place, servertext.Clean(fold.Findings[0].Detail))
		}
		return errors.New("the files have no records in this receiver's own format (format: watchlist)")
	}
	if uid == "" {
		fmt.Fprintln(o.err, "warning: the UID of the namespace kube-system cannot be read, so it is not known whether the records are of this cluster")
		return nil
	}
	others := 0
	for of, n := range fold.Clusters {
		if of != uid && of != "" {
			others += n
		}
	}
	if fold.Clusters[uid]+fold.Clusters[""] == 0 {
		return fmt.Errorf("the records are of the cluster with UID %s, and this is the one with UID %s; choose another with --context",
			servertext.Clean(strings.Join(slices.Sorted(maps.Keys(fold.Clusters)), ", ")), uid)
	}
	if others > 0 {
		fmt.Fprintf(o.err, "warning: %s of other clusters left out\n", counted(others, "record"))
	}
	return nil
}

// liveCluster lists the metadata of a cluster's objects.
type liveCluster struct {
	client   *kubeclient.Client
	metadata metadata.Interface
	objects  dynamic.Interface
	served   *kubeclient.Served
	uid      string // of the cluster; "" if it may not be read
}

// connect returns a cluster whose client the caller closes.
func (o *verifyOptions) connect(ctx context.Context) (*liveCluster, error) {
	config, err := kubeclient.RESTConfig(o.cluster.options())
	if err != nil {
		return nil, err
	}
	lister, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	client, err := kubeclient.Connect(o.cluster.options())
	if err != nil {
		return nil, err
	}
	live := &liveCluster{client: client, metadata: lister, objects: objects}
	if live.served, err = client.Discover(ctx); err == nil {
		live.uid, err = client.ClusterUID(ctx)
	}
	if err != nil && (live.served == nil || !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err)) {
		client.Close()
		return nil, err
	}
	return live, nil
}

// listPage keeps the server's answers small.
const listPage = 500

func (l *liveCluster) list(ctx context.Context, s verify.Scope) (map[string]verify.Listed, error) {
	objects := make(map[string]verify.Listed)
	resource := schema.ParseGroupResource(s.Resource)
	versions, err := l.served.Lookup(resource.Group, true, resource.Resource, "")
	if errors.Is(err, kubeclient.ErrNotServed) {
		return objects, nil // all its objects are gone
	} else if err != nil {
		return nil, unreachable(fmt.Errorf("cannot find %s in the cluster: %w", s.Resource, err))
	}
	namespace := s.Namespace
	if versions[0].Namespaced {
		namespace = scope.Scope{Namespace: s.Namespace, FieldSelector: s.FieldSelector}.InRequiredNamespace().Namespace
	}
	client := l.metadata.Resource(resource.WithVersion(versions[0].Version)).Namespace(namespace)
	selects, err := l.selects(ctx, scope.ParseNamespaces(s.Among))
	if err != nil {
		return nil, err
	}
	options := metav1.ListOptions{Limit: listPage, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector}
	for {
		page, err := client.List(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" { // changed too much between two pages
			options.Continue, options.Limit = "", 0
			clear(objects)
			continue
		}
		if err != nil {
			return nil, unreachable(fmt.Errorf("cannot list %s: %w", s.Resource, err))
		}
		for _, item := range page.Items {
			if !selects(item.Namespace) {
				continue
			}
			objects[string(item.UID)] = verify.Listed{Namespace: item.Namespace, Name: item.Name, ResourceVersion: item.ResourceVersion}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return objects, nil
		}
	}
}

// selects returns which namespaces are selected now.
func (l *liveCluster) selects(ctx context.Context, among scope.Namespaces) (func(namespace string) bool, error) {
	if among.Labels == "" {
		return among.Match, nil
	}
	list, err := l.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(ctx, metav1.ListOptions{LabelSelector: among.Labels})
	if err != nil {
		return nil, unreachable(fmt.Errorf("cannot list the namespaces with labels %s: %w", among.Labels, err))
	}
	matching := make(map[string]bool, len(list.Items))
	for _, item := range list.Items {
		matching[item.Name] = true
	}
	return func(namespace string) bool { return matching[namespace] && among.Match(namespace) }, nil
}

// compareContents reads the objects and compares them with the bodies of their last records.
func (l *liveCluster) compareContents(ctx context.Context, files *verify.Files, receivers []collector.Receiver, resource string, older []verify.Object) (map[string]verify.Sameness, error) {
	name := schema.ParseGroupResource(resource)
	versions, err := l.served.Lookup(name.Group, true, name.Resource, "")
	if err != nil {
		return nil, unreachable(fmt.Errorf("cannot find %s in the cluster: %w", resource, err))
	}
	contents := newContents(name, receivers)
	result := make(map[string]verify.Sameness)
	for _, object := range older {
		body, err := files.Body(object)
		if err != nil {
			return nil, err
		}
		if body.Object == nil {
			continue
		}
		version := versions[0]
		if apiVersion, _ := body.Object["apiVersion"].(string); apiVersion != "" { // that of the record, to compare the same form
			gv, err := schema.ParseGroupVersion(apiVersion)
			if found, lookup := l.served.Lookup(name.Group, true, name.Resource, gv.Version); err == nil && lookup == nil {
				version = found[0]
			}
		}
		namespace := object.Namespace
		if !version.Namespaced {
			namespace = ""
		}
		live, err := l.objects.Resource(name.WithVersion(version.Version)).Namespace(namespace).Get(ctx, object.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue // gone meanwhile
		case apierrors.IsForbidden(err):
			return nil, unreachable(fmt.Errorf("cannot compare %s, whose later changes may have changed nothing, without the right to get them: %w", resource, err))
		case err != nil:
			return nil, unreachable(fmt.Errorf("cannot get %s %s: %w", resource, object.Name, err))
		}
		text, err := live.MarshalJSON()
		if err != nil {
			return nil, unreachable(fmt.Errorf("cannot read %s %s: %w", resource, object.Name, err))
		}
		if result[object.UID], err = contents.compare(text, body, namespace); err != nil {
			return nil, unreachable(err)
		}
	}
	return result, nil
}

func (o *verifyOptions) print(r verify.Result) error {
	switch o.output {
	case "json":
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("cannot print the result: %w", err)
		}
		_, err = fmt.Fprintf(o.out, "%s\n", text)
		return err
	case "yaml":
		text, err := yaml.Marshal(r)
		if err != nil {
			return fmt.Errorf("cannot print the result: %w", err)
		}
		_, err = o.out.Write(text)
		return err
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RESOURCE\tSCOPE\tOBJECTS\tUNCHANGED\tRECORDS\tGAPS\tFINDINGS")
	for _, s := range r.Resources {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", s.Resource, s.Scope, s.Listed, s.Unchanged, s.Records, s.Gaps, findings(s.Findings))
	}
	w.Flush() //nolint:errcheck // a strings.Builder never fails
	for _, s := range r.Resources {
		if s.Note != "" {
			fmt.Fprintf(&b, "note: %s: %s\n", s.Resource, s.Note)
		}
		if s.Masked > 0 {
			fmt.Fprintf(&b, "note: %s: %s at a later version than recorded can differ only in values that are masked, or were too large for the record\n", s.Resource, counted(s.Masked, "object"))
		}
	}
	o.printFindings(&b, r.Findings)
	for _, gap := range r.Gaps {
		fmt.Fprintf(&b, "gap: %s: %s, from version %s to %s (%s)\n", gap.Resource, gap.Reason, orNone(gap.From), orNone(gap.To), gap.Place)
	}
	if len(r.Findings) == 0 {
		b.WriteString("\nThe records agree with the cluster.\n")
	} else {
		fmt.Fprintf(&b, "\n%s.\n", counted(len(r.Findings), "finding"))
	}
	_, err := fmt.Fprint(o.out, b.String())
	return err
}

func orNone(version string) string {
	if version == "" {
		return "(none)"
	}
	return version
}

// findings returns the numbers of findings by kind.
func findings(byKind map[string]int) string {
	var parts []string
	for _, kind := range verify.Kinds {
		if n := byKind[kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// findingsShown is how many findings of a resource are printed.
const findingsShown = 20

func (o *verifyOptions) printFindings(b *strings.Builder, all []verify.Finding) {
	shown := make(map[string]int)
	for _, f := range all {
		if shown[f.Resource]++; shown[f.Resource] > findingsShown && !o.all {
			continue
		}
		var what []string
		for _, part := range []string{f.Resource, strings.TrimPrefix(f.Namespace+"/"+f.Name, "/"), f.Detail} {
			if part != "" {
				what = append(what, part)
			}
		}
		fmt.Fprintf(b, "%s: %s", f.Kind, strings.Join(what, " "))
		if f.Place != "" {
			fmt.Fprintf(b, " (%s)", f.Place)
		}
		b.WriteByte('\n')
	}
	for _, resource := range slices.Sorted(maps.Keys(shown)) {
		if n := shown[resource] - findingsShown; n > 0 && !o.all {
			fmt.Fprintf(b, "and %d more of %s; print them with --all\n", n, resource)
		}
	}
}
