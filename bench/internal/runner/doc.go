// Package runner runs the contenders, each a process of its own, one after the other on the same server, and measures
// what they use.
package runner
