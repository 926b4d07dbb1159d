package redact

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact/oracle"
)

var resources = []struct{ group, resource string }{
	{"", "pods"}, {"", "secrets"}, {"", "events"}, {"events.k8s.io", "events"}, {"apps", "deployments"}, {"example.com", "secrets"},
	{"", "configmaps"}, {"external-secrets.io", "externalsecrets"},
}

// plans holds the plans of the resources, in their order.
var plans = func() (all []*Plan) {
	for _, r := range resources {
		all = append(all, NewPlan(r.group, r.resource))
	}
	return all
}()

// checkDecode checks the properties that hold for any data.
func checkDecode(t *testing.T, data []byte, resource int) {
	t.Helper()
	checkDecodeAs(t, data, plans[resource], resources[resource].group, resources[resource].resource)
}

func checkDecodeAs(t *testing.T, data []byte, plan *Plan, group, resource string) {
	t.Helper()
	original := bytes.Clone(data)
	obj, n, err := plan.Decode(data)
	require.Equal(t, original, data, "the data is not modified")

	in, end, wantErr := oracle.Parse(original)
	if wantErr != nil {
		require.Error(t, err)
		require.Equal(t, Object{}, obj)
		_, _ = plan.Identify(data)
		return
	}
	require.NoError(t, err)
	require.Equal(t, end, n)

	id, err := plan.Identify(data)
	require.NoError(t, err)
	require.Equal(t, obj.Identity, id)

	// A decoded object does not change with the buffer that it came from.
	for i := range data {
		data[i] = 'X'
	}
	copy2, id2 := cloneObject(obj), id
	copy(data, original)
	require.Equal(t, copy2, obj)
	require.Equal(t, id2, id)

	require.True(t, utf8.ValidString(obj.JSON))
	var compact bytes.Buffer
	require.NoError(t, json.Compact(&compact, []byte(obj.JSON)))
	require.Equal(t, compact.String(), obj.JSON)

	out, _, err := oracle.Parse([]byte(obj.JSON))
	require.NoError(t, err)
	defer func() {
		if t.Failed() {
			t.Logf("%s", original)
		}
	}()
	requireSame(t, expected(in, group, resource), out, resource)

	want := expectedFacts(in, group, resource)
	// Text that may hold a secret is masked in the facts as in the JSON.
	seen := expectedFacts(out, group, resource)
	ofWant, ofSeen := redactedFacts(&want), redactedFacts(&seen)
	for i, text := range ofWant {
		if *text != "" {
			*text = *ofSeen[i]
		}
	}
	wanted := []*Manager{&want.Managers[0], &want.Managers[1], &want.Scaler}
	for i, m := range []Manager{obj.Managers[0], obj.Managers[1], obj.Scaler} {
		w := wanted[i]
		for text, seen := range map[*string]string{&w.Name: m.Name, &w.Operation: m.Operation, &w.Subresource: m.Subresource} {
			if *text != "" && seen == Masked {
				*text = Masked
			}
		}
	}
	want.JSON, want.Content = obj.JSON, obj.Content // which has tests of its own
	require.Equal(t, want, obj)

	again, _, err := plan.Decode([]byte(obj.JSON))
	require.NoError(t, err)
	if !anyText && !strings.Contains(obj.JSON, "hmac=") { // it may contain the fingerprint of a fingerprint
		require.Equal(t, obj.JSON, again.JSON, "redaction is idempotent")
	}
}

// redactedFacts are the facts to which the rules for texts apply.
func redactedFacts(o *Object) []*string {
	facts := []*string{&o.APIVersion, &o.Kind, &o.Owner.APIVersion, &o.Owner.Kind}
	if e := o.Event; e != nil {
		r := &e.Regarding
		facts = append(facts, &e.Type, &e.Reason, &e.Action, &e.Note, &e.ReportingController, &e.ReportingInstance, &e.Host,
			&r.APIVersion, &r.Kind, &r.Namespace, &r.Name, &r.UID, &r.ResourceVersion, &r.FieldPath)
	}
	if p := o.Pod; p != nil {
		facts = append(facts, &p.Node, &p.Phase, &p.IP, &p.Started, &p.TemplateHash)
	}
	return facts
}

// cloneObject copies all strings.
func cloneObject(o Object) Object {
	if o.Event != nil {
		e := *o.Event
		o.Event = &e
	}
	if o.Pod != nil {
		p := *o.Pod
		o.Pod = &p
	}
	for _, s := range append(redactedFacts(&o), &o.UID, &o.ResourceVersion, &o.Namespace, &o.Name, &o.Owner.Name, &o.Owner.UID, &o.JSON,
		&o.Managers[0].Name, &o.Managers[0].Operation, &o.Managers[0].Subresource, &o.Managers[1].Name, &o.Managers[1].Operation, &o.Managers[1].Subresource,
		&o.Scaler.Name, &o.Scaler.Operation, &o.Scaler.Subresource) {
		*s = strings.Clone(*s)
	}
	return o
}

func TestDecodeAgreesWithTheOracleOnRealObjects(t *testing.T) {
	for _, file := range realObjects(t) {
		for r := range resources {
			data := realObject(t, file)
			checkDecode(t, data, r)
			var pretty bytes.Buffer
			require.NoError(t, json.Indent(&pretty, data, "", "\t"))
			checkDecode(t, pretty.Bytes(), r)
		}
	}
}

func TestDecodeAgreesWithTheOracleOnRandomObjects(t *testing.T) {
	rounds := 5_000
	if testing.Short() || raceEnabled {
		rounds = 500
	}
	for seed := range rounds {
		g := &generator{rand: rand.New(rand.NewPCG(uint64(seed), 1))}
		g.object(0)
		data := append(g.out, g.pick("", "", "", " ", "}", `{"a":1}`, "x")...)
		checkDecode(t, data, g.rand.IntN(len(resources)))
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, data)
		}
	}
}

func TestDecodeReportsTruncatedObjects(t *testing.T) {
	for _, file := range realObjects(t) {
		data := bytes.TrimSpace(realObject(t, file))
		for end := 0; end < len(data); end += 1 + end/100 {
			_, _, err := plans[0].Decode(data[:end:end])
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	}
}

// generator writes random objects with the keys and shapes that the rules look for, well-formed and malformed.
type generator struct {
	rand *rand.Rand
	out  []byte
}

var randomKeys = []string{
	"metadata", "metadata", "managedFields", "annotations", "kubectl.kubernetes.io/last-applied-configuration", "kapp.k14s.io/original", "objectset.rio.cattle.io/applied",
	"kind", "kind", "apiVersion", "data", "data", "stringData", "type", "immutable", "containers", "containers", "initContainers", "ephemeralContainers", "env", "env", "env", "value", "value", "valueFrom",
	"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "ownerReferences", "controller", "time",
	"annotations", "labels", "matchLabels", "nodeSelector", "template", "template", "secretTemplate", "items", "items", "binaryData", "envVars", "extraEnv", "my_env", "buildArgs",
	"headers", "httpHeaders", "requestHeaderModifier", "remove", "accept", "X-Api-Key", "command", "args", "extraArgs", "script", "password", "clientSecret", "secretName", "secret", "API_KEY", "apiKey",
	"tokenUrl", "token", "privateKey", "publicKey", "secretKey", "key", "path", "default", "values", "secretRef", "passwordSecretRef", "credentials", "auth", "userData", "lastAppliedSpec", "example.com/last-applied",
	"original", "openAPIV3Schema", "openshift.io/token-secret.value", "checksum/secret", "imagePullSecret", "password2", "source", "status", "message", "type", "optional",
	"involvedObject", "regarding", "fieldPath", "reason", "note", "action", "count", "deprecatedCount", "reportingComponent", "reportingController", "reportingInstance",
	"manager", "subresource", "operation", "deprecatedSource", "component", "host", "nodeName", "phase", "podIP", "startTime", "pod-template-hash",
	"series", "lastObservedTime", "lastTimestamp", "eventTime", "firstTimestamp", "deprecatedLastTimestamp", "spec", "x", "", "größe", "dat", "envs", "Data",
}

func (g *generator) pick(choices ...string) string { return choices[g.rand.IntN(len(choices))] }

func (g *generator) write(s string) { g.out = append(g.out, s...) }

func (g *generator) space() {
	if g.rand.IntN(20) == 0 {
		g.write(g.pick(" ", "\n", "\t\r ", "  "))
	}
}

func (g *generator) object(depth int) {
	g.write("{")
	g.space()
	for i := range g.rand.IntN(7) {
		if i > 0 {
			g.write(",")
			g.space()
		}
		key := randomKeys[g.rand.IntN(len(randomKeys))]
		g.string(key)
		g.space()
		g.write(":")
		g.space()
		if key == "kind" && g.rand.IntN(2) == 0 {
			g.string(g.pick("Secret", "Secret", "ConfigMap", "SecretList", "ConfigMapList", "SealedSecret"))
		} else if key == "name" && g.rand.IntN(2) == 0 {
			g.string(g.pick("db-password", "LOG_LEVEL", "Authorization", "Accept", "/data/password", "/spec/env/0", "token"))
		} else if (key == "command" || key == "args") && g.rand.IntN(2) == 0 {
			g.command()
		} else {
			g.value(depth + 1)
		}
		g.space()
	}
	g.write("}")
}

func (g *generator) command() {
	g.write("[")
	for i := range g.rand.IntN(6) {
		if i > 0 {
			g.write(",")
		}
		g.string(g.pick("--password", "--password=hunter2", "--token-ttl=24h", "hunter2", "program", "--token", "-v", "$(VAR)", "--password=$(VAR)", ""))
	}
	g.write("]")
}

func (g *generator) array(depth int) {
	g.write("[")
	g.space()
	for i := range g.rand.IntN(4) {
		if i > 0 {
			g.write(",")
			g.space()
		}
		g.value(depth + 1)
		g.space()
	}
	g.write("]")
}

func (g *generator) value(depth int) {
	switch n := g.rand.IntN(10); {
	case n < 5 && depth < 6:
		g.object(depth)
	case n < 7 && depth < 6:
		g.array(depth)
	case n == 7:
		g.write(g.pick("null", "true", "false", "0", "-1.5e3", "12345678901234567890123", strconv.Itoa(g.rand.IntN(1000))))
	default:
		g.string(g.pick("Secret", "Secret", "Pod", "v1", "", "plain", "with \"quotes\" \\ and\nlines", "größe 日本", "2026-07-30T09:14:18Z", "2026-07-30T09:14:19.5+02:00", "not a time", "u-1", "c2VjcmV0", "true", "$(VAR)", "/etc/passwords", "hunter2",
			`{"password":"hunter2","a":1}`, `[{"name":"token","value":"x"}]`, `{"kind":"Secret","data":{"a":"eA=="}}`, `{"a":{"b":"c"}}`, `{"a":"{\"token\":\"x\"}"}`, `{"a":"{\"b\":\"{\\\"c\\\":1}\"}"}`,
			"postgres://user:hunter2@db/x", "see AKIAIOSFODNN7EXAMPLE there"))
	}
}

// string writes a string in one of its possible encodings, sometimes with bytes that are not UTF-8.
func (g *generator) string(s string) {
	text, _ := json.Marshal(s)
	inside := string(text[1 : len(text)-1])
	switch g.rand.IntN(12) {
	case 0:
		if at := g.rand.IntN(len(s) + 1); at < len(s) && s[at] < 0x80 {
			var head []byte
			head, _ = json.Marshal(s[:at])
			tail, _ := json.Marshal(s[at+1:])
			inside = string(head[1:len(head)-1]) + `\u00` + strconv.FormatUint(uint64(s[at])+0x100, 16)[1:] + string(tail[1:len(tail)-1])
		}
	case 1:
		if g.rand.IntN(4) == 0 && !strings.Contains(s, `"`) { // text that is nearly JSON
			inside += "\xff" + g.pick("", "\xed\xa0\x80", "z", `\ud800`)
		}
	}
	g.write(`"` + inside + `"`)
}

func TestGeneratorReachesTheRules(t *testing.T) {
	var masked, late int
	for seed := range 1000 {
		g := &generator{rand: rand.New(rand.NewPCG(uint64(seed), 1))}
		g.object(0)
		obj, _, err := plans[0].Decode(g.out)
		require.NoError(t, err)
		if strings.Contains(obj.JSON, Masked) {
			masked++
		}
		w := &walk{plan: plans[0], data: g.out, scanner: scanner{keys: standardKeys}}
		if _, err = w.object(0, plans[0].root, 0); err == nil && len(w.late) > 0 {
			late++
		}
	}
	assert.Greater(t, masked, 100)
	assert.Greater(t, late, 10, "Secrets whose kind comes after their data")
}
