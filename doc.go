//go:generate make generate

// Package k8swatchlistreceiver is an OpenTelemetry Collector receiver that streams Kubernetes objects with
// the API server's WatchList API and turns every change into a log record.
package k8swatchlistreceiver
