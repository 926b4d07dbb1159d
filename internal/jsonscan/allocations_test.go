//go:build !race

package jsonscan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The race detector empties pools now and then, so that this file is left out of its builds.
func TestAllocationsOfUnquote(t *testing.T) {
	inside := []byte(strings.Repeat(`\"key\":\"value\",`, 100))
	assert.InDelta(t, 1, testing.AllocsPerRun(100, func() { _ = Unquote(inside) }), 0.5)
}
