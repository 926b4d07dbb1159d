package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// forms returns the forms in which a secret may turn up.
func forms(secret string) []string {
	escaped := quoteInside(secret)
	var unicode strings.Builder
	for _, r := range secret {
		fmt.Fprintf(&unicode, `\u%04x`, r)
	}
	all := []string{secret, escaped, quoteInside(escaped), unicode.String()}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
		for shift := range 3 { // inside longer base64 it depends on the offset
			encoded := encoding.EncodeToString([]byte(strings.Repeat("-", shift) + secret))
			all = append(all, encoded[4:len(encoded)-4])
		}
	}
	return all
}

func quoteInside(s string) string {
	text, _ := json.Marshal(s)
	return string(text[1 : len(text)-1])
}

func assertNoForm(t *testing.T, secret, out, where string) {
	t.Helper()
	for _, form := range forms(secret) {
		assert.NotContains(t, out, form, where)
	}
}

var sentinel = regexp.MustCompile(`sentinel-[a-z-]+-4f1d`)

func TestNoSentinelOfRealObjectsIsSeen(t *testing.T) {
	found := 0
	for _, file := range realObjects(t) {
		data := string(realObject(t, file))
		secrets := sentinel.FindAllString(data, -1)
		for _, word := range strings.FieldsFunc(data, func(r rune) bool { return strings.ContainsRune(`"\,:{}`, r) }) {
			if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(word, "H4sI")); err == nil {
				secrets = append(secrets, sentinel.FindAllString(string(raw), -1)...)
			}
		}
		found += len(secrets)
		for r, plan := range plans {
			obj, _, err := plan.Decode([]byte(data))
			require.NoError(t, err)
			for _, secret := range secrets {
				assertNoForm(t, secret, fmt.Sprintf("%+v", obj), fmt.Sprint(file, " as ", resources[r]))
			}
		}
	}
	assert.Greater(t, found, 30)
}

// leaks are the places in which a secret, inserted for %s, must be masked.
var leaks = []string{
	`{"kind":"Secret","apiVersion":"v1","data":{"k":"%s"}}`,
	`{"kind":"Secret","apiVersion":"v1","stringData":{"k":"%s"}}`,
	`{"apiVersion":"v1","data":{"k":"%s"},"kind":"Secret"}`,
	`{"apiVersion":"v1","data":{"k":["%s"]},"kind":"Secret"}`,
	`{"apiVersion":"v1","\u0064ata":"%s","kind":"\u0053ecret"}`,
	`{"spec":{"resources":[{"apiVersion":"v1","stringData":{"a":"b","k":"%s"},"type":"Opaque","kind":"Secret"}]}}`,
	`{"kind":"Pod","spec":{"containers":[{"env":[{"name":"A","value":"%s"}]}]}}`,
	`{"kind":"Pod","spec":{"initContainers":[{"env":[{"value":"%s"}]}]}}`,
	`{"kind":"Pod","spec":{"ephemeralContainers":[{"env":{"A":"%s"}}]}}`,
	`{"kind":"Any","x":[{"containers":[{"env":["A=%s"]}]}]}`,
	`{"kind":"Any","x":[{"containers":[{"env":"A=%s"}]}]}`,
	`{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"%s"}}}`,
	`{"spec":{"template":{"metadata":{"annotations":{"consul.hashicorp.com/original-pod":"%s"}}}}}`,
	`{"metadata":{"managedFields":[{"fieldsV1":{"f:data":{"v:%s":{}}}}]}}`,
}

func TestNoSentinelIsSeenInAnyForm(t *testing.T) {
	const secret = "s3ntin3l \"<&>\" \\ é\n\tend"
	for _, leak := range leaks {
		for _, form := range forms(secret)[1:] {
			data := strings.Replace(leak, "%s", form, 1)
			require.True(t, json.Valid([]byte(data)))
			for r, plan := range plans {
				obj, _, err := plan.Decode([]byte(data))
				require.NoError(t, err)
				assertNoForm(t, secret, fmt.Sprintf("%+v", obj), fmt.Sprint(data, " as ", resources[r]))
			}
		}
	}
}

func TestNoSentinelIsSeenInErrors(t *testing.T) {
	const secret = "s3ntin3l"
	for _, leak := range leaks {
		data := strings.Replace(leak, "%s", secret, 1)
		for i := range data {
			for _, damaged := range []string{data[:i], data[:i] + "\x00" + data[i:], data[:i] + `"` + data[i:], data[:i] + data[i+1:]} {
				for _, plan := range plans[:2] {
					if _, _, err := plan.Decode([]byte(damaged)); err != nil {
						assert.Regexp(t, `^cannot decode object: [a-zA-Z ]+ at offset \d+$`, err.Error())
					}
					if _, err := plan.Identify([]byte(damaged)); err != nil {
						assert.Regexp(t, `^cannot identify object: [a-zA-Z ]+ at offset \d+$`, err.Error())
					}
				}
			}
		}
	}
}
