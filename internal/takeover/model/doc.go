// Package model is an executable model of how replicas of the receiver will take over from one another: replicas, an API
// server with a bounded history, the Lease and the progress object, and a pipeline that may be slow, refuse, or leave a
// batch without an answer, in virtual time and under a random schedule of faults. Tests run it over many seeds and check
// what has to hold; docs/takeover.md explains the rules. No replica of the receiver does this yet.
//
// Each rule can be switched off, and then the model has to fail, so every rule is needed.
package model
