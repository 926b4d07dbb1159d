package redact

// rule decides about one value by its shape.
type rule struct {
	do     [shapes]verdict
	note   note
	mode   textMode  // for a string that is kept
	reason Rule      // reported for what is masked
	in     *interior // for arrays and objects that are kept or extracted from; nil if there are none
	family family    // of the program whose arguments the array holds
}

// shape is the JSON type of a value, as its first byte shows.
type shape uint8

const (
	scalar shape = iota // numbers, booleans, and anything that is not a value
	text
	null
	array
	object
	shapes = iota
)

// shapeOf returns the shape of a value by its first byte.
var shapeOf = [256]shape{'"': text, 'n': null, '[': array, '{': object}

// verdict is the decision about a value.
type verdict uint8

const (
	keep          verdict = iota // kept; an interior decides about its parts, and the rules for texts about a string
	mask                         // replaced by Masked
	maskSecret                   // as mask, unless the string refers to a secret elsewhere
	maskHeader                   // as mask, if the string contains the value of a header
	fingerprint                  // replaced by its length and fingerprint
	fingerprint64                // the same, for the bytes that the string is the base64 of
	drop                         // removed together with its key
	dropDocument                 // as drop, if the string is a document
	extract                      // as drop, but facts are taken from its parts
	unseen                       // removed because of [Fields], and would have been kept; no rule has it
)

// stays reports whether the value, or a replacement of it, is kept.
func (v verdict) stays() bool { return v != drop && v != extract && v != unseen }

// interior decides about the parts of an array or object.
type interior struct {
	elements *rule // for the elements of an array
	others   *rule // for unnamed members of an object without a class that has a rule
	byClass  *[classes]*rule
	slots    [256]uint8
	members  []member

	level     level // of an object whose members are parts of the content
	arguments bool  // the array is a command line
	harmless  *rule // for members named like a header that does not authorize; nil outside headers
}

// member is the rule for the value under one key.
type member struct {
	key  string
	rule *rule
	next uint8 // position + 1 of the next member in the same slot
}

// named sets the member rules of an interior. Later ones replace earlier ones with the same key.
func (in *interior) named(members ...member) *interior {
	in.members, in.slots = nil, [256]uint8{}
	position := map[string]int{}
	for _, m := range members {
		if at, ok := position[m.key]; ok {
			in.members[at].rule = m.rule
			continue
		}
		position[m.key] = len(in.members)
		slot := &in.slots[slotOf([]byte(m.key), 0, len(m.key))]
		in.members = append(in.members, member{key: m.key, rule: m.rule, next: *slot})
		*slot = uint8(len(in.members))
	}
	return in
}

// with returns an interior with other rules for some members, and the same for everything else.
func (in *interior) with(members ...member) *interior {
	derived := *in
	return derived.named(append(append([]member(nil), in.members...), members...)...)
}

// slotOf spreads the keys data[from:to] over the slots. The factors were chosen so that most keys of a pod that no rule
// names hit an empty slot. The slot of an empty key depends on the bytes around it.
func slotOf(data []byte, from, to int) uint8 {
	return data[from]*28 + data[to-1]*53 + uint8(to-from)*7
}

// search returns the rule that names this key, or nil.
func (in *interior) search(slot uint8, key []byte) *rule {
	for slot != 0 {
		m := &in.members[slot-1]
		if m.key == string(key) {
			return m.rule
		}
		slot = m.next
	}
	return nil
}

// ruleNamed is search without the slot.
func (in *interior) ruleNamed(key string) *rule {
	return in.search(in.slots[slotOf([]byte(key), 0, len(key))], []byte(key))
}

// unnamed returns the rule for a key that is not named.
func (in *interior) unnamed(key []byte, keys *keyTable) *rule {
	if in.harmless != nil && isHarmlessHeader(key) {
		return in.harmless
	}
	if in.byClass != nil {
		if c := keys.classify(key); c != plainKey && in.byClass[c] != nil {
			return in.byClass[c]
		}
	}
	return in.others
}

// ruleSet holds the rules that apply at any depth of any object, because objects contain others: pod templates in
// workloads, whole manifests in custom resources.
type ruleSet struct {
	in       *interior // for everything without another rule
	keep     *rule
	metadata *rule

	secretValues    *rule // for data in a Secret
	secretStrings   *rule // for stringData
	secretItems     *rule // for a SecretList
	configMapValues *rule // for data in a ConfigMap
	configMapBinary *rule
	configMapItems  *rule // for a ConfigMapList
	pairValues      *rule // beside a sensitive name
	programs        [families]*rule
}

// newRuleSet makes the rules. Many interiors are copies of the general one with other members, so that its rules are
// allocated first, and filled when it is complete.
func newRuleSet(o *Options, keys *keyTable) *ruleSet {
	s := &ruleSet{in: &interior{}}
	s.keep = &rule{in: s.in}
	s.in.elements, s.in.others = s.keep, s.keep
	s.metadata = &rule{}
	s.secretValues = values(RuleSecret, fingerprint64)
	s.secretStrings = values(RuleSecret, fingerprint)
	s.configMapValues, s.configMapBinary = configMapValues(o.ConfigMaps, s.keep)

	sensitive, environment, headers, annotations, template, secretTemplate := &rule{}, &rule{}, &rule{}, &rule{}, &rule{}, &rule{}
	command := &rule{mode: asCommand, in: &interior{}}
	s.in.byClass = &[classes]*rule{
		sensitiveKey:   sensitive,
		headersKey:     headers,
		commandKey:     command,
		labelsKey:      labels(),
		annotationsKey: annotations,
		lastAppliedKey: {do: [shapes]verdict{text: dropDocument}, reason: RuleLastApplied, in: s.in},
	}
	if o.Environment == EnvironmentRedact {
		s.in.byClass[environmentKey] = environment
	}
	name := &rule{note: pairName, mode: asName, in: s.in}
	value := &rule{note: pairValue, in: s.in}
	s.in.named(
		member{key: "metadata", rule: s.metadata},
		member{key: "managedFields", rule: &rule{do: [shapes]verdict{array: drop}, in: s.in}},
		member{key: "kind", rule: s.in.noted(kindOfObject)},
		member{key: "apiVersion", rule: s.in.noted(versionOfObject)},
		member{key: "data", rule: s.in.noted(dataOfObject)},
		member{key: "binaryData", rule: s.in.noted(binaryDataOfObject)},
		member{key: "stringData", rule: s.secretStrings},
		member{key: "items", rule: s.in.noted(itemsOfObject)},
		member{key: "template", rule: template},
		member{key: "secretTemplate", rule: secretTemplate},
		member{key: "secretTemplates", rule: secretTemplate},
		member{key: "command", rule: &rule{note: commandOfObject, mode: asCommand, in: command.in}},
		member{key: "args", rule: &rule{note: argumentsOfObject, mode: asCommand, in: command.in}},
		member{key: "openAPIV3Schema", rule: openAPISchema()},
		member{key: "source", rule: &rule{mode: asSource, in: s.in}},
		member{key: "name", rule: name}, member{key: "key", rule: name}, member{key: "path", rule: name},
		member{key: "namespace", rule: &rule{mode: asName, in: s.in}},
		member{key: "value", rule: value}, member{key: "values", rule: value}, member{key: "val", rule: value},
		member{key: "default", rule: value}, member{key: "defaultValue", rule: value}, member{key: "stringValue", rule: value},
	)

	*command.in = *s.in
	command.in.elements, command.in.arguments = &rule{mode: asArgument, in: s.in}, true
	s.metadata.in = s.in.with(member{key: "managedFields", rule: whole(drop)})
	template.in = s.in.with(member{key: "data", rule: s.in.noted(dataOfTemplate)})
	secretTemplate.in = s.in.with(member{key: "data", rule: s.secretValues})
	secretTemplate.in.elements = secretTemplate
	s.secretItems = items(s.in.with(member{key: "data", rule: s.secretValues}))
	s.configMapItems = items(s.in.with(
		member{key: "data", rule: s.configMapValues}, member{key: "binaryData", rule: s.configMapBinary},
	))
	s.sensitive(sensitive)
	s.pairValues = &rule{}
	*s.pairValues = *sensitive
	s.pairValues.reason = RulePair
	s.environment(environment)
	s.headers(headers)
	s.annotations(annotations)
	for f := range s.programs {
		s.programs[f] = &rule{note: argumentsOfObject, mode: asCommand, in: command.in, family: family(f)}
	}
	seen := map[*interior]bool{}
	for _, r := range []*rule{s.keep, s.secretItems, s.configMapItems, s.pairValues} { // from which all others can be reached
		r.know(keys, seen)
	}
	return s
}

// whole returns a rule with the same verdict for every shape.
func whole(v verdict) *rule { return &rule{do: [shapes]verdict{v, v, v, v, v}} }

// noted returns a rule that keeps a value and records it as a fact.
func (in *interior) noted(n note) *rule { return &rule{note: n, in: in} }

// fact returns a rule that keeps a value and records it as the identity or type of an object, so that no rule for texts
// changes it.
func (in *interior) fact(n note) *rule { return &rule{note: n, mode: asVerbatim, in: in} }

// values returns the rule for the values of a Secret or ConfigMap. Everything nested in them is treated the same.
func values(reason Rule, v verdict) *rule {
	r := &rule{do: [shapes]verdict{scalar: fingerprint, text: v}, reason: reason}
	r.in = &interior{elements: r, others: r}
	return r
}

func configMapValues(mode ConfigMapMode, keep *rule) (data, binaryData *rule) {
	switch mode {
	case ConfigMapScan:
		return keep, keep
	case ConfigMapKeep:
		verbatim := &rule{mode: asVerbatim}
		verbatim.in = &interior{elements: verbatim, others: verbatim}
		return verbatim, verbatim
	default:
		return values(RuleConfigMap, fingerprint), values(RuleConfigMap, fingerprint64)
	}
}

// items returns the rule for a list of objects with this interior.
func items(in *interior) *rule {
	item := &rule{in: in}
	return &rule{in: &interior{elements: item, others: item}}
}

// maskedScalars returns a rule that masks every scalar except null at any depth, but keeps references in a valueFrom.
func maskedScalars(reason Rule, in *interior) *rule {
	deep := &rule{do: [shapes]verdict{scalar: mask, text: mask}, reason: reason}
	reference := &rule{do: [shapes]verdict{scalar: mask, text: mask}, reason: reason}
	reference.in = &interior{elements: deep, others: deep, byClass: &[classes]*rule{referenceKey: {in: in}}}
	deep.in = (&interior{elements: deep, others: deep}).named(member{key: "valueFrom", rule: reference})
	return deep
}

// secretObject returns the interior of an object that is known to be a Secret: only the fields of a Secret are kept,
// and only in their proper shapes.
// https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/secret-v1/
func (s *ruleSet) secretObject(root *interior) *interior {
	masked := maskedScalars(RuleSecret, s.in)
	only := func(shape shape, r *rule) *rule {
		strict := &rule{do: masked.do, note: r.note, mode: r.mode, reason: RuleSecret, in: masked.in}
		strict.do[shape] = keep
		if shape == object {
			in := *r.in
			in.elements = masked
			strict.in = &in
		}
		return strict
	}
	return (&interior{elements: masked, others: masked}).named(
		member{key: "apiVersion", rule: only(text, root.ruleNamed("apiVersion"))},
		member{key: "kind", rule: only(text, root.ruleNamed("kind"))},
		member{key: "metadata", rule: only(object, root.ruleNamed("metadata"))},
		member{key: "type", rule: only(text, s.in.fact(nothing))},
		member{key: "immutable", rule: only(scalar, s.keep)},
		member{key: "data", rule: s.secretValues},
		member{key: "stringData", rule: s.secretStrings},
	)
}

// sensitive fills in the rule for the value under a sensitive key: its strings are masked, except those that describe
// the secret or refer to it.
func (s *ruleSet) sensitive(r *rule) {
	r.do, r.reason = [shapes]verdict{text: maskSecret}, RuleKey
	structural := &rule{}
	members := []member{{key: "stringData", rule: s.secretStrings}, {key: "metadata", rule: s.metadata}}
	for key := range structuralKeys {
		members = append(members, member{key: key, rule: structural})
	}
	name := &rule{mode: asName}
	members = append(members, member{key: "name", rule: name}, member{key: "namespace", rule: name})
	byClass := &[classes]*rule{referenceKey: s.keep, labelsKey: s.in.byClass[labelsKey], annotationsKey: s.in.byClass[annotationsKey]}
	r.in = (&interior{elements: r, others: r, byClass: byClass}).named(members...)
	structural.in, name.in = r.in, r.in
}

// environment masks the values of environment variables. The variables are a list of objects with name and value, or a
// map. In any other shape everything counts as a value.
func (s *ruleSet) environment(r *rule) {
	masked := maskedScalars(RuleEnvironment, s.in)
	variable := &rule{do: [shapes]verdict{scalar: mask, text: mask}, reason: RuleEnvironment}
	variable.in = masked.in.with(member{key: "name", rule: &rule{note: pairName, mode: asName, in: masked.in}})
	in := *masked.in
	in.elements = variable
	r.do, r.reason, r.in = [shapes]verdict{text: mask}, RuleEnvironment, &in
}

// headers masks the values of HTTP headers, in a list of {name, value}, in a list of "name: value", or in a map.
func (s *ruleSet) headers(r *rule) {
	value := &rule{do: [shapes]verdict{scalar: mask, text: mask}, reason: RuleHeader}
	beside := &rule{do: value.do, note: headerValue, reason: RuleHeader}
	name := &rule{note: headerName, mode: asName, in: s.in}
	pair := &rule{do: [shapes]verdict{text: mask}, reason: RuleHeader}
	pair.in = s.in.with(
		member{key: "name", rule: name}, member{key: "key", rule: name},
		member{key: "value", rule: beside}, member{key: "values", rule: beside},
	)
	// A map of headers may be one of operations on headers, such as Istio's {request: {set: {…}}}.
	value.in = (&interior{elements: pair, others: value, harmless: s.keep}).named(
		member{key: "remove", rule: s.keep}, member{key: "valueFrom", rule: s.keep},
	)
	beside.in = value.in
	in := *value.in
	in.elements = &rule{do: [shapes]verdict{text: maskHeader}, reason: RuleHeader, in: pair.in}
	r.do, r.reason, r.in = [shapes]verdict{text: maskHeader}, RuleHeader, &in
}

// annotations have only string values, whatever their keys.
func (s *ruleSet) annotations(r *rule) {
	in := s.in.with(
		member{key: "openshift.io/token-secret.value", rule: whole(drop)}, // the token of a service account
		member{key: "labels", rule: s.keep}, member{key: "annotations", rule: s.keep},
	)
	byClass := *s.in.byClass
	byClass[lastAppliedKey] = whole(drop)
	byClass[lastAppliedKey].reason = RuleLastApplied
	byClass[labelsKey], byClass[annotationsKey] = nil, nil
	in.byClass = &byClass
	r.in = in
}

// labels returns the rule for labels and selectors. They are kept; only values with the shape of a secret are masked.
func labels() *rule {
	r := &rule{mode: asLabel}
	r.in = &interior{elements: r, others: r}
	return r
}

// openAPISchema returns the rule for an OpenAPI schema, whose keys are the names of fields.
func openAPISchema() *rule {
	r := &rule{}
	r.in = &interior{elements: r, others: r}
	return r
}

// ownMembers returns the rules for the members that identify the object itself.
func (s *ruleSet) ownMembers() []member {
	metadata := s.metadata.in.with(
		member{key: "uid", rule: s.in.fact(uid)},
		member{key: "resourceVersion", rule: s.in.fact(resourceVersion)},
		member{key: "namespace", rule: s.in.fact(namespace)},
		member{key: "name", rule: s.in.fact(name)},
		member{key: "generation", rule: s.in.fact(generation)},
		member{key: "creationTimestamp", rule: s.in.fact(created)},
		member{key: "deletionTimestamp", rule: s.in.fact(deleted)},
		member{key: "ownerReferences", rule: &rule{in: s.owners()}},
		member{key: "managedFields", rule: managers()},
	)
	metadata.level = metadataLevel
	return []member{
		{key: "apiVersion", rule: s.in.noted(ownAPIVersion)},
		{key: "kind", rule: s.in.noted(ownKind)},
		{key: "metadata", rule: &rule{note: ownMetadata, in: metadata}},
	}
}

func (s *ruleSet) owners() *interior {
	owner := s.in.with(
		member{key: "apiVersion", rule: s.in.noted(ownerAPIVersion)},
		member{key: "kind", rule: s.in.noted(ownerKind)},
		member{key: "name", rule: s.in.fact(ownerName)},
		member{key: "uid", rule: s.in.fact(ownerUID)},
		member{key: "controller", rule: s.in.noted(ownerController)},
	)
	owners := s.in.with()
	owners.elements = &rule{note: ownerEnd, in: owner}
	return owners
}

// managers returns the rule that drops the managedFields, which are bulky and list the keys of every Secret, and
// extracts who wrote and when.
func managers() *rule {
	taken := func(n note) *rule {
		return &rule{note: n, mode: asVerbatim, do: [shapes]verdict{array: drop, object: drop}}
	}
	entry := (&interior{elements: whole(drop), others: whole(drop)}).named(
		member{key: "time", rule: taken(updated)}, member{key: "manager", rule: taken(managerName)},
		member{key: "operation", rule: taken(managerOperation)}, member{key: "subresource", rule: taken(managerSubresource)},
	)
	entries := &interior{
		elements: &rule{note: managerEnd, in: entry, mode: asVerbatim, do: [shapes]verdict{array: drop}},
		others:   whole(drop),
	}
	return &rule{in: entries, mode: asVerbatim, do: [shapes]verdict{extract, extract, extract, extract, extract}}
}
