// Package chaos runs the real Collector between a real API server and an OTLP sink, breaks each of them repeatedly on a
// schedule determined by a seed, and then compares what the sink has stored with etcd's events and the API server's
// state. docs/reliability.md describes the promises and the results.
package chaos
