// Package chaos runs the real collector between a real API server and an OTLP sink, breaks each of them again and
// again on a schedule that a seed decides, and then holds what the sink has stored against what etcd has seen and what
// the API server holds. docs/reliability.md says what is promised and what was measured.
package chaos
