package harness

import (
	"testing"

	"go.uber.org/goleak"
)

// VerifyTestMain runs the tests of a package and requires that they leave no goroutine behind.
func VerifyTestMain(m *testing.M) {
	// A cut proxy leaks goroutines that were about to forward something to a closed connection.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*LatencyToxic).Pipe"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*BandwidthToxic).Pipe"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	)
}
