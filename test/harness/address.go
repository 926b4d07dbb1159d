package harness

import (
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/testkit/otelcol"
)

// FreeAddress is host:port on loopback where nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := otelcol.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
