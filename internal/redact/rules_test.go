package redact

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	pods    = NewPlan("", "pods")
	secrets = NewPlan("", "secrets")
)

var fingerprints = regexp.MustCompile(`\[REDACTED len=(<16|\d\d+) hmac=[0-9a-f]{32}\]`)

type ruleCase struct{ name, in, out string }

func checkRules(t *testing.T, plan *Plan, cases []ruleCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			obj, n, err := plan.Decode([]byte(c.in))
			require.NoError(t, err)
			assert.Equal(t, len(c.in), n)
			assert.Equal(t, c.out, fingerprints.ReplaceAllString(obj.JSON, Masked))
		})
	}
}

func TestPrunedMetadata(t *testing.T) {
	checkRules(t, pods, []ruleCase{
		{"managedFields", `{"metadata":{"name":"a","managedFields":[{"manager":"m"}],"uid":"u"}}`, `{"metadata":{"name":"a","uid":"u"}}`},
		{"managedFields first", `{"metadata":{"managedFields":[],"uid":"u"}}`, `{"metadata":{"uid":"u"}}`},
		{"managedFields last", `{"metadata":{"uid":"u","managedFields":[]}}`, `{"metadata":{"uid":"u"}}`},
		{"managedFields alone", `{"metadata":{"managedFields":[]}}`, `{"metadata":{}}`},
		{"managedFields of any shape", `{"metadata":{"managedFields":"x","uid":"u"}}`, `{"metadata":{"uid":"u"}}`},
		{"managedFields twice", `{"metadata":{"managedFields":[1],"uid":"u","managedFields":{}}}`, `{"metadata":{"uid":"u"}}`},
		{"managedFields of a template", `{"spec":{"template":{"metadata":{"managedFields":[{}],"labels":{}}}}}`, `{"spec":{"template":{"metadata":{"labels":{}}}}}`},
		{"managedFields of an item", `{"items":[{"metadata":{"managedFields":[{}]}},{"metadata":{"managedFields":[{}]}}]}`, `{"items":[{"metadata":{}},{"metadata":{}}]}`},
		{"managedFields of a second metadata", `{"metadata":{"a":1},"metadata":{"managedFields":[{}],"b":2}}`, `{"metadata":{"a":1},"metadata":{"b":2}}`},
		{"managedFields elsewhere", `{"spec":{"managedFields":[1],"objectMeta":{"managedFields":[{}]}}}`, `{"spec":{"objectMeta":{}}}`},
		{"managedFields as a value", `{"metadata":{"name":"managedFields"}}`, `{"metadata":{"name":"managedFields"}}`},
		{"last-applied", `{"metadata":{"annotations":{"a":"b","kubectl.kubernetes.io/last-applied-configuration":"{}","c":"d"}}}`, `{"metadata":{"annotations":{"a":"b","c":"d"}}}`},
		{"its family", `{"metadata":{"annotations":{"kapp.k14s.io/original":"x","objectset.rio.cattle.io/applied":"x","banzaicloud.com/last-applied":"x","consul.hashicorp.com/original-pod":"x"}}}`, `{"metadata":{"annotations":{}}}`},
		{"last-applied of a template", `{"spec":{"template":{"metadata":{"annotations":{"kapp.k14s.io/original":"x"}}}}}`, `{"spec":{"template":{"metadata":{"annotations":{}}}}}`},
		{"last-applied elsewhere", `{"metadata":{"labels":{"kapp.k14s.io/original":"x"}}}`, `{"metadata":{"labels":{"kapp.k14s.io/original":"x"}}}`},
		{"escaped keys", `{"meta\u0064ata":{"managed\u0046ields":[{}],"annotations":{"kapp.k14s.io\/original":"x"}}}`, `{"meta\u0064ata":{"annotations":{}}}`},
	})
}

func TestRedactionOfSecrets(t *testing.T) {
	checkRules(t, secrets, []ruleCase{
		{"data", `{"kind":"Secret","data":{"a":"x","b":"y"}}`, `{"kind":"Secret","data":{"a":"[REDACTED]","b":"[REDACTED]"}}`},
		{"stringData", `{"stringData":{"a":"x"}}`, `{"stringData":{"a":"[REDACTED]"}}`},
		{"data before kind", `{"data":{"a":"x"},"kind":"Secret"}`, `{"data":{"a":"[REDACTED]"},"kind":"Secret"}`},
		{"values of any shape", `{"data":{"a":1,"b":null,"c":["x"],"d":{"e":"x"}}}`, `{"data":{"a":"[REDACTED]","b":null,"c":["[REDACTED]"],"d":{"e":"[REDACTED]"}}}`},
		{"data of any shape", `{"data":["x"],"stringData":"x"}`, `{"data":["[REDACTED]"],"stringData":"[REDACTED]"}`},
		{"data null", `{"data":null}`, `{"data":null}`},
		{"data twice", `{"data":{"a":"x"},"data":{"a":"y"}}`, `{"data":{"a":"[REDACTED]"},"data":{"a":"[REDACTED]"}}`},
		{"escaped keys", `{"\u0064ata":{"\u0061":"x"}}`, `{"\u0064ata":{"\u0061":"[REDACTED]"}}`},
		{"fields of a Secret", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n","labels":{"l":"v"}},"type":"Opaque","immutable":true}`, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n","labels":{"l":"v"}},"type":"Opaque","immutable":true}`},
		{"other fields", `{"Data":{"a":"x"},"spec":"x","metadata":{}}`, `{"Data":{"a":"[REDACTED]"},"spec":"[REDACTED]","metadata":{}}`},
		{"unknown shapes", `{"type":{"a":"x"},"metadata":"x","kind":["x"]}`, `{"type":{"a":"[REDACTED]"},"metadata":"[REDACTED]","kind":["[REDACTED]"]}`},
		{"a whole list", `{"kind":"SecretList","items":[{"data":{"a":"x"}}]}`, `{"kind":"SecretList","items":[{"data":{"a":"[REDACTED]"}}]}`},
	})
}

func TestSecretsAreFoundUnderOtherPlans(t *testing.T) {
	checkRules(t, pods, []ruleCase{
		{"kind first", `{"kind":"Secret","apiVersion":"v1","data":{"a":"x"}}`, `{"kind":"Secret","apiVersion":"v1","data":{"a":"[REDACTED]"}}`},
		{"kind last", `{"apiVersion":"v1","data":{"a":"x"},"kind":"Secret"}`, `{"apiVersion":"v1","data":{"a":"[REDACTED]"},"kind":"Secret"}`},
		{"kind between", `{"data":{"a":"x"},"kind":"Secret","stringData":{"b":"y"}}`, `{"data":{"a":"[REDACTED]"},"kind":"Secret","stringData":{"b":"[REDACTED]"}}`},
		{"kind escaped", `{"data":{"a":"x"},"kin\u0064":"S\u0065cret"}`, `{"data":{"a":"[REDACTED]"},"kin\u0064":"S\u0065cret"}`},
		{"kind twice", `{"kind":"Secret","data":{"a":"x"},"kind":"Pod"}`, `{"kind":"Secret","data":{"a":"[REDACTED]"},"kind":"Pod"}`},
		{"data of any shape", `{"data":"x","stringData":[1],"kind":"Secret"}`, `{"data":"[REDACTED]","stringData":["[REDACTED]"],"kind":"Secret"}`},
		{"data that is a number", `{"data":42,"stringData":43,"kind":"Secret"}`, `{"data":"[REDACTED]","stringData":"[REDACTED]","kind":"Secret"}`},
		{"data that is a number, after the kind", `{"a":{"kind":"Secret","data":42}}`, `{"a":{"kind":"Secret","data":"[REDACTED]"}}`},
		{"data that is a boolean, nested", `{"a":[{"data":true,"kind":"Secret"},{"data":null,"kind":"Secret"}]}`, `{"a":[{"data":"[REDACTED]","kind":"Secret"},{"data":null,"kind":"Secret"}]}`},
		{"binaryData and items that are numbers", `{"a":{"binaryData":42,"kind":"ConfigMap"},"b":{"binaryData":42,"kind":"Secret"}}`, `{"a":{"binaryData":"[REDACTED]","kind":"ConfigMap"},"b":{"binaryData":"[REDACTED]","kind":"Secret"}}`},
		{"a template's data that is a number", `{"spec":{"template":{"data":42}},"kind":"SealedSecret"}`, `{"spec":{"template":{"data":"[REDACTED]"}},"kind":"SealedSecret"}`},
		{"nested", `{"spec":{"objects":[{"data":{"a":"x"},"kind":"Secret"},{"data":{"a":"x"},"kind":"ConfigMap"}]}}`, `{"spec":{"objects":[{"data":{"a":"[REDACTED]"},"kind":"Secret"},{"data":{"a":"[REDACTED]"},"kind":"ConfigMap"}]}}`},
		{"inside a Secret", `{"data":{"a":{"data":{"b":"x"},"kind":"Secret"}},"kind":"Secret"}`, `{"data":{"a":{"data":{"b":"[REDACTED]"},"kind":"[REDACTED]"}},"kind":"Secret"}`},
		{"around a Secret", `{"data":{"a":"x"},"inner":{"data":{"b":"y"},"kind":"Secret"},"kind":"Secret"}`, `{"data":{"a":"[REDACTED]"},"inner":{"data":{"b":"[REDACTED]"},"kind":"Secret"},"kind":"Secret"}`},
		{"inside a ConfigMap", `{"data":{"a":{"data":{"b":"x"},"kind":"Secret"}},"kind":"ConfigMap"}`, `{"data":{"a":{"data":{"b":"[REDACTED]"},"kind":"[REDACTED]"}},"kind":"ConfigMap"}`},
		{"with edits inside and around", `{"metadata":{"managedFields":[]}, "data": { "a": { "metadata": {"managedFields":[]} } , "b":1 } , "kind": "Secret" , "metadata":{"managedFields":[]}}`, `{"metadata":{},"data":{"a":{"metadata":{"managedFields":[]}},"b":"[REDACTED]"},"kind":"Secret","metadata":{}}`},
		{"another kind", `{"kind":"SecretStore","data":{"a":"x"}}`, `{"kind":"SecretStore","data":{"a":"x"}}`},
		{"kind of something else", `{"data":{"a":"x"},"ref":{"kind":"Secret","name":"n"}}`, `{"data":{"a":"x"},"ref":{"kind":"Secret","name":"n"}}`},
	})
}

func TestRedactionOfEnvironments(t *testing.T) {
	checkRules(t, pods, []ruleCase{
		{"containers", `{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"x"}]}]}}`, `{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"[REDACTED]"}]}]}}`},
		{"initContainers", `{"spec":{"initContainers":[{"env":[{"value":"x","name":"A"}]}]}}`, `{"spec":{"initContainers":[{"env":[{"value":"[REDACTED]","name":"A"}]}]}}`},
		{"ephemeralContainers", `{"spec":{"ephemeralContainers":[{"env":[{"value":""}]}]}}`, `{"spec":{"ephemeralContainers":[{"env":[{"value":"[REDACTED]"}]}]}}`},
		{"deep in a custom resource", `{"a":[[{"b":{"containers":[{},{"env":[{"value":1}]}]}}]]}`, `{"a":[[{"b":{"containers":[{},{"env":[{"value":"[REDACTED]"}]}]}}]]}`},
		{"valueFrom", `{"containers":[{"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"n","key":"value"}}}]}]}`, `{"containers":[{"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"n","key":"value"}}}]}]}`},
		{"values of any shape", `{"containers":[{"env":[{"value":{"a":"x"}},{"value":["x"]},{"value":null}]}]}`, `{"containers":[{"env":[{"value":{"a":"[REDACTED]"}},{"value":["[REDACTED]"]},{"value":null}]}]}`},
		{"value twice", `{"containers":[{"env":[{"value":"x","value":"y"}]}]}`, `{"containers":[{"env":[{"value":"[REDACTED]","value":"[REDACTED]"}]}]}`},
		{"env twice", `{"containers":[{"env":[{"value":"x"}],"env":[{"value":"y"}]}]}`, `{"containers":[{"env":[{"value":"[REDACTED]"}],"env":[{"value":"[REDACTED]"}]}]}`},
		{"elements that are no objects", `{"containers":[{"env":["A=x",["x"],1,null]}]}`, `{"containers":[{"env":["[REDACTED]",["[REDACTED]"],"[REDACTED]",null]}]}`},
		{"an object", `{"containers":[{"env":{"A":"x","B":1,"C":{"value":"x","valueFrom":{"secretKeyRef":{"name":"n"}}},"D":["x"]}}]}`, `{"containers":[{"env":{"A":"[REDACTED]","B":"[REDACTED]","C":{"value":"[REDACTED]","valueFrom":{"secretKeyRef":{"name":"n"}}},"D":["[REDACTED]"]}}]}`},
		{"a string", `{"containers":[{"env":"A=x"}]}`, `{"containers":[{"env":"[REDACTED]"}]}`},
		{"null", `{"containers":[{"env":null}]}`, `{"containers":[{"env":null}]}`},
		{"containers by name", `{"containers":{"web":{"env":[{"value":"x"}]}}}`, `{"containers":{"web":{"env":[{"value":"[REDACTED]"}]}}}`},
		{"escaped keys", `{"container\u0073":[{"e\u006ev":[{"\u0076alue":"x"}]}]}`, `{"container\u0073":[{"e\u006ev":[{"\u0076alue":"[REDACTED]"}]}]}`},
		{"env elsewhere", `{"spec":{"env":[{"value":"x"}],"value":"y"}}`, `{"spec":{"env":[{"value":"[REDACTED]"}],"value":"y"}}`},
		{"value elsewhere", `{"containers":[{"value":"x","args":[{"value":"y"}]}]}`, `{"containers":[{"value":"x","args":[{"value":"y"}]}]}`},
		{"a pod in a container", `{"containers":[{"x":{"containers":[{"env":[{"value":"x"}]}]}}]}`, `{"containers":[{"x":{"containers":[{"env":[{"value":"[REDACTED]"}]}]}}]}`},
	})
}

func TestEncodingsOfObjects(t *testing.T) {
	checkRules(t, pods, []ruleCase{
		{"empty", `{}`, `{}`},
		{"white space", " {\n\t\"a\" : [ 1 , 2 ] ,\r\"b\" : { } , \"c\":[ ] , \"d e\":\" f \" }", `{"a":[1,2],"b":{},"c":[],"d e":" f "}`},
		{"white space around what is dropped", `{"metadata": { "managedFields" : [ 1 ] , "a" : 1 , "managedFields" : [ 1 ] }}`, `{"metadata":{"a":1}}`},
		{"order", `{"z":1,"a":2,"m":{"y":1,"b":2}}`, `{"z":1,"a":2,"m":{"y":1,"b":2}}`},
		{"numbers", `{"a":123456789012345678901234567890,"b":-0,"c":1.50,"d":1E5,"e":1e400}`, `{"a":123456789012345678901234567890,"b":-0,"c":1.50,"d":1E5,"e":1e400}`},
		{"strings", `{"a":"\u003c\u00e9\ud800\/é\"\\"}`, `{"a":"\u003c\u00e9\ud800\/é\"\\"}`},
		{"bytes that are not UTF-8", "{\"a\xff\":\"b\xe2\x82\\nc\xfe\",\"d\":\"é\"}", "{\"a\uFFFD\":\"b\uFFFD\uFFFD\\nc\uFFFD\",\"d\":\"é\"}"},
		{"such bytes in what is dropped", "{\"metadata\":{\"managedFields\":\"\xff\",\"a\":\"\xff\"}}", "{\"metadata\":{\"a\":\"\uFFFD\"}}"},
	})
}

// Masked or dropped text is not in the JSON, so that an attribute cannot be a slice of it.
func TestAttributesDoNotExposeMaskedText(t *testing.T) {
	for in, want := range map[string]Object{
		`{"kind":"Pod","type":"x https://a:hunter2@b y"}`:                                               {Kind: "Pod", Event: &Event{Type: "x https://a:[REDACTED]@b y"}},
		`{"type":"{\"password\":\"hunter2\"}","kind":"Event"}`:                                          {Kind: "Event", Event: &Event{Type: `{"password":"[REDACTED]"}`}},
		`{"kind":"token=hunter2","apiVersion":"v1","metadata":{"managedFields":[],"name":"n"}}`:         {Event: &Event{}, Kind: "token=[REDACTED]", APIVersion: "v1", Identity: Identity{Name: "n"}},
		`{"metadata":{"managedFields":[{"time":"x"}],"name":"n"},"type":"-----BEGIN PRIVATE KEY-----"}`: {Event: &Event{Type: Masked}, Identity: Identity{Name: "n"}},
	} {
		obj := decode(t, NewPlan("", "events"), in)
		assert.NotContains(t, obj.JSON, "hunter2")
		obj.JSON, obj.Content = "", Content{}
		assert.Equal(t, want, obj, in)
	}
	// An edit may also begin before and end after it.
	w := &walk{data: []byte(`{"a":"fact"}`)}
	w.edits.add(1, 11, "")
	assert.Equal(t, "fact", w.stringOf(span{5, 11}, "{}", 0))
	w.edits[0].masks = true
	assert.Equal(t, Masked, w.stringOf(span{5, 11}, "{}", 0))
}
