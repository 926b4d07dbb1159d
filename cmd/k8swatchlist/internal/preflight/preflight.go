// Package preflight finds out what a receiver would read from a cluster, whether it may, and about what that costs.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/component"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"

	k8swatchlistreceiver "github.com/k8swatchlist/k8swatchlistreceiver"
)

// Server is the part of the API server that is asked. Its requests end with their context.
type Server interface {
	catalog.Server
	watchlist.Opener
	ClusterUID(context.Context) (string, error)
	// Version returns the version of Kubernetes, such as v1.37.2.
	Version(context.Context) (string, error)
	// User returns the name of who sends the requests.
	User(context.Context) (string, error)
	// May reports whether the requests may have a right.
	May(context.Context, kubeclient.Right) (bool, error)
}

// State is what becomes of a resource.
type State string

// The states of a resource.
const (
	Readable  State = "readable"
	Forbidden State = "forbidden"
	NotServed State = "not_served"
	Refused   State = "refused"
)

// Resource is what an entry of the configuration reads of a resource.
type Resource struct {
	Resource  string `json:"resource"`
	MatchedBy string `json:"matched_by"` // place in the configuration
	Scope     string `json:"scope"`      // cluster, a namespace, or how many
	Streams   int    `json:"streams"`
	State     State  `json:"state"`
	// Objects is how many there are; nil if that cannot be counted. If it was not counted to the end, there are more.
	Objects *int64 `json:"objects"`
	More    bool   `json:"more,omitempty"`
	// Bytes of all objects as JSON, according to the first few; nil if these may not be read.
	Bytes  *int64   `json:"bytes"`
	Rights []string `json:"rights"`
	Lacks  []string `json:"lacks,omitempty"` // rights that are needed
	Notes  []string `json:"notes,omitempty"`
}

// Report is what was found about a receiver.
type Report struct {
	Receiver string `json:"receiver"`
	Server   string `json:"server"` // URL
	Version  string `json:"version,omitempty"`
	UID      string `json:"cluster_uid,omitempty"`
	User     string `json:"user,omitempty"`
	Shard    string `json:"shard,omitempty"` // "2 of 4"; objects and costs are those of all shards
	// StreamsInitialState reports whether the API server streams the initial state, according to its version.
	StreamsInitialState bool       `json:"streams_initial_state"`
	Resources           []Resource `json:"resources"`
	Estimate            Estimate   `json:"estimate"`
	Warnings            []string   `json:"warnings"`
	// Missing are the rules for what is needed and not granted, and Optional those for what only helps, as YAML by the
	// namespace of the role; "" is the ClusterRole.
	Missing  map[string]string `json:"missing_rules,omitempty"`
	Optional map[string]string `json:"optional_rules,omitempty"`
}

// OK reports whether everything that is served can be read.
func (r *Report) OK() bool {
	return len(r.Missing) == 0 && !slices.ContainsFunc(r.Resources, func(r Resource) bool { return r.State == Refused || r.State == Forbidden })
}

// Receiver is what is checked.
type Receiver struct {
	ID     component.ID
	Config *k8swatchlistreceiver.Config
}

// Check asks the server. An error means that the server does not answer, or not enough for any result.
func Check(ctx context.Context, of Receiver, url string, server Server) (*Report, error) {
	r := &Report{Receiver: of.ID.String(), Server: url, Shard: of.Config.ShardText(), Warnings: []string{}}
	specs := of.Config.Specs()
	resolved, failures, err := catalog.Resolve(ctx, specs, server)
	if err != nil {
		return nil, err
	}
	if r.Version, err = server.Version(ctx); err != nil && !kubeclient.Answered(err) {
		return nil, err
	}
	r.StreamsInitialState = streamsInitialState(r.Version)
	if r.User, err = server.User(ctx); err != nil {
		r.warn("cannot learn who the requests are from: %v", err)
	}
	c := &check{Report: r, server: server, config: of.Config, needed: newRules(), helpful: newRules()}
	if err := c.others(ctx, specs); err != nil {
		return nil, err
	}
	if err := c.leases(ctx, of.Config.ElectionLeases(of.ID)); err != nil {
		return nil, err
	}
	if err := c.resources(ctx, resolved); err != nil {
		return nil, err
	}
	for _, failure := range failures {
		c.failed(failure)
	}
	for _, spec := range specs {
		if spec.Pattern != nil && !slices.ContainsFunc(resolved, func(r catalog.Resolved) bool { return r.Spec.Key == spec.Key }) {
			r.warn("%s %q selects nothing that the server serves now", spec.Key, spec.Name())
		}
	}
	r.sort(specs)
	r.Missing, r.Optional = c.needed.yaml(), c.helpful.yaml()
	r.Estimate = estimate(r, of.Config, catalog.FollowsDefinitions(specs))
	c.warnAboutCost()
	return r, nil
}

// warn adds a warning, whose text may be the server's.
func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, servertext.Clean(fmt.Sprintf(format, args...)))
}

// failed adds a resource that cannot be read now.
func (c *check) failed(f catalog.Failure) {
	resource := Resource{Resource: servertext.Clean(f.Spec.Name()), MatchedBy: f.Spec.Key, Scope: "-", State: Refused, Notes: []string{servertext.Clean(f.Error())}}
	if errors.Is(f, kubeclient.ErrNotServed) || errors.Is(f, kubeclient.ErrUnknown) {
		resource.State = NotServed
		resource.Notes = []string{servertext.Clean(f.Error()) + "; the receiver waits for it"}
	}
	c.Resources = append(c.Resources, resource)
}

// sort puts the resources in the order of the configuration, and those of a pattern in that of their names.
func (r *Report) sort(specs []catalog.Spec) {
	place := func(of Resource) int {
		return slices.IndexFunc(specs, func(s catalog.Spec) bool { return s.Key == of.MatchedBy })
	}
	slices.SortStableFunc(r.Resources, func(a, b Resource) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a.Resource, b.Resource)
	})
}
