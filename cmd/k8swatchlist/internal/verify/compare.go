package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// Listed is an object that the API server lists.
type Listed struct {
	Namespace, Name string
	ResourceVersion string
}

// Lister lists the metadata of the objects of a scope by UID, consistent with all writes before.
type Lister func(context.Context, Scope) (map[string]Listed, error)

// Comparison compares a fold with a cluster.
type Comparison struct {
	Fold *Fold
	List Lister
	// Read applies new records to the fold.
	Read func() error
	// Same compares the contents of objects that are listed at a later version than that of their last record: changes that
	// change nothing are not emitted. With nil the versions have to be equal.
	Same func(ctx context.Context, resource string, older []Object) (map[string]Sameness, error)
	// Wait is how long a difference must last to count: records arrive later than the changes.
	Wait time.Duration
	// Resources limits the comparison; none compares every resource of the records.
	Resources []string

	sameness map[string]Sameness // by UID and both versions
}

// Summary is what became of one resource.
type Summary struct {
	Resource string         `json:"resource"`
	Scope    string         `json:"scope"` // cluster, or what limits it
	Listed   int            `json:"listed"`
	Records  int            `json:"records"`
	Findings map[string]int `json:"findings"` // by kind
	Gaps     int            `json:"gaps"`
	// Unchanged objects are at a later version than that of their last record, with the same content.
	Unchanged int `json:"unchanged"`
	// Masked are those of them in which only values can have changed that are masked in the records.
	Masked int    `json:"masked"`
	Note   string `json:"note,omitempty"` // what could not be compared
}

// Result is the outcome of a comparison.
type Result struct {
	Resources []Summary `json:"resources"`
	Findings  []Finding `json:"findings"`
	Gaps      []Gap     `json:"gaps"`
}

// pollInterval is the time between two looks at whether differences have disappeared.
const pollInterval = 500 * time.Millisecond

// Run compares. An error means that there is no result.
func (c *Comparison) Run(ctx context.Context) (Result, error) {
	resources := c.resources()
	if len(resources) == 0 {
		return Result{}, fmt.Errorf("the records are of no resource")
	}
	suspects := make(map[string]difference)
	summaries := make(map[string]Summary)
	c.sameness = make(map[string]Sameness)
	for _, resource := range resources {
		found, summary, err := c.compare(ctx, resource)
		if err != nil {
			return Result{}, err
		}
		maps.Copy(suspects, found)
		summaries[resource] = summary
	}
	for deadline := time.Now().Add(c.Wait); len(suspects) > 0 && time.Now().Before(deadline); {
		select {
		case <-time.After(min(pollInterval, time.Until(deadline))):
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
		if err := c.recheck(ctx, suspects); err != nil {
			return Result{}, err
		}
	}
	return c.result(resources, suspects, summaries), nil
}

// recheck removes the suspects that have disappeared, or have changed since.
func (c *Comparison) recheck(ctx context.Context, suspects map[string]difference) error {
	again := make(map[string]bool)
	for _, d := range suspects {
		again[d.Resource] = true
	}
	now := make(map[string]difference)
	for resource := range again {
		found, _, err := c.compare(ctx, resource)
		if err != nil {
			return err
		}
		maps.Copy(now, found)
	}
	maps.DeleteFunc(suspects, func(key string, d difference) bool {
		current, ok := now[key]
		return !ok || current.listed != d.listed
	})
	return nil
}

func (c *Comparison) resources() []string {
	all := make(map[string]bool)
	for s := range c.Fold.Scopes {
		all[s.Resource] = true
	}
	for resource := range c.Fold.Records {
		all[resource] = true
	}
	maps.DeleteFunc(all, func(resource string, _ bool) bool {
		return len(c.Resources) > 0 && !slices.Contains(c.Resources, resource)
	})
	return slices.Sorted(maps.Keys(all))
}

// difference is a finding that may disappear. listed is the version of the object in the cluster.
type difference struct {
	Finding
	listed string
}

// scopesOf returns the scopes of a resource in the records, and whether every one has a complete set of snapshots.
// Without records about readers it is assumed to be read in all namespaces.
func (c *Comparison) scopesOf(resource string) (scopes []Scope, complete bool) {
	complete = true
	for s, hasSet := range c.Fold.Scopes {
		if s.Resource == resource {
			scopes = append(scopes, s)
			complete = complete && hasSet
		}
	}
	if scopes == nil {
		return []Scope{{Resource: resource}}, false
	}
	return scopes, complete
}

// compare lists a resource, then reads what has been written meanwhile, and returns the differences by kind and UID.
func (c *Comparison) compare(ctx context.Context, resource string) (map[string]difference, Summary, error) {
	scopes, complete := c.scopesOf(resource)
	listed, err := c.list(ctx, scopes)
	if err != nil {
		return nil, Summary{}, err
	}
	if err := c.Read(); err != nil {
		return nil, Summary{}, err
	}
	summary := Summary{Resource: resource, Scope: c.describeScopes(resource), Listed: len(listed)}
	expires := scope.IsEvents(schema.ParseGroupResource(resource))
	switch {
	case expires:
		summary.Note = "Events expire silently, so extra ones are not counted"
	case !complete:
		summary.Note = "no complete set of snapshots, so objects without records are not counted as missing"
	}
	found := make(map[string]difference)
	add := func(f Finding, version string) { found[f.Kind+" "+f.UID] = difference{f, version} }
	for uid, live := range listed {
		if f, ok := c.check(resource, uid, live, complete); ok {
			add(f, live.ResourceVersion)
		}
	}
	if err := c.compareContents(ctx, resource, listed, found, &summary); err != nil {
		return nil, Summary{}, err
	}
	for uid, object := range c.Fold.Objects {
		if _, exists := listed[uid]; exists || object.Deleted || object.Resource != resource || expires || uid == "" {
			continue
		}
		add(of(object.Record, Extra, object.Place, fmt.Sprintf("does not exist, but its last record is %s at version %s", object.Type, object.ResourceVersion)), "")
	}
	return found, summary, nil
}

// list returns the objects of all scopes. Those that differ only in their shards are listed once.
func (c *Comparison) list(ctx context.Context, scopes []Scope) (map[string]Listed, error) {
	shards := make(map[Scope][]shard.Shard)
	for _, s := range scopes {
		whole := s
		whole.Shard = shard.Shard{}
		shards[whole] = append(shards[whole], s.Shard)
	}
	listed := make(map[string]Listed)
	for s, parts := range shards {
		objects, err := c.List(ctx, s)
		if err != nil {
			return nil, err
		}
		for uid, object := range objects {
			if slices.ContainsFunc(parts, func(part shard.Shard) bool { return part.Owns(uid, object.Namespace) }) {
				listed[uid] = object
			}
		}
	}
	return listed, nil
}

// compareContents removes the stale objects whose content is that of their last record.
func (c *Comparison) compareContents(ctx context.Context, resource string, listed map[string]Listed, found map[string]difference, summary *Summary) error {
	if c.Same == nil {
		return nil
	}
	key := func(uid string) string {
		return strings.Join([]string{uid, c.Fold.Objects[uid].ResourceVersion, listed[uid].ResourceVersion}, " ")
	}
	var unknown []Object
	for uid := range listed {
		if _, stale := found[Stale+" "+uid]; stale {
			if _, known := c.sameness[key(uid)]; !known {
				unknown = append(unknown, c.Fold.Objects[uid])
			}
		}
	}
	if len(unknown) > 0 {
		sameness, err := c.Same(ctx, resource, unknown)
		if err != nil {
			return err
		}
		for uid, same := range sameness {
			c.sameness[key(uid)] = same
		}
	}
	for uid := range listed {
		same := c.sameness[key(uid)]
		if _, stale := found[Stale+" "+uid]; !stale || same == Different {
			continue
		}
		delete(found, Stale+" "+uid)
		if summary.Unchanged++; same == SameButMasked {
			summary.Masked++
		}
	}
	return nil
}

// check compares a listed object with its last record.
func (c *Comparison) check(resource, uid string, live Listed, complete bool) (Finding, bool) {
	object, known := c.Fold.Objects[uid]
	f := Finding{Resource: resource, Namespace: live.Namespace, Name: live.Name, UID: uid, Place: object.Place.String()}
	switch {
	case !known && !complete:
		return f, false
	case !known:
		f.Kind, f.Detail = Missing, fmt.Sprintf("exists at version %s, without any record", live.ResourceVersion)
	case object.Deleted:
		f.Kind, f.Detail = Missing, fmt.Sprintf("exists at version %s, but its last record is DELETED at version %s", live.ResourceVersion, object.ResourceVersion)
	case object.Name != live.Name || object.Namespace != live.Namespace && !hasOtherNamespace(resource):
		f.Kind, f.Detail = Altered, fmt.Sprintf("its last record names it %s", join(object.Namespace, object.Name))
	case object.ResourceVersion == live.ResourceVersion || object.ResourceVersion == "" || live.ResourceVersion == "":
		return f, false
	case older(object.ResourceVersion, live.ResourceVersion):
		f.Kind, f.Detail = Stale, fmt.Sprintf("is at version %s, but its last record is %s at version %s", live.ResourceVersion, object.Type, object.ResourceVersion)
	default:
		f.Kind, f.Detail = Altered, fmt.Sprintf("is at version %s, which is not after that of its last record, %s", live.ResourceVersion, object.ResourceVersion)
	}
	return f, true
}

// hasOtherNamespace reports whether the namespace in the records of a resource is not that of the object itself.
func hasOtherNamespace(resource string) bool {
	return resource == "namespaces" || scope.IsEvents(schema.ParseGroupResource(resource))
}

func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func (c *Comparison) result(resources []string, differences map[string]difference, summaries map[string]Summary) Result {
	r := Result{Findings: []Finding{}, Gaps: []Gap{}}
	wanted := func(resource string) bool { return resource == "" || slices.Contains(resources, resource) }
	for _, f := range c.Fold.Findings {
		if wanted(f.Resource) {
			r.Findings = append(r.Findings, f)
		}
	}
	for _, d := range differences {
		r.Findings = append(r.Findings, d.Finding)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return strings.Compare(order(a), order(b))
	})
	for _, gap := range c.Fold.Gaps {
		if wanted(gap.Resource) {
			r.Gaps = append(r.Gaps, gap)
		}
	}
	for _, resource := range resources {
		s := summaries[resource]
		s.Records, s.Findings = c.Fold.Records[resource], make(map[string]int)
		for _, f := range r.Findings {
			if f.Resource == resource {
				s.Findings[f.Kind]++
			}
		}
		for _, gap := range r.Gaps {
			if gap.Resource == resource {
				s.Gaps++
			}
		}
		r.Resources = append(r.Resources, s)
	}
	r.clean()
	return r
}

// clean makes texts from files and the API server safe for a terminal.
func (r *Result) clean() {
	clean := func(texts ...*string) {
		for _, text := range texts {
			*text = servertext.Clean(*text)
		}
	}
	for i := range r.Resources {
		clean(&r.Resources[i].Resource, &r.Resources[i].Scope)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		clean(&f.Resource, &f.Namespace, &f.Name, &f.UID, &f.Detail)
	}
	for i := range r.Gaps {
		g := &r.Gaps[i]
		clean(&g.Resource, &g.Reason, &g.From, &g.To)
	}
}

// order sorts findings by resource, kind and object.
func order(f Finding) string {
	return fmt.Sprintf("%s\n%d\n%s\n%s\n%s", f.Resource, slices.Index(Kinds, f.Kind), f.Namespace, f.Name, f.UID)
}

func (c *Comparison) describeScopes(resource string) string {
	scopes, _ := c.scopesOf(resource)
	var parts []string
	for _, s := range scopes {
		limits := []string{"cluster"}
		if s.Namespace != "" {
			limits[0] = s.Namespace
		}
		if s.Among != "" {
			limits[0] = s.Among
		}
		if s.LabelSelector != "" {
			limits = append(limits, s.LabelSelector)
		}
		if s.FieldSelector != "" {
			limits = append(limits, s.FieldSelector)
		}
		if s.Shard.Divided() {
			limits = append(limits, "shard "+s.Shard.String())
		}
		parts = append(parts, strings.Join(limits, " "))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
