// Package runner runs the contenders, each a process of its own, one after another with the same server, and measures
// their resource usage.
package runner
