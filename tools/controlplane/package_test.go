package controlplane

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if err := checkBinaries(os.Getenv("KUBEBUILDER_ASSETS")); err != nil {
		os.Stderr.WriteString("these tests need real binaries: " + err.Error() + "\n")
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
