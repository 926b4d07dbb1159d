package servertext

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestQuotedObjectsAreCutOff(t *testing.T) {
	const sentinel = "c2VudGluZWw="
	for text, want := range map[string]string{
		`Object 'Kind' is missing in '{"apiVersion":"v1","data":{"password":"` + sentinel + `"}}'`:                              "Object 'Kind' is missing in",
		`cannot decode {"apiVersion":"v1","data":{"password":"` + sentinel + `"}}`:                                              "cannot decode",
		`cannot decode { "data": "` + sentinel + `" }`:                                                                          "cannot decode",
		`cannot decode "{\"data\":{\"password\":\"` + sentinel + `\"}}"`:                                                        "cannot decode",
		`cannot decode {\"data\":{\"password\":\"` + sentinel + `\"}}`:                                                          "cannot decode",
		`cannot decode [{"data":"` + sentinel + `"}]`:                                                                           "cannot decode",
		`cannot decode ["` + sentinel + `"]`:                                                                                    "cannot decode",
		`invalid object: map[data:map[password:` + sentinel + `]]`:                                                              "invalid object",
		`Invalid value: core.Secret{Data:map[string][]uint8{"password":[]uint8{0x73}}}`:                                         "Invalid value: core.Secret",
		`Invalid value: &core.Secret{StringData:{password: ` + sentinel + `}}`:                                                  "Invalid value: &core.Secret",
		"cannot decode:\napiVersion: v1\ndata:\n  password: " + sentinel:                                                        "cannot decode:",
		"cannot decode:\r\ndata: " + sentinel:                                                                                   "cannot decode:",
		"cannot decode `{data: " + sentinel + "}`":                                                                              "cannot decode",
		`{"kind":"Secret","data":{"password":"` + sentinel + `"}}`:                                                              "",
		`pods is forbidden: User "system:serviceaccount:a:b" cannot watch resource "pods" in API group "" at the cluster scope`: `pods is forbidden: User "system:serviceaccount:a:b" cannot watch resource "pods" in API group "" at the cluster scope`,
		`RBAC: [clusterrole.rbac.authorization.k8s.io "x" not found]`:                                                           `RBAC: [clusterrole.rbac.authorization.k8s.io "x" not found]`,
		`field label {.spec.nonsense} is not supported`:                                                                         `field label {.spec.nonsense} is not supported`,
		"one\x1b[31mtwo\x00\xffthree\tfour":                                                                                     "one [31mtwo three four",
	} {
		got := Clean(text)
		assert.NotContains(t, got, sentinel)
		assert.Equal(t, want, got)
	}
}

// The important part of a long error is its end.
func TestLongTextKeepsItsEnd(t *testing.T) {
	got := Clean("cannot reach " + strings.Repeat("é", 100_000) + ": connection refused")
	assert.Equal(t, MaxRunes, utf8.RuneCountInString(got))
	assert.True(t, strings.HasPrefix(got, "cannot reach é"))
	assert.True(t, strings.HasSuffix(got, ": connection refused"))
}

func TestCleanStatus(t *testing.T) {
	details := &metav1.StatusDetails{RetryAfterSeconds: 86400}
	status := metav1.Status{Message: `initializing '{"a":1}'`, Code: 429, Details: details}
	CleanStatus(&status)
	assert.Equal(t, "initializing (it asks to be left alone for 24h0m0s; waiting 5m0s at most)", status.Message)
	assert.EqualValues(t, 300, status.Details.RetryAfterSeconds)
	assert.EqualValues(t, 86400, details.RetryAfterSeconds, "the caller's value is unchanged")

	status = metav1.Status{Reason: metav1.StatusReasonForbidden, Code: 403}
	CleanStatus(&status)
	assert.Equal(t, "status 403 Forbidden without a readable message", status.Message)
}

func TestSecretsInServerTextAreMasked(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://user:hunter2@10.0.0.1/api": EOF`:                                      `Get "https://user:[REDACTED]@10.0.0.1/api": EOF`,
		`Pod "x" is invalid: spec.containers[0].env[0].value: Invalid value: "hunter2": no`: `Pod "x" is invalid: spec.containers[0].env[0].value: Invalid value: "[REDACTED]": no`,
		`webhook refused Authorization: Bearer abcdefgh12345678`:                            `webhook refused Authorization: Bearer [REDACTED]`,
	} {
		assert.Equal(t, want, Clean(text))
	}
}
