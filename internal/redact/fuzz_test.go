package redact

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact/oracle"
)

func addSeeds(f *testing.F) {
	for r := range resources {
		for _, file := range realObjects(f) {
			if data := realObject(f, file); len(data) < 2000 {
				f.Add(data, uint8(r))
			}
		}
		for _, leak := range leaks {
			f.Add([]byte(leak), uint8(r))
		}
	}
}

// FuzzDecode compares Decode with the oracle.
func FuzzDecode(f *testing.F) {
	anyText = true
	defer func() { anyText = false }()
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte, resource uint8) {
		checkDecode(t, data, int(resource)%len(resources))
	})
}

// FuzzIdentify looks for data for which Identify and Decode disagree.
func FuzzIdentify(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte, resource uint8) {
		plan := plans[int(resource)%len(plans)]
		original := bytes.Clone(data)
		id, err := plan.Identify(data)
		b, bytesErr := plan.IdentifyBytes(data)
		require.Equal(t, err, bytesErr)
		require.Equal(t, id, b.Identity())
		require.Equal(t, original, data, "the data is not modified")
		if obj, _, decodeErr := plan.Decode(data); decodeErr == nil {
			require.NoError(t, err)
			require.Equal(t, obj.Identity, id)
		}
	})
}

// FuzzText compares the rules for texts with regular expressions: whatever these match is masked, and a text without
// any sign of a secret is unchanged.
func FuzzText(f *testing.F) {
	for _, s := range texts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkText(t, s) })
}

func checkText(t *testing.T, s string) {
	t.Helper()
	out := Text(s)
	for _, secret := range oracle.Shapes(s) {
		if secret != Masked && strings.Count(out, secret) >= strings.Count(s, secret) {
			t.Fatalf("%q leaves %q", s, out)
		}
	}
	if oracle.IsInnocent(s) {
		require.Equal(t, s, out)
	}
	require.Equal(t, out, Text(out), "redaction is idempotent: %q", s)
}
