// Package harness is what the end-to-end tests are made of: a real control plane, the receiver in the process or
// the real collector, what can go wrong between them, and two sources of truth that do not share a line of code
// with the receiver: a LIST of the API server and a watch of etcd.
package harness
