// Package e2e holds the end-to-end tests: the receiver, in this process or in the real collector, against a real
// API server. `make test-e2e` builds what they need and runs them.
package e2e
