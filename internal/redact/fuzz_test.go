package redact

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
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
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte, resource uint8) {
		checkDecode(t, data, int(resource)%len(resources))
	})
}

// FuzzIdentify looks for data that Identify and Decode see differently.
func FuzzIdentify(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte, resource uint8) {
		plan := plans[int(resource)%len(plans)]
		original := bytes.Clone(data)
		id, err := plan.Identify(data)
		b, bytesErr := plan.IdentifyBytes(data)
		require.Equal(t, err, bytesErr)
		require.Equal(t, id, b.Identity())
		require.Equal(t, original, data, "the data are not written to")
		if obj, _, decodeErr := plan.Decode(data); decodeErr == nil {
			require.NoError(t, err)
			require.Equal(t, obj.Identity, id)
		}
	})
}
