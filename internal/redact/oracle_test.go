package redact

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact/oracle"
)

// expected applies the slow implementation of the policy to an object of the resource.
func expected(object oracle.Tree, group, resource string) oracle.Tree {
	return oracle.Expected(object, group, resource, func(value []byte) string {
		return strings.Trim(defaultPolicy.key.json(value), `"`)
	})
}

// anyText is set if texts may be arbitrary: of the rules for texts, the slow implementation has only those for shapes,
// so that a text that it keeps may be masked in part. FuzzText is the fuzzer for texts.
var anyText bool

// requireSame compares trees. A string in which something was masked inside a document may be encoded in any way.
func requireSame(t testing.TB, want, got oracle.Tree, path string) {
	t.Helper()
	if want.Document != nil {
		text, ok := got.Scalar.(string)
		require.True(t, ok, path)
		require.True(t, jsonscan.Valid([]byte(text)), "%s: %s", path, text)
		inner, _, err := oracle.Parse([]byte(`{"":` + text + `}`))
		require.NoError(t, err, path)
		requireSame(t, *want.Document, inner.Members[0].Value, path+"(document)")
		return
	}
	require.Equal(t, want.Kind, got.Kind, path)
	if text, ok := want.Scalar.(string); ok && anyText && text != got.Scalar && !oracle.IsInnocent(text) {
		require.Contains(t, got.Scalar, Masked, path)
		return
	}
	require.Equal(t, want.Scalar, got.Scalar, path)
	require.Len(t, got.Members, len(want.Members), path)
	for i := range want.Members {
		require.Equal(t, want.Members[i].Key, got.Members[i].Key, path)
		requireSame(t, want.Members[i].Value, got.Members[i].Value, path+"."+want.Members[i].Key)
	}
	require.Len(t, got.Items, len(want.Items), path)
	for i := range want.Items {
		requireSame(t, want.Items[i], got.Items[i], path+"[]")
	}
}

// expectedFacts returns the facts that Decode must find in the object, without the JSON.
func expectedFacts(object oracle.Tree, group, resource string) (want Object) {
	want.APIVersion = object.FirstString("apiVersion")
	want.Kind = object.FirstString("kind")
	for _, metadata := range object.Get("metadata") {
		if metadata.Kind == '{' {
			metadataFacts(metadata, &want)
			break
		}
	}
	switch {
	case resource == "events" && (group == "" || group == "events.k8s.io"):
		eventFacts(object, &want)
	case resource == "pods" && group == "":
		want.Pod = podFacts(object)
	}
	return want
}

func metadataFacts(metadata oracle.Tree, want *Object) {
	want.UID = metadata.FirstString("uid")
	want.ResourceVersion = metadata.FirstString("resourceVersion")
	want.Namespace = metadata.FirstString("namespace")
	want.Name = metadata.FirstString("name")
	want.Times.Created = parseTime(metadata.FirstString("creationTimestamp"))
	want.Times.Deleted = parseTime(metadata.FirstString("deletionTimestamp"))
	for _, g := range metadata.Get("generation") {
		if number, ok := g.Scalar.(json.Number); ok {
			want.Generation, _ = number.Int64()
			break
		}
	}
	for _, managers := range metadata.Get("managedFields") {
		for _, manager := range managers.Items {
			for _, at := range manager.Get("time") {
				text, _ := at.Scalar.(string)
				if at := parseTime(text); at.After(want.Times.Updated) {
					want.Times.Updated = at
				}
			}
		}
	}
	want.Managers, want.Scaler = expectedManagers(metadata)
	var controlled, any bool
	for _, owners := range metadata.Get("ownerReferences") {
		for _, owner := range owners.Items {
			if owner.Kind != '{' {
				continue
			}
			controls := owner.Get("controller")
			isController := false
			if i := slices.IndexFunc(controls, func(c oracle.Tree) bool { _, ok := c.Scalar.(bool); return ok }); i >= 0 {
				isController = controls[i].Scalar.(bool)
			}
			if !any || isController && !controlled {
				any, controlled = true, isController
				want.Owner = Owner{
					APIVersion: owner.FirstString("apiVersion"), Kind: owner.FirstString("kind"),
					Name: owner.FirstString("name"), UID: owner.FirstString("uid"), Controls: isController,
				}
			}
		}
	}
}

// expectedManagers are those of the newest entries of managedFields: the last one for the status, and the last of the others; and
// that of the last entry for the subresource scale without a time.
func expectedManagers(metadata oracle.Tree) (managers [2]Manager, scaler Manager) {
	var newest [2]time.Time
	for _, list := range metadata.Get("managedFields") {
		for _, entry := range list.Items {
			var at time.Time
			for _, text := range entry.Get("time") {
				if s, _ := text.Scalar.(string); at.IsZero() {
					at = parseTime(s)
				}
			}
			hasName := slices.ContainsFunc(entry.Get("manager"), func(t oracle.Tree) bool { _, ok := t.Scalar.(string); return ok })
			m := Manager{entry.FirstString("manager"), entry.FirstString("operation"), entry.FirstString("subresource")}
			if hasName && at.IsZero() && m.Subresource == "scale" {
				scaler = m
			}
			which := 0
			if m.Subresource == "status" {
				which = 1
			}
			if hasName && !at.IsZero() && !at.Before(newest[which]) {
				newest[which], managers[which] = at, m
			}
		}
	}
	switch {
	case newest[0].After(newest[1]):
		managers[1] = Manager{}
	case newest[1].After(newest[0]):
		managers = [2]Manager{managers[1]}
	}
	return managers, scaler
}

func eventFacts(object oracle.Tree, want *Object) {
	e := &Event{
		Type: object.FirstString("type"), Reason: object.FirstString("reason"), Action: object.FirstString("action"),
		Note:                firstString(object, "message", "note"),
		ReportingController: firstString(object, "reportingComponent", "reportingController"),
		ReportingInstance:   object.FirstString("reportingInstance"),
	}
	want.Event = e
	if counts := numbers(object, "count", "deprecatedCount"); len(counts) > 0 {
		e.Count = counts[0]
	}
	for _, n := range numbers(firstObject(object, "series"), "count") {
		e.Count = n
	}
	source := firstObject(object, "source", "deprecatedSource")
	e.Host = nonEmpty(source, "host")
	if e.ReportingController == "" {
		e.ReportingController = nonEmpty(source, "component")
	}
	if e.ReportingInstance == "" {
		e.ReportingInstance = e.Host
	}
	regarding := firstObject(object, "involvedObject", "regarding")
	e.Regarding = Reference{
		APIVersion: nonEmpty(regarding, "apiVersion"), Kind: nonEmpty(regarding, "kind"), Namespace: nonEmpty(regarding, "namespace"),
		Name: nonEmpty(regarding, "name"), UID: nonEmpty(regarding, "uid"),
		ResourceVersion: nonEmpty(regarding, "resourceVersion"), FieldPath: nonEmpty(regarding, "fieldPath"),
	}

	var observed []string
	for _, series := range object.Get("series") {
		if text := series.FirstString("lastObservedTime"); text != "" {
			observed = append(observed, text)
			break
		}
	}
	for _, keys := range [][]string{{"lastTimestamp", "deprecatedLastTimestamp"}, {"eventTime"}, {"firstTimestamp", "deprecatedFirstTimestamp"}} {
		observed = append(observed, firstString(object, keys...))
	}
	for _, text := range observed {
		if want.Times.Observed = parseTime(text); !want.Times.Observed.IsZero() {
			return
		}
	}
}

func podFacts(object oracle.Tree) *Pod {
	below := func(parent, key string) string {
		for _, parent := range object.Get(parent) {
			if values := parent.Get(key); slices.ContainsFunc(values, isString) {
				return parent.FirstString(key)
			}
		}
		return ""
	}
	p := &Pod{Node: below("spec", "nodeName"), Phase: below("status", "phase"), IP: below("status", "podIP"), Started: below("status", "startTime")}
	if parseTime(p.Started).IsZero() {
		p.Started = ""
	}
	for _, labels := range firstObject(object, "metadata").Get("labels") {
		if values := labels.Get("pod-template-hash"); slices.ContainsFunc(values, isString) {
			p.TemplateHash = labels.FirstString("pod-template-hash")
			break
		}
	}
	return p
}

func isString(t oracle.Tree) bool {
	_, ok := t.Scalar.(string)
	return ok
}

// firstString returns the first string of the members with these keys.
func firstString(object oracle.Tree, keys ...string) string {
	for _, m := range object.Members {
		if text, ok := m.Value.Scalar.(string); ok && slices.Contains(keys, m.Key) {
			return text
		}
	}
	return ""
}

// nonEmpty returns the first string under a key that is not empty.
func nonEmpty(object oracle.Tree, key string) string {
	for _, v := range object.Get(key) {
		if text, ok := v.Scalar.(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// firstObject returns the first object of the members with these keys.
func firstObject(object oracle.Tree, keys ...string) oracle.Tree {
	for _, m := range object.Members {
		if m.Value.Kind == '{' && slices.Contains(keys, m.Key) {
			return m.Value
		}
	}
	return oracle.Tree{}
}

// numbers returns the numbers of the members with these keys, 0 for those that are no integers.
func numbers(object oracle.Tree, keys ...string) (all []int64) {
	for _, m := range object.Members {
		if number, ok := m.Value.Scalar.(json.Number); ok && slices.Contains(keys, m.Key) {
			n, _ := number.Int64()
			all = append(all, n)
		}
	}
	return all
}

func parseTime(s string) time.Time {
	text, _ := json.Marshal(s)
	var t time.Time
	if json.Unmarshal(text, &t) != nil {
		return time.Time{}
	}
	return t.UTC()
}
