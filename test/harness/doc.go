// Package harness provides the parts of end-to-end tests: a real control plane, the receiver in the process or the real
// Collector, faults between them, and two sources of truth that share no code with the receiver: a LIST of the API
// server and a watch of etcd.
package harness
