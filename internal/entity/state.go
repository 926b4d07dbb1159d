package entity

import (
	"hash/maphash"
	"slices"
	"strings"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/record"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// target is the type and identity of an entity.
type target struct{ entityType, key, value string }

// identify returns the entity that a change is about, and the zero target if there is none.
func identify(c *watchlist.Change) target {
	name, uid, ok := record.ConventionOf(c.Scope.GroupResource)
	return identity(name, uid, ok, c.Object.Name, c.Object.UID)
}

// generic is the type of entities that the semantic conventions do not define.
const generic = "k8s.object"

// identity returns the entity of an object whose kind has the conventional attributes, if any. It is identified by its UID,
// or by its name where the conventions define only the name.
func identity(nameKey, uidKey string, conventional bool, name, uid string) target {
	of := target{generic, generic + ".uid", uid}
	switch {
	case conventional && uidKey != "":
		of.entityType, of.key = strings.TrimSuffix(uidKey, ".uid"), uidKey
	case conventional:
		of = target{strings.TrimSuffix(nameKey, ".name"), nameKey, name}
	}
	if of.value == "" {
		return target{}
	}
	return of
}

// state is the content of a state event.
type state struct {
	target
	description   []attribute
	relationships []relationship
	node          string // of a pod whose node is known only by name; or ""
}

type attribute struct{ key, value string }

type relationship struct {
	kind string
	target
}

const (
	scheduledOn = "scheduled_on"
	partOf      = "part_of"
	managedBy   = "managed_by"
	ownedBy     = "owned_by"
)

// stateOf returns the state of an object, and the name of its node if only that is known.
func (e *Entities) stateOf(c *watchlist.Change) (s state, node string) {
	s.target = identify(c)
	m := metadataOf(c.Object.JSON)
	s.describe(&c.Object, m.Labels)
	e.relate(&s, &c.Object, m.OwnerReferences)
	return s, s.node
}

func (s *state) add(key, value string) {
	if value != "" {
		s.description = append(s.description, attribute{key, value})
	}
}

// describe fills in what describes the entity, but does not identify it.
func (s *state) describe(o *redact.Object, labels map[string]string) {
	s.description = make([]attribute, 0, len(labels)+6)
	if s.entityType == generic {
		s.add("k8s.object.kind", o.Kind)
		s.add("k8s.object.api_version", o.APIVersion)
	}
	if name := s.entityType + ".name"; name != s.key {
		s.add(name, o.Name)
	}
	s.add(string(semconv.K8SNamespaceNameKey), o.Namespace)
	if o.Pod != nil {
		s.add(string(semconv.K8SNodeNameKey), o.Pod.Node)
		s.add(string(semconv.K8SPodStartTimeKey), o.Pod.Started)
		s.add(string(semconv.K8SPodStatusPhaseKey), o.Pod.Phase)
	}
	first := len(s.description)
	for key, value := range labels {
		s.description = append(s.description, attribute{s.entityType + ".label." + key, value})
	}
	slices.SortFunc(s.description[first:], func(a, b attribute) int { return strings.Compare(a.key, b.key) })
}

// relate fills in all relationships of an object. Their types are those of the k8s_cluster receiver, except for an owner
// that does not control the object.
func (e *Entities) relate(s *state, o *redact.Object, owners []ownerReference) {
	if o.Pod != nil && o.Pod.Node != "" {
		s.relationships = append(s.relationships, relationship{scheduledOn, target{"k8s.node", string(semconv.K8SNodeNameKey), o.Pod.Node}})
		if uid := e.uidOfNode(o.Pod.Node); uid != "" {
			s.setNode(uid)
		} else {
			s.node = o.Pod.Node
		}
	}
	if o.Namespace != "" {
		s.relationships = append(s.relationships, relationship{partOf, target{"k8s.namespace", string(semconv.K8SNamespaceNameKey), o.Namespace}})
	}
	if len(owners) == 0 && o.Owner != (redact.Owner{}) { // the object could not be read as a whole
		owners = []ownerReference{{o.Owner.APIVersion, o.Owner.Kind, o.Owner.Name, o.Owner.UID, o.Owner.Controls}}
	}
	for _, owner := range owners {
		name, uid, ok := record.ConventionOfReference(owner.APIVersion, owner.Kind)
		of := identity(name, uid, ok, owner.Name, owner.UID)
		switch {
		case of == target{}:
		case owner.Controller:
			s.relationships = append(s.relationships, relationship{managedBy, of})
		default:
			s.relationships = append(s.relationships, relationship{ownedBy, of})
		}
	}
}

// setNode sets the UID of the pod's node, with which its first relationship is.
func (s *state) setNode(uid string) {
	s.relationships[0].key, s.relationships[0].value = string(semconv.K8SNodeUIDKey), uid
	s.node = ""
}

// seed is that of all hashes of states, which are compared only within the process.
var seed = maphash.MakeSeed()

// hash returns a hash of the content, which is never 0.
func (s *state) hash() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	write := func(texts ...string) {
		for _, text := range texts {
			_, _ = h.WriteString(text)
			_ = h.WriteByte(0) // no text has it
		}
	}
	write(s.key, s.value)
	for _, a := range s.description {
		write(a.key, a.value)
	}
	for _, r := range s.relationships {
		write("", r.kind, r.key, r.value)
	}
	return max(h.Sum64(), 1)
}

// clone returns a copy whose strings do not hold the memory of the object.
func (s *state) clone() *state {
	of := func(t target) target {
		return target{t.entityType, t.key, strings.Clone(t.value)}
	}
	c := &state{target: of(s.target), node: strings.Clone(s.node)}
	c.description = make([]attribute, len(s.description))
	for i, a := range s.description {
		c.description[i] = attribute{strings.Clone(a.key), strings.Clone(a.value)}
	}
	c.relationships = make([]relationship, len(s.relationships))
	for i, r := range s.relationships {
		c.relationships[i] = relationship{r.kind, of(r.target)}
	}
	return c
}
