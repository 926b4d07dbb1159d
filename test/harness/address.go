package harness

import (
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// FreeAddress returns a host:port on loopback without a listener.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := otelcol.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
