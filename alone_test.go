package k8swatchlistreceiver

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLaterPod(t *testing.T) {
	for name, want := range map[string]bool{
		"otelcol-1": true, "otelcol-12": true, "watch-list-2": true, "otelcol-0": false, "otelcol": false, "": false, "otelcol-01": false,
		"otelcol-7d4b9c6f5-24567": false, "otelcol-x2x4z": false, "-1": false,
	} {
		assert.Equal(t, want, laterPod.MatchString(name), name)
	}
}
