package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// The oracle says what must go out, slowly and by other means: encoding/json makes a tree of the object, the
// rules are applied to the tree, and the tree of what went out is compared with it. Members keep their order, and
// duplicate ones stay, so that nothing can hide behind another.

type tree struct {
	kind    byte // '{', '[', or 0 for a scalar
	scalar  any  // string, json.Number, bool or nil
	members []treeMember
	items   []tree
}

type treeMember struct {
	key   string
	value tree
}

// parseTree reads the first JSON value of data, which must be an object, and where it ends.
func parseTree(data []byte) (tree, int, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return tree{}, 0, err
	}
	if raw[0] != '{' {
		return tree{}, 0, fmt.Errorf("not an object")
	}
	end := int(dec.InputOffset())
	dec = json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	t, err := nextTree(dec)
	return t, end, err
}

func nextTree(dec *json.Decoder) (tree, error) {
	token, err := dec.Token()
	if err != nil {
		return tree{}, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return tree{scalar: token}, nil
	}
	t := tree{kind: byte(delim)}
	for dec.More() {
		var m treeMember
		if t.kind == '{' {
			key, err := dec.Token()
			if err != nil {
				return t, err
			}
			m.key = key.(string)
		}
		if m.value, err = nextTree(dec); err != nil {
			return t, err
		}
		if t.kind == '{' {
			t.members = append(t.members, m)
		} else {
			t.items = append(t.items, m.value)
		}
	}
	if _, err = dec.Token(); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return t, err
}

func (t tree) isNull() bool { return t.kind == 0 && t.scalar == nil }

func (t tree) get(key string) []tree {
	var all []tree
	for _, m := range t.members {
		if m.key == key {
			all = append(all, m.value)
		}
	}
	return all
}

// place is where in an object a value stands, as far as the rules ask.
type place int

const (
	anywhere place = iota
	theSecret
	inMetadata
	inAnnotations
	inContainers
	inContainer
	inVariable
)

var theMask = tree{scalar: "[REDACTED]"}

// expected applies the rules to an object of the resource.
func expected(object tree, group, resource string) tree {
	if group == "" && resource == "secrets" {
		return expectedAt(object, theSecret)
	}
	return expectedAt(object, anywhere)
}

func expectedAt(t tree, p place) tree {
	out := tree{kind: t.kind, scalar: t.scalar}
	for _, item := range t.items {
		if p == inContainers || p == inContainer {
			out.items = append(out.items, expectedAt(item, inContainer))
		} else {
			out.items = append(out.items, expectedAt(item, anywhere))
		}
	}
	isSecret := slices.ContainsFunc(t.get("kind"), func(k tree) bool { return k.scalar == "Secret" })
	for _, m := range t.members {
		if value, stays := expectedMember(m, p, isSecret); stays {
			out.members = append(out.members, treeMember{m.key, value})
		}
	}
	return out
}

func expectedMember(m treeMember, p place, isSecret bool) (out tree, stays bool) {
	switch {
	case p == theSecret:
		return expectedOfSecret(m), true
	case p == inMetadata && m.key == "managedFields",
		p == inAnnotations && slices.Contains([]string{
			"kubectl.kubernetes.io/last-applied-configuration", "kapp.k14s.io/original", "objectset.rio.cattle.io/applied",
			"banzaicloud.com/last-applied", "consul.hashicorp.com/original-pod"}, m.key):
		return out, false
	case p == inMetadata && m.key == "annotations":
		return expectedAt(m.value, inAnnotations), true
	case p == inVariable && m.key == "value":
		return theMask, true
	case (p == inContainers || p == inContainer) && m.key == "env":
		return expectedEnvironment(m.value), true
	case (m.key == "data" || m.key == "stringData") && isSecret:
		return expectedSecretValues(m.value), true
	case m.key == "metadata":
		if m.value.kind == '{' {
			return expectedAt(m.value, inMetadata), true
		}
		return expectedAt(m.value, anywhere), true
	case m.key == "containers" || m.key == "initContainers" || m.key == "ephemeralContainers":
		return expectedAt(m.value, inContainers), true
	case p == inContainers && !slices.Contains([]string{"kind", "data", "stringData"}, m.key):
		return expectedAt(m.value, inContainer), true
	default:
		return expectedAt(m.value, anywhere), true
	}
}

func expectedOfSecret(m treeMember) tree {
	switch m.key {
	case "data", "stringData":
		return expectedSecretValues(m.value)
	case "apiVersion", "kind", "type", "immutable":
		if m.value.kind == 0 {
			return m.value
		}
	case "metadata":
		if m.value.kind == '{' {
			return expectedAt(m.value, inMetadata)
		}
		if m.value.isNull() {
			return m.value
		}
	}
	return theMask
}

func expectedSecretValues(t tree) tree {
	if t.kind != '{' {
		return theMask
	}
	out := tree{kind: '{'}
	for _, m := range t.members {
		out.members = append(out.members, treeMember{m.key, theMask})
	}
	return out
}

func expectedEnvironment(t tree) tree {
	switch {
	case t.isNull():
		return t
	case t.kind == '[':
		out := tree{kind: '['}
		for _, item := range t.items {
			if item.kind == '{' {
				out.items = append(out.items, expectedAt(item, inVariable))
			} else {
				out.items = append(out.items, theMask)
			}
		}
		return out
	case t.kind == '{':
		out := tree{kind: '{'}
		for _, m := range t.members {
			out.members = append(out.members, treeMember{m.key, expectedScalarsMasked(m.value)})
		}
		return out
	default:
		return theMask
	}
}

func expectedScalarsMasked(t tree) tree {
	if t.kind == 0 {
		return theMask
	}
	out := tree{kind: t.kind}
	for _, item := range t.items {
		out.items = append(out.items, expectedScalarsMasked(item))
	}
	for _, m := range t.members {
		if m.key == "valueFrom" && m.value.kind != 0 {
			out.members = append(out.members, treeMember{m.key, expectedAt(m.value, anywhere)})
			continue
		}
		out.members = append(out.members, treeMember{m.key, expectedScalarsMasked(m.value)})
	}
	return out
}

// expectedFacts finds in the object what Decode must tell of it, but for the JSON.
func expectedFacts(object tree, group, resource string) (want Object) {
	want.APIVersion = firstString(object, "apiVersion")
	want.Kind = firstString(object, "kind")
	for _, metadata := range object.get("metadata") {
		if metadata.kind == '{' {
			metadataFacts(metadata, &want)
			break
		}
	}
	if resource == "events" && (group == "" || group == "events.k8s.io") {
		eventFacts(object, &want)
	}
	return want
}

func metadataFacts(metadata tree, want *Object) {
	want.UID = firstString(metadata, "uid")
	want.ResourceVersion = firstString(metadata, "resourceVersion")
	want.Namespace = firstString(metadata, "namespace")
	want.Name = firstString(metadata, "name")
	want.Times.Created = parseTime(firstString(metadata, "creationTimestamp"))
	want.Times.Deleted = parseTime(firstString(metadata, "deletionTimestamp"))
	for _, g := range metadata.get("generation") {
		if number, ok := g.scalar.(json.Number); ok {
			want.Generation, _ = number.Int64()
			break
		}
	}
	for _, managers := range metadata.get("managedFields") {
		for _, manager := range managers.items {
			for _, at := range manager.get("time") {
				text, _ := at.scalar.(string)
				if at := parseTime(text); at.After(want.Times.Updated) {
					want.Times.Updated = at
				}
			}
		}
	}
	var controlled, any bool
	for _, owners := range metadata.get("ownerReferences") {
		for _, owner := range owners.items {
			if owner.kind != '{' {
				continue
			}
			controls := owner.get("controller")
			isController := false
			if i := slices.IndexFunc(controls, func(c tree) bool { _, ok := c.scalar.(bool); return ok }); i >= 0 {
				isController = controls[i].scalar.(bool)
			}
			if !any || isController && !controlled {
				any, controlled = true, isController
				want.Owner = Owner{
					APIVersion: firstString(owner, "apiVersion"), Kind: firstString(owner, "kind"),
					Name: firstString(owner, "name"), UID: firstString(owner, "uid"),
				}
			}
		}
	}
}

func eventFacts(object tree, want *Object) {
	want.EventType = firstString(object, "type")
	var observed []string
	for _, series := range object.get("series") {
		if text := firstString(series, "lastObservedTime"); text != "" {
			observed = append(observed, text)
			break
		}
	}
	for _, keys := range [][]string{{"lastTimestamp", "deprecatedLastTimestamp"}, {"eventTime"}, {"firstTimestamp", "deprecatedFirstTimestamp"}} {
		for _, m := range object.members {
			if text, ok := m.value.scalar.(string); ok && slices.Contains(keys, m.key) {
				observed = append(observed, text)
				break
			}
		}
	}
	for _, text := range observed {
		if want.Times.Observed = parseTime(text); !want.Times.Observed.IsZero() {
			return
		}
	}
}

func firstString(t tree, key string) string {
	for _, v := range t.get(key) {
		if s, ok := v.scalar.(string); ok {
			return s
		}
	}
	return ""
}

func parseTime(s string) time.Time {
	text, _ := json.Marshal(s)
	var t time.Time
	if json.Unmarshal(text, &t) != nil {
		return time.Time{}
	}
	return t.UTC()
}
