package redact

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// No nearly matching text makes the rules quadratic. A text twice as long must not take much more than twice the time,
// which is checked with a limit that only quadratic time exceeds.
func TestTextsOfNearlyMatchingPartsTakeLinearTime(t *testing.T) {
	size := 1 << 20
	if raceEnabled {
		size >>= 4
	}
	for _, part := range []string{
		"-", "--", "--password ", "-----BEGIN ", "-----BEGIN PRIVATE KEY", `"`, `\"`, `password="`, `password='\"`, "password=", "password: ", "password:\n", "a=", "=", ":", "://", "x://a:b/", "x://a:b@",
		"eyJ-", "eyJ", "eyJaaaaaaaa.eyJ", "bearer ", "bearer aaaaaaaaaaaaaaaaaaaaaaaa ", "ghp_", "sk-", "AKIA", "abcdef.0123456789abcde", "a.", "$2a$", "{SHA}", "@tcp(", "a:b@tcp", "?sig=", "&a&a", "{{ password: {{",
		"{", "[", `{"a":`, `[1,`, "YWJj", "QUJD\n", "H4sI", "data:,", "kind: ", "\nkind: Secret", "\n- name: x\n  value: y", "\n- ", "\n  - - - ", "env:\n  a: b\n", "token:\n- ", "password: |\n", "  ", "\t", "\n", "${", "$(", "`", "curl -u ", "mysql -p", "a;", "'", "é", "\\",
	} {
		text := strings.Repeat(part, size/len(part))
		for _, in := range []any{
			map[string]any{"a": text},
			map[string]any{"command": []string{"sh", "-c", text}},
			map[string]any{"password": text, "x": []string{text}},
		} {
			data, err := json.Marshal(in)
			require.NoError(t, err)
			start := time.Now()
			_, _, err = pods.Decode(data)
			require.NoError(t, err)
			took := time.Since(start)
			assert.Less(t, took, 5*time.Second, "%q", part)
			if took > 500*time.Millisecond {
				t.Logf("%q takes %v", part, took)
			}
		}
	}
}

// Objects whose values have to be walked again, because their kind comes late, do not take long either.
func TestObjectsWithLateKindsTakeLinearTime(t *testing.T) {
	n := 4000
	if raceEnabled {
		n >>= 2
	}
	for name, data := range map[string]string{
		"lists of Secrets in lists": strings.Repeat(`{"items":[`, n) + `1` + strings.Repeat(`],"kind":"SecretList"}`, n),
		"templates":                 strings.Repeat(`{"template":{"data":{"a":"b"},"x":`, n) + `1` + strings.Repeat(`}}`, n) + ``,
		"pairs":                     strings.Repeat(`{"value":`, n) + `1` + strings.Repeat(`,"name":"password"}`, n),
		"commands":                  strings.Repeat(`{"args":[`, n) + `1` + strings.Repeat(`],"command":["mysql"]}`, n),
	} {
		start := time.Now()
		obj := decode(t, pods, data)
		assert.Less(t, time.Since(start), 5*time.Second, name)
		assert.True(t, json.Valid([]byte(obj.JSON)), name)
	}
}

// A failure with one object costs its body, and never reveals it.
func TestObjectsThatCannotBeWalkedKeepTheirIdentity(t *testing.T) {
	defer func() { testPanic = nil }()
	testPanic = func() { panic("hunter2") }
	counts := &countingObserver{}
	obj, n, err := NewPolicy(Options{}).Plan("", "pods", counts).Decode([]byte(`{"metadata":{"name":"n","uid":"u"},"spec":{"password":"hunter2"}} `))
	require.NoError(t, err)
	assert.Equal(t, 65, n)
	assert.Equal(t, Object{Identity: Identity{Name: "n", UID: "u"}, JSON: `{"metadata":{"name":"n","uid":"u"}}`, RedactionFailed: true}, obj)
	assert.Equal(t, 1, counts.failed)
}

type countingObserver struct {
	redacted map[Rule]int
	kept     int
	failed   int
}

func (o *countingObserver) Redacted(rule Rule, n int) {
	if o.redacted == nil {
		o.redacted = map[Rule]int{}
	}
	o.redacted[rule] += n
}
func (o *countingObserver) Kept(n int) { o.kept += n }
func (o *countingObserver) Failed()    { o.failed++ }

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name            string
		options         Options
		group, resource string
		in, out         string
		kept            int
	}{
		{"ConfigMaps are scanned", Options{ConfigMaps: ConfigMapScan}, "", "configmaps", `{"data":{"password":"x","a":"b","c":"token=x"}}`, `{"data":{"password":"[REDACTED]","a":"b","c":"token=[REDACTED]"}}`, 0},
		{"ConfigMaps are kept", Options{ConfigMaps: ConfigMapKeep}, "", "configmaps", `{"data":{"password":"x"}}`, `{"data":{"password":"x"}}`, 0},
		{"the environment is scanned", Options{Environment: EnvironmentScan}, "", "pods", `{"env":[{"name":"A","value":"b"},{"name":"API_KEY","value":"c"},{"name":"D","value":"https://u:p@h"}]}`, `{"env":[{"name":"A","value":"b"},{"name":"API_KEY","value":"[REDACTED]"},{"name":"D","value":"https://u:[REDACTED]@h"}]}`, 0},
		{"more keys", Options{MaskKeys: []string{"licenseText", "*_pin"}}, "", "pods", `{"license_text":"x","myLicenseText":"x","sublicensetext":"x","door_pin":"y","spin":"z"}`, `{"license_text":"[REDACTED]","myLicenseText":"[REDACTED]","sublicensetext":"x","door_pin":"[REDACTED]","spin":"z"}`, 0},
		{"a variable is kept", Options{Keep: []Keep{{Resource: "pods", Paths: []string{"spec.containers.*.env.LOG_LEVEL"}}}}, "", "pods", `{"spec":{"containers":[{"env":[{"name":"LOG_LEVEL","value":"debug"},{"name":"B","value":"c"}]}]}}`, `{"spec":{"containers":[{"env":[{"name":"LOG_LEVEL","value":"debug"},{"name":"B","value":"[REDACTED]"}]}]}}`, 1},
		{"data of one ConfigMap are kept", Options{Keep: []Keep{{Resource: "configmaps", Namespaces: []string{"m"}, Names: []string{"g-*"}, Paths: []string{"data.*"}}}}, "", "configmaps", `{"metadata":{"namespace":"m","name":"g-1"},"data":{"a.json":"b"}}`, `{"metadata":{"namespace":"m","name":"g-1"},"data":{"a.json":"b"}}`, 1},
		{"a key with dots is kept", Options{Keep: []Keep{{Resource: "configmaps", Paths: []string{"data.a.json"}}}}, "", "configmaps", `{"data":{"a.json":"b","c":"d"}}`, `{"data":{"a.json":"b","c":"[REDACTED]"}}`, 1},
		{"others are not", Options{Keep: []Keep{{Resource: "configmaps", Names: []string{"g-*"}, Paths: []string{"data.*"}}}}, "", "configmaps", `{"metadata":{"name":"h"},"data":{"a":"b"}}`, `{"metadata":{"name":"h"},"data":{"a":"[REDACTED]"}}`, 0},
		{"Secrets cannot be kept", Options{Keep: []Keep{{Group: "g", Resource: "things", Paths: []string{"spec"}}}}, "g", "things", `{"spec":{"a":{"kind":"Secret","data":{"a":"b"}},"password":"x","s":"token=x"}}`, `{"spec":{"a":{"kind":"Secret","data":{"a":"[REDACTED]"}},"password":"x","s":"token=x"}}`, 2},
		{"nor the resource", Options{Keep: []Keep{{Resource: "secrets", Paths: []string{"data"}}}}, "", "secrets", `{"data":{"a":"b"}}`, `{"data":{"a":"[REDACTED]"}}`, 0},
	} {
		counts := &countingObserver{}
		obj, _, err := NewPolicy(c.options).Plan(c.group, c.resource, counts).Decode([]byte(c.in))
		require.NoError(t, err, c.name)
		assert.Equal(t, c.out, fingerprints.ReplaceAllString(obj.JSON, Masked), c.name)
		assert.Equal(t, c.kept, counts.kept, c.name)
	}
	counts := &countingObserver{}
	_, _, err := NewPolicy(Options{}).Plan("", "pods", counts).Decode([]byte(`{"a":"{\"password\":\"x\",\"b\":\"token=x https://u:p@h\"}","env":{"A":"b","B":"c"}}`))
	require.NoError(t, err)
	assert.Equal(t, map[Rule]int{RuleKey: 1, RuleAssignment: 1, RuleURL: 1, RuleEnvironment: 2}, counts.redacted)
}
