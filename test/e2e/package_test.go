package e2e

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

func TestMain(m *testing.M) {
	if err := harness.AllowShortRelists(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	// A cut proxy leaks goroutines that were about to forward something to a closed connection.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	)
}
