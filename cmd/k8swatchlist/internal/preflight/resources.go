package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/cmd/k8swatchlist/internal/roles"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"

	k8swatchlistreceiver "github.com/k8swatchlist/k8swatchlistreceiver"
)

// check is a check that is under way.
type check struct {
	*Report
	server Server
	config *k8swatchlistreceiver.Config

	needed, helpful rules
}

// rules are rights to add.
type rules struct{ *roles.Roles }

func newRules() rules { return rules{roles.Empty(roles.Options{})} }

func (r rules) yaml() map[string]string {
	all := make(map[string]string)
	for _, namespace := range r.Namespaces() {
		all[namespace] = r.RulesYAML(namespace)
	}
	return all
}

// others checks the rights for what the receiver does besides reading.
func (c *check) others(ctx context.Context, specs []catalog.Spec) error {
	var err error
	if c.UID, err = c.server.ClusterUID(ctx); err != nil {
		if !kubeclient.Answered(err) {
			return err
		}
		c.warn("records have no k8s.cluster.uid: %v", err)
		if apierrors.IsForbidden(err) {
			c.helpful.AddClusterUID()
		}
	}
	if !catalog.FollowsDefinitions(specs) {
		return nil
	}
	for _, watched := range []struct {
		resource schema.GroupResource
		add      func()
		effect   string
	}{
		{schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, c.helpful.AddDefinitions, "new custom resources are noticed only every half a minute"},
		{schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}, c.helpful.AddAPIServices, "it is not known which resources another API server serves"},
	} {
		may, err := c.server.May(ctx, kubeclient.Right{Verb: "watch", GroupResource: watched.resource})
		if err != nil {
			return err
		}
		if !may {
			c.warn("without the right to watch %s, %s", watched.resource, watched.effect)
			watched.add()
		}
	}
	return nil
}

// atOnce is how many resources are looked at concurrently.
const atOnce = 4

// resources checks what the catalog reads.
func (c *check) resources(ctx context.Context, resolved []catalog.Resolved) error {
	served, err := c.server.Discover(ctx) // unchanged since the catalog has asked, so this costs next to nothing
	if err != nil {
		return err
	}
	var groups [][]catalog.Resolved
	for _, r := range resolved {
		i := slices.IndexFunc(groups, func(g []catalog.Resolved) bool {
			return g[0].Spec.Key == r.Spec.Key && g[0].Scope.GroupResource == r.Scope.GroupResource
		})
		if i < 0 {
			groups = append(groups, []catalog.Resolved{r})
		} else {
			groups[i] = append(groups[i], r)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found, lacking := make([]Resource, len(groups)), make([][]string, len(groups))
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, group := range groups {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			var err error
			if found[i], lacking[i], err = c.resource(ctx, served, group); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.Resources = append(c.Resources, found...)
	for i, group := range groups {
		if lacking[i] == nil {
			continue
		}
		spec := group[0].Spec
		spec.GroupResource, spec.GroupKnown = group[0].Scope.GroupResource, true
		spec.Namespaces = nil
		if lacking[i][0] != "" {
			spec.Namespaces = lacking[i]
		}
		c.needed.AddRead(roles.Read{Spec: spec})
	}
	return nil
}

// resource checks the scopes of one resource, and returns the namespaces in which a right is missing.
func (c *check) resource(ctx context.Context, served *kubeclient.Served, scopes []catalog.Resolved) (r Resource, lacking []string, err error) {
	first := scopes[0]
	r = Resource{
		Resource: first.Scope.GroupResource.String(), MatchedBy: first.Spec.Key, Scope: describe(scopes),
		Streams: len(scopes), State: Readable, Rights: []string{}, Objects: new(int64), Bytes: new(int64),
	}
	canWatch, canList := true, true
	if versions, err := served.Lookup(first.Scope.Group, true, first.Scope.Resource, first.API.Version); err == nil {
		canWatch, canList = versions[0].Can("watch"), versions[0].Can("list")
	}
	var needs []string
	if canWatch {
		needs = append(needs, "watch")
	}
	if canList && (!canWatch || first.ListOnly || !c.StreamsInitialState) {
		needs = append(needs, "list")
	}
	lacks := make(map[string]bool)
	for _, s := range scopes {
		missing := false
		for _, verb := range []string{"watch", "list"} {
			may, err := c.server.May(ctx, kubeclient.Right{
				Verb: verb, GroupResource: s.Scope.GroupResource, Namespace: s.Scope.Namespace, Name: s.Scope.OnlyName(),
			})
			if err != nil {
				return r, nil, err
			}
			if !may {
				lacks[verb] = true
				missing = missing || slices.Contains(needs, verb)
			}
		}
		if missing {
			lacking = append(lacking, s.Scope.Namespace)
		}
		if err := c.count(ctx, s, !lacks["list"] && canList, &r); err != nil {
			return r, nil, err
		}
	}
	for _, verb := range []string{"watch", "list"} {
		switch {
		case !lacks[verb]:
			r.Rights = append(r.Rights, verb)
		case slices.Contains(needs, verb):
			r.Lacks = append(r.Lacks, verb)
		}
	}
	switch {
	case r.Lacks != nil:
		r.State = Forbidden
	case lacks["list"]:
		r.Notes = append(r.Notes, "without list: this server streams the initial state")
	}
	r.Notes = append(r.Notes, c.notes(first, canWatch)...)
	return r, lacking, nil
}

func describe(scopes []catalog.Resolved) string {
	switch {
	case len(scopes) > 1:
		return fmt.Sprintf("%d namespaces", len(scopes))
	case scopes[0].Scope.Namespace != "":
		return scopes[0].Scope.Namespace
	}
	return "cluster"
}

var (
	secrets = schema.GroupResource{Resource: "secrets"}
	leases  = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
)

// notes returns what is special about a resource.
func (c *check) notes(r catalog.Resolved, canWatch bool) []string {
	var notes []string
	switch resource := r.Scope.GroupResource; {
	case resource == secrets:
		notes = append(notes, "values are masked")
	case resource == leases && c.config.Suppress.Noop:
		notes = append(notes, "each renewal is read, but not emitted")
	case resource == leases:
		notes = append(notes, "each renewal is emitted, many every second")
	case scope.IsEvents(resource):
		notes = append(notes, "many, and gone after an hour")
	}
	if r.ListOnly {
		notes = append(notes, "served by another API server")
	}
	if !canWatch {
		notes = append(notes, "cannot be watched, and is listed every five minutes")
	}
	return notes
}

const (
	sampled = 10 // objects whose size is measured
	// pages and pageSize bound the counting of what a server does not count by itself, as with selectors.
	pages, pageSize = 10, 500
	maxPageBytes    = 64 << 20
)

var errNoList = errors.New("the server answered with something other than a list, or with one of more than 64 MiB")

// page is the part of an answer that counts.
type page struct {
	Metadata struct {
		Continue           string `json:"continue"`
		RemainingItemCount *int64 `json:"remainingItemCount"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// count adds the objects of a scope to the resource. The size of Secrets is not measured, because they would have to be read.
func (c *check) count(ctx context.Context, s catalog.Resolved, may bool, to *Resource) error {
	if !may {
		to.Objects, to.Bytes = nil, nil
		return nil
	}
	if to.Objects == nil {
		return nil
	}
	secret := s.Scope.GroupResource == secrets
	// A server that selects a shard does not say how many objects remain.
	request := watchlist.Request{Scope: s.Scope.Of(shard.Shard{}), API: s.API, List: true, Limit: sampled, MetadataOnly: secret}
	first, size, err := c.page(ctx, request)
	if err != nil {
		if !kubeclient.Answered(err) && !errors.Is(err, errNoList) {
			return err
		}
		to.Objects, to.Bytes = nil, nil
		to.Notes = append(to.Notes, "cannot be counted: "+servertext.Clean(err.Error()))
		return nil
	}
	n := int64(len(first.Items))
	average := int64(0)
	if n > 0 {
		average = int64(size) / n
	}
	switch {
	case first.Metadata.RemainingItemCount != nil:
		n += *first.Metadata.RemainingItemCount
	default:
		request.MetadataOnly, request.Limit = true, pageSize
		request.Continue = first.Metadata.Continue
		for range pages {
			if request.Continue == "" {
				break
			}
			next, _, err := c.page(ctx, request)
			if err != nil { // what was counted is still true
				to.Notes = append(to.Notes, "cannot be counted to the end: "+servertext.Clean(err.Error()))
				break
			}
			n += int64(len(next.Items))
			request.Continue = next.Metadata.Continue
		}
		to.More = to.More || request.Continue != ""
	}
	*to.Objects += n
	switch {
	case secret:
		to.Bytes = nil
	case to.Bytes != nil:
		*to.Bytes += n * average
	}
	return nil
}

func (c *check) page(ctx context.Context, request watchlist.Request) (p page, bytes int, err error) {
	body, err := c.server.Open(ctx, request)
	if err != nil {
		return p, 0, err
	}
	defer body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(body, maxPageBytes))
	if err != nil {
		return p, 0, fmt.Errorf("cannot list %s: %w", request.Scope.GroupResource, err)
	}
	if err := json.Unmarshal(text, &p); err != nil { // whose text may quote the objects
		return p, 0, fmt.Errorf("cannot list %s: %w", request.Scope.GroupResource, errNoList)
	}
	return p, len(text), nil
}
