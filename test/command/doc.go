// Package command tests cmd/k8swatchlist as its users run it, with a real control plane and a real Collector.
package command
