package redact

import (
	"crypto/rand"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
)

// ConfigMapMode is how the values of ConfigMaps are treated.
type ConfigMapMode uint8

const (
	ConfigMapFingerprint ConfigMapMode = iota // each is replaced by its length and fingerprint
	ConfigMapScan                             // they are kept, except for the secrets found in them
	ConfigMapKeep                             // they are kept
)

// EnvironmentMode is how the values of environment variables are treated.
type EnvironmentMode uint8

const (
	EnvironmentRedact EnvironmentMode = iota // all are masked
	EnvironmentScan                          // those with a sensitive name are masked, and secrets found in the others
)

// Options configure a policy. The zero value is the policy without exceptions.
type Options struct {
	// FingerprintKey is the key of the fingerprints. Without it, a random key is used until the process ends.
	FingerprintKey []byte

	ConfigMaps  ConfigMapMode
	Environment EnvironmentMode
	MaskKeys    []string // more sensitive keys: their last words, or a pattern with * for the whole key
	Keep        []Keep

	Ignored []Ignored // what does not count in the content of an object; see [Content]
}

// Keep exempts values of one resource from redaction. Values of Secrets cannot be exempted.
type Keep struct {
	Group, Resource string   // API group and plural name
	Namespaces      []string // patterns with *; none means every namespace
	Names           []string // patterns with *; none means every name
	Paths           []string // keys joined by dots; * is any key or element; see matchPath
}

// Observer counts the effects of a resource's plan. Its methods are called concurrently.
type Observer interface {
	Redacted(rule Rule, values int) // values were masked by this rule
	Kept(values int)                // values were not masked because of an entry of Keep
	Failed()                        // an object could not be walked, and only its identity was kept
}

// Policy creates the plans of resources.
type Policy struct {
	options Options
	secret  []byte // from which all keys come
	keys    *keyTable
	key     *fingerprintKey
	rules   *ruleSet
}

var processKey = func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
}()

// NewPolicy returns a policy with the given options.
func NewPolicy(o Options) *Policy {
	key := o.FingerprintKey
	if len(key) == 0 {
		key = processKey
	}
	keys := standardKeys
	if len(o.MaskKeys) > 0 {
		keys = newKeyTable(o.MaskKeys)
	}
	return &Policy{options: o, secret: key, keys: keys, key: newFingerprintKey(key), rules: newRuleSet(&o, keys)}
}

var defaultPolicy = NewPolicy(Options{})

// Plan decides what is dropped, masked and kept of one resource's objects. It is safe for concurrent use.
type Plan struct {
	*Policy
	root     *interior // of the object itself
	keep     []Keep
	observer Observer // may be nil

	fields   *fieldNode         // nil: everything is kept
	hasFacts map[*interior]bool // interiors with facts about the object; only if there are fields

	// namesKeys is set if the value of a secretKey is the name of a key rather than a key.
	namesKeys bool

	sumKey                     sumKey
	ignored, ignoredInMetadata []ignoredPath
	ignoredPaths               []string      // the same, as written in the configuration
	sections                   *sectionTable // nil: the sections of Events are not told apart
	managers                   *managerTable
	// particulars names the facts that only objects of this resource have.
	particulars particulars
}

// NewPlan returns the plan of the policy without exceptions for a resource, named by its API group ("" for core) and
// plural name.
func NewPlan(group, resource string) *Plan { return defaultPolicy.Plan(group, resource, nil) }

// Plan returns the plan for a resource, named by its API group ("" for core) and plural name. The observer may be nil.
func (p *Policy) Plan(group, resource string, observer Observer) *Plan {
	s := p.rules
	plan := &Plan{Policy: p, observer: observer, namesKeys: namesSecretKeys(group), managers: &managerTable{}}
	paths := ignoredIn(p.options.Ignored, group, resource)
	plan.ignored, plan.ignoredInMetadata = newIgnoredPaths(paths)
	plan.ignoredPaths = paths
	plan.sumKey = newSumKey(p.secret, contentPurpose+strings.Join(paths, "\n"))
	isOfEvents := scope.IsEvents(schema.GroupResource{Group: group, Resource: resource})
	if !isOfEvents {
		plan.sections = newSectionTable()
	}
	plan.root = s.in.with(s.ownMembers()...)
	switch {
	case isOfEvents:
		plan.root = plan.root.with(s.eventMembers()...)
		plan.particulars = ofEvents
	case group == "" && resource == "pods":
		plan.root = s.podObject(plan.root)
		plan.particulars = ofPods
	case group == "" && resource == "secrets":
		plan.root = s.secretObject(plan.root)
	case group == "" && resource == "configmaps":
		plan.root = plan.root.with(
			member{key: "data", rule: s.configMapValues}, member{key: "binaryData", rule: s.configMapBinary},
		)
	}
	plan.root.level = objectLevel
	for _, k := range p.options.Keep {
		if k.Group == group && k.Resource == resource && (group != "" || resource != "secrets") {
			plan.keep = append(plan.keep, k)
		}
	}
	return plan
}

// namesSecretKeys reports whether objects of the group use secretKey for the name of a key in a Secret.
// https://external-secrets.io/latest/api/spec/
func namesSecretKeys(group string) bool {
	return group == "external-secrets.io" || strings.HasSuffix(group, ".external-secrets.io") || group == "secrets-store.csi.x-k8s.io"
}

// matches reports whether the entry applies to an object.
func (k *Keep) matches(id IdentityBytes) bool {
	return matchAny(k.Namespaces, string(id.Namespace)) && matchAny(k.Names, string(id.Name))
}

func matchAny(patterns []string, s string) bool {
	for _, p := range patterns {
		if glob.Match(p, s) {
			return true
		}
	}
	return len(patterns) == 0
}
