package jsonscan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNumberTellsIntegers(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-0": true, "7": true, "-42": true, "123456789012345678901234567890": true,
		"0.0": false, "1.5": false, "1e3": false, "1E-3": false, "-2.5e+10": false,
	} {
		end, integer, err := Number([]byte(text), 0)
		require.NoError(t, err, text)
		assert.Equal(t, len(text), end, text)
		assert.Equal(t, want, integer, text)
	}
}
