package testobjects

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact/oracle"
)

// Seen redacts an object decoded by encoding/json with the slow implementation of the redaction policy. Its
// fingerprints have only a length; see [WithoutFingerprints].
func Seen(object map[string]any, group, resource string) map[string]any {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // encoding/json can encode what it has decoded
	}
	tree, _, err := oracle.Parse(text)
	if err != nil {
		panic(err)
	}
	seen := oracle.Expected(tree, group, resource, func(value []byte) string {
		if len(value) < 16 {
			return "[REDACTED len=<16]"
		}
		return fmt.Sprintf("[REDACTED len=%d]", len(value))
	})
	return generic(seen).(map[string]any)
}

// generic returns the value as encoding/json decodes it.
func generic(t oracle.Tree) any {
	switch t.Kind {
	case '{':
		object := make(map[string]any, len(t.Members))
		for _, m := range t.Members {
			object[m.Key] = generic(m.Value)
		}
		return object
	case '[':
		array := make([]any, 0, len(t.Items))
		for _, item := range t.Items {
			array = append(array, generic(item))
		}
		return array
	}
	if t.Document != nil {
		text, _ := json.Marshal(generic(*t.Document))
		return string(text)
	}
	if n, ok := t.Scalar.(json.Number); ok {
		f, _ := n.Float64()
		return f
	}
	return t.Scalar
}

var fingerprint = regexp.MustCompile(` hmac=[0-9a-f]{32}\]`)

// WithoutFingerprints removes the key-dependent part from the marks of masked values.
func WithoutFingerprints(text []byte) []byte { return fingerprint.ReplaceAll(text, []byte("]")) }
