package chaos

import (
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

func TestMain(m *testing.M) { harness.VerifyTestMain(m) }
