// Package kubeclient is a client for a Kubernetes API server: credentials and connections, raw watch and list
// responses, and discovery.
//
// It does not use client-go's dynamic client and watches, because they decode every object, hide response headers and
// retry on their own. It does not use its discovery client either, because that links every built-in API type into the
// program (23 MB).
package kubeclient
