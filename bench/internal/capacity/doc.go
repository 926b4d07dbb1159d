// Package capacity computes what clusters of any size cost: it fits the measurements in docs/performance-figures.md and docs/gateway-figures.md to the
// number of objects and bytes, and says of each result where it comes from and how far beyond the measurements it is.
package capacity
