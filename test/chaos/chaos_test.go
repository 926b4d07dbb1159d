package chaos

import "testing"

// TestChaos breaks one Collector and everything around it.
func TestChaos(t *testing.T) { Seeds(t, 1) }
