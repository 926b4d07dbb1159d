package oracle

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

const masked = "[REDACTED]"

// Fingerprint returns the replacement of a value of a Secret or ConfigMap.
type Fingerprint func(value []byte) string

// where is the place of a value, which decides about it together with its key.
type where int

const (
	anywhere where = iota
	theObject
	theSecret
	theConfigMap
	metadata
	ownMetadata // metadata of the object itself
	owners
	owner
	annotations
	label
	schema
	sensitive
	allMasked
	variable
	variables
	reference // valueFrom among values that are masked
	headers
	headerMap
	headerPair
	commandLine
	template
	secretTemplate
	secretList
	secretItem
	configMapList
	configMapItem
	base64Values
	plainValues
	configMapBase64
	configMapPlain
	verbatim
)

type policy struct {
	fingerprint Fingerprint
	namesKeys   bool
	nested      int
	changed     *bool
}

// Expected applies the policy to an object of a resource.
func Expected(object Tree, group, resource string, fingerprint Fingerprint) Tree {
	p := policy{fingerprint: fingerprint, changed: new(bool)}
	p.namesKeys = namesKeys(group)
	switch {
	case group == "" && resource == "secrets":
		return p.object(object, theSecret, false)
	case group == "" && resource == "configmaps":
		return p.object(object, theConfigMap, false)
	}
	return p.object(object, theObject, false)
}

var namesKeysIn = regexp.MustCompile(`(^|\.)external-secrets\.io$|^secrets-store\.csi\.x-k8s\.io$`)

func namesKeys(group string) bool {
	return namesKeysIn.MatchString(group)
}

// at applies the policy to the value at a place. inSecretKind means that an enclosing object has a kind that ends in
// Secret.
func (p policy) at(t Tree, w where, inSecretKind bool) Tree {
	switch t.Kind {
	case '{':
		return p.object(t, w, inSecretKind)
	case '[':
		return p.array(t, w, inSecretKind)
	}
	return p.scalar(t, w)
}

func (p policy) mask() Tree { *p.changed = true; return Tree{Scalar: masked} }

func (p policy) scalar(t Tree, w where) Tree {
	s, isString := t.Scalar.(string)
	if t.isNull() {
		return t
	}
	switch w {
	case allMasked, variable, reference, headerMap:
		return p.mask()
	case variables, headerPair:
		if isString {
			return p.mask()
		}
	case sensitive:
		if isString && !isReference(s) {
			return p.mask()
		}
	case headers:
		name, _, hasColon := strings.Cut(s, ":")
		harmless := hasColon && isHarmless(strings.TrimSpace(name)) && !strings.Contains(s, "\n")
		if strings.ContainsAny(s, ":=") && !harmless {
			return p.mask()
		}
	case base64Values, configMapBase64:
		if isString {
			value, err := base64.StdEncoding.DecodeString(s)
			if err != nil {
				value = []byte(s)
			}
			*p.changed = true
			return Tree{Scalar: p.fingerprint(value)}
		}
		return p.plainFingerprint(t)
	case plainValues, configMapPlain:
		return p.plainFingerprint(t)
	case verbatim:
		return t
	}
	if isString {
		return p.text(s, w)
	}
	return t
}

func (p policy) plainFingerprint(t Tree) Tree {
	*p.changed = true
	switch v := t.Scalar.(type) {
	case string:
		return Tree{Scalar: p.fingerprint([]byte(v))}
	case json.Number:
		return Tree{Scalar: p.fingerprint([]byte(v))}
	}
	text, _ := json.Marshal(t.Scalar)
	return Tree{Scalar: p.fingerprint(text)}
}

// text applies the rules for strings. Texts that are not documents are searched for shapes; see Shapes.
func (p policy) text(s string, w where) Tree {
	trimmed := strings.TrimLeft(s, " \n\t\r")
	if len(trimmed) >= 5 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(s)) {
		if p.nested >= 2 {
			return p.mask()
		}
		inner, _, _ := parseValue([]byte(s))
		q := policy{fingerprint: p.fingerprint, namesKeys: p.namesKeys, nested: p.nested + 1, changed: new(bool)}
		out := q.at(inner, anywhere, false)
		if *q.changed {
			*p.changed = true
			return Tree{Scalar: s, Document: &out}
		}
		return Tree{Scalar: s}
	}
	if strings.HasPrefix(s, "H4sI") && len(s) > 40 {
		return p.mask()
	}
	if value, ok := strings.CutPrefix(s, "--password="); ok && w != label && !isReference(value) {
		*p.changed = true
		return Tree{Scalar: "--password=" + masked}
	}
	if masked := Mask(s); masked != s {
		*p.changed = true
		return Tree{Scalar: masked}
	}
	return Tree{Scalar: s}
}

func (p policy) array(t Tree, w where, inSecretKind bool) Tree {
	out := Tree{Kind: '['}
	element := w
	switch w {
	case owners:
		element = owner
	case metadata, ownMetadata, owner, theObject, template, annotations, configMapItem, secretItem:
		element = anywhere
	case variables:
		element = variable
	case headerMap:
		element = headerPair
	case secretList:
		element = secretItem
	case configMapList:
		element = configMapItem
	case commandLine:
		return p.command(t, inSecretKind)
	case variable:
		element = allMasked
	case reference:
		element = allMasked
	case headerPair:
		element = anywhere
	}
	for _, item := range t.Items {
		if w == headers && item.Kind == '{' {
			out.Items = append(out.Items, p.at(item, headerPair, inSecretKind))
			continue
		}
		if w == headers && item.Kind == '[' {
			out.Items = append(out.Items, p.at(item, headerPair, inSecretKind))
			continue
		}
		out.Items = append(out.Items, p.at(item, element, inSecretKind))
	}
	return out
}

// command applies the rules for command options that are the same for every program.
func (p policy) command(t Tree, inSecretKind bool) Tree {
	out := Tree{Kind: '['}
	previous := ""
	for _, item := range t.Items {
		s, isString := item.Scalar.(string)
		if !isString {
			out.Items = append(out.Items, p.at(item, anywhere, inSecretKind))
			continue
		}
		name, value, hasValue := strings.Cut(s, "=")
		switch {
		case previous != "" && !strings.Contains(previous, "=") && strings.HasPrefix(previous, "-") && IsSensitive(previous) && s != "" && s[0] != '-':
			if isReference(s) {
				out.Items = append(out.Items, item)
			} else {
				out.Items = append(out.Items, p.mask())
			}
			previous = ""
			continue
		case hasValue && IsSensitive(name) && !isReference(value) && value != masked:
			*p.changed = true
			out.Items = append(out.Items, Tree{Scalar: name + "=" + masked})
		default:
			out.Items = append(out.Items, p.text(s, commandLine))
		}
		previous = s
	}
	return out
}

func (p policy) object(t Tree, w where, inSecretKind bool) Tree {
	kinds := map[string]bool{}
	secretName, harmless := false, false
	readsKinds := slices.Contains([]where{anywhere, theObject, theSecret, theConfigMap, metadata, ownMetadata, owners, owner, annotations, template, secretTemplate, secretItem, configMapItem, headerPair, secretList, configMapList}, w)
	if readsKinds {
		for _, m := range t.Members {
			s, isString := m.Value.Scalar.(string)
			if !isString {
				continue
			}
			switch m.Key {
			case "kind":
				kinds[s] = true
				if strings.HasSuffix(s, "Secret") && s != "Secret" {
					kinds["*Secret"] = true
				}
			case "name", "key", "path":
				if (w != headerPair && w != ownMetadata && w != owner) || m.Key == "path" || m.Key == "key" && w != headerPair {
					secretName = secretName || isSensitiveName(s)
				}
			}
		}
	}
	inSecretKind = inSecretKind || kinds["*Secret"]
	out := Tree{Kind: '{'}
	hasMetadata := false
	for _, m := range t.Members {
		if w == headerPair && (m.Key == "name" || m.Key == "key") && m.Value.isString() {
			harmless = isHarmless(m.Value.Scalar.(string))
		}
		c := context{w, kinds, secretName, harmless, inSecretKind, &hasMetadata}
		if value, stays := p.member(m, c); stays {
			out.Members = append(out.Members, Member{m.Key, value})
		}
	}
	return out
}

type context struct {
	where
	kinds                              map[string]bool
	secretName, harmless, inSecretKind bool
	hasMetadata                        *bool
}

// identity lists the members of metadata that no rule for texts changes.
var identity = []string{"uid", "resourceVersion", "namespace", "name", "generation", "creationTimestamp", "deletionTimestamp"}

var pairValues = []string{"value", "values", "default", "defaultValue", "stringValue", "val"}

var (
	lastApplied   = regexp.MustCompile(`(?i)((last|previous)[-._]?(applied|successful|reconciled|observed|known)([-._]?(config(uration)?|spec|podtemplate|template|state|manifest))?|/applied)$`)
	original      = regexp.MustCompile(`(^|/)original(-pod|-config)?$`)
	environment   = regexp.MustCompile(`^(env|envs|[a-zA-Z]*Envs?|[a-zA-Z]*[eE]nvVars?|[a-zA-Z]*[eE]nvsConfig|[eE]nvironment(Variables)?|environmentVars|buildArgs|proxyMetadata|[a-z_]*_env(ironment)?)$`)
	headerKeys    = regexp.MustCompile(`(?i)(headers|headermodifier)$`)
	harmlessNames = regexp.MustCompile(`(?i)^(accept.*|host|user-agent|content-type|content-length|cache-control|connection|origin|referer|x-forwarded-.*|x-request-id)$`)
)

func isHarmless(name string) bool { return harmlessNames.MatchString(name) }

func isSensitiveName(s string) bool {
	if strings.HasPrefix(s, "/") {
		if strings.Contains(s, "/env/") || strings.HasPrefix(s, "/stringData/") {
			return true
		}
		s = s[strings.LastIndexByte(s, '/')+1:]
	}
	return IsSensitive(s)
}

// member applies the policy to the value of a member.
func (p policy) member(m Member, c context) (out Tree, stays bool) {
	v, key := m.Value, m.Key
	descend := func(w where) (Tree, bool) { return p.at(v, w, c.inSecretKind), true }
	switch c.where {
	case label, schema, verbatim, base64Values, plainValues, configMapBase64, configMapPlain:
		return descend(c.where)
	case theSecret:
		return p.ofSecret(m, c)
	case allMasked, variables:
		if key == "valueFrom" && v.Kind != 0 {
			return descend(reference)
		}
		if key == "valueFrom" {
			return descend(allMasked)
		}
		return descend(allMasked)
	case variable:
		switch {
		case key == "name":
			if v.Kind == 0 {
				return descend(anywhere)
			}
			return descend(allMasked)
		case key == "valueFrom" && v.Kind != 0:
			return descend(reference)
		}
		return descend(allMasked)
	case reference:
		if isReferenceKey(key) {
			return descend(anywhere)
		}
		return descend(allMasked)
	case headers, headerMap:
		switch {
		case key == "remove" || key == "valueFrom", isHarmless(key):
			return descend(anywhere)
		}
		return descend(headerMap)
	case sensitive:
		switch {
		case key == "stringData":
			return descend(plainValues)
		case key == "metadata":
			return p.metadata(v, c)
		case isStructural(key):
			if v.Kind == 0 {
				return descend(anywhere)
			}
			return descend(sensitive)
		case isReferenceKey(key):
			return descend(anywhere)
		case isLabelsKey(key):
			return descend(label)
		case isAnnotationsKey(key):
			return descend(annotations)
		}
		return descend(sensitive)
	case secretList, configMapList:
		if c.where == secretList {
			return descend(secretItem)
		}
		return descend(configMapItem)
	}
	return p.ofObject(m, c)
}

// ofObject applies the rules for a member of any object.
func (p policy) ofObject(m Member, c context) (out Tree, stays bool) {
	v, key := m.Value, m.Key
	descend := func(w where) (Tree, bool) { return p.at(v, w, c.inSecretKind), true }
	if v.Kind == 0 && (c.where == ownMetadata && slices.Contains(identity, key) || c.where == owner && (key == "name" || key == "uid")) {
		return v, true
	}
	if c.where == ownMetadata && key == "ownerReferences" {
		return descend(owners)
	}
	switch key {
	case "managedFields":
		return p.at(v, anywhere, c.inSecretKind), v.Kind != '[' && c.where != metadata && c.where != ownMetadata
	case "metadata":
		if c.where == theObject || c.where == theConfigMap {
			return p.own(v, c)
		}
		return p.metadata(v, c)
	case "stringData":
		return descend(plainValues)
	case "data":
		switch {
		case c.where == secretTemplate, c.where == secretItem:
			return descend(base64Values)
		case c.where == configMapItem, c.where == theConfigMap:
			return descend(configMapPlain)
		case c.where == template && c.inSecretKind:
			return descend(base64Values)
		case c.kinds["Secret"]:
			return descend(base64Values)
		case c.kinds["ConfigMap"]:
			return descend(configMapPlain)
		}
		return descend(anywhere)
	case "binaryData":
		switch {
		case c.where == configMapItem, c.where == theConfigMap:
			return descend(configMapBase64)
		case c.kinds["Secret"]:
			return descend(base64Values)
		case c.kinds["ConfigMap"]:
			return descend(configMapBase64)
		}
		return descend(anywhere)
	case "items":
		switch {
		case c.kinds["SecretList"]:
			return descend(secretList)
		case c.kinds["ConfigMapList"]:
			return descend(configMapList)
		}
		return descend(anywhere)
	case "template":
		return descend(template)
	case "secretTemplate", "secretTemplates":
		return descend(secretTemplate)
	case "openAPIV3Schema":
		return descend(schema)
	case "openshift.io/token-secret.value":
		if c.where == annotations {
			return out, false
		}
	case "kind", "apiVersion", "source", "namespace":
		return descend(anywhere)
	case "name", "key", "path":
		if c.where == headerPair && key == "path" {
			break
		}
		return descend(anywhere)
	}
	if c.where == headerPair && (key == "value" || key == "values") {
		if c.harmless {
			return descend(anywhere)
		}
		return descend(headerMap)
	}
	if slices.Contains(pairValues, key) {
		if c.secretName {
			return descend(sensitive)
		}
		return descend(anywhere)
	}
	switch {
	case lastApplied.MatchString(key) || original.MatchString(key):
		if c.where == annotations {
			*p.changed = true
			return out, false
		}
		if s, ok := v.Scalar.(string); ok && isDocument(s) {
			*p.changed = true
			return out, false
		}
		return descend(anywhere)
	case environment.MatchString(key):
		return descend(variables)
	case headerKeys.MatchString(key):
		return descend(headers)
	case isLabelsKey(key) && c.where != annotations:
		return descend(label)
	case isAnnotationsKey(key) && c.where != annotations:
		return descend(annotations)
	case slices.Contains([]string{"command", "commands", "args", "arguments", "cmd", "entrypoint", "script", "argv"}, lastWordOf(key)):
		if v.Kind == '{' {
			return descend(anywhere)
		}
		return descend(commandLine)
	case key == "secretKey" && p.namesKeys:
		return descend(anywhere)
	case IsSensitive(key):
		return descend(sensitive)
	}
	return descend(anywhere)
}

// own handles metadata of the object itself. The first of several metadata members identifies the object.
func (p policy) own(v Tree, c context) (Tree, bool) {
	if v.Kind == '{' && !*c.hasMetadata {
		*c.hasMetadata = true
		return p.at(v, ownMetadata, c.inSecretKind), true
	}
	if v.Kind == '[' {
		return p.at(v, anywhere, c.inSecretKind), true
	}
	return p.metadata(v, c)
}

func (p policy) metadata(v Tree, c context) (Tree, bool) {
	if v.Kind == '{' {
		return p.at(v, metadata, c.inSecretKind), true
	}
	return p.at(v, anywhere, c.inSecretKind), true
}

// ofSecret returns the members that remain of a Secret.
func (p policy) ofSecret(m Member, c context) (Tree, bool) {
	switch m.Key {
	case "data":
		return p.at(m.Value, base64Values, false), true
	case "stringData":
		return p.at(m.Value, plainValues, false), true
	case "apiVersion", "kind":
		if m.Value.isString() {
			return p.at(m.Value, anywhere, false), true
		}
	case "type":
		if m.Value.isString() {
			return m.Value, true
		}
	case "immutable":
		if _, ok := m.Value.Scalar.(bool); ok {
			return m.Value, true
		}
		if _, ok := m.Value.Scalar.(json.Number); ok {
			return m.Value, true
		}
	case "metadata":
		if m.Value.Kind == '{' {
			return p.own(m.Value, c)
		}
	}
	return p.at(m.Value, allMasked, false), true
}

func isReferenceKey(key string) bool {
	last := lastWordOf(key)
	return key == "valueFrom" || (last == "ref" || last == "refs") && len(key) > len(last)
}

func isLabelsKey(key string) bool {
	return slices.Contains([]string{"labels", "selector", "selectors"}, lastWordOf(key)) || strings.HasSuffix(strings.ToLower(key), "matchexpressions") && lastWordOf(key) == "expressions"
}

func isAnnotationsKey(key string) bool { return lastWordOf(key) == "annotations" }

func isStructural(key string) bool {
	return slices.Contains(strings.Fields(`name namespace key secretName path mountPath items mode defaultMode optional kind
		apiVersion group algorithm size encoding rotationPolicy type provider server role engine version property
		expirationSeconds audience issuer refreshInterval reason message status lastTransitionTime`), key)
}

func isDocument(s string) bool {
	s = strings.TrimLeft(s, " \t\r")
	return s != "" && (s[0] == '{' || s[0] == '[' || strings.Contains(s, "\n")) || strings.HasPrefix(s, "H4sI") && len(s) > 40
}

// Gunzip returns the content of a string in base64 and gzip, or "".
func Gunzip(s string) string {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return ""
	}
	var out bytes.Buffer
	_, _ = out.ReadFrom(r)
	return out.String()
}
