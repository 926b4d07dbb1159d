package e2e

import (
	"os"
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

func TestMain(m *testing.M) {
	if err := harness.AllowShortRelists(); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	harness.VerifyTestMain(m)
}
