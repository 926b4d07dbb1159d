// Package chaosreplicas is the chaos run with three replicas. As a package of its own it is a process of its own, so that
// both kinds of runs can go on at the same time.
package chaosreplicas

import (
	"testing"

	"github.com/k8swatchlist/k8swatchlistreceiver/test/chaos"
	"github.com/k8swatchlist/k8swatchlistreceiver/test/harness"
)

func TestMain(m *testing.M) { harness.VerifyTestMain(m) }

// TestChaosReplicas breaks three replicas and everything around them.
func TestChaosReplicas(t *testing.T) { chaos.Seeds(t, 3) }
