// Package kubeclient talks to a Kubernetes API server: credentials and connections, raw watch and list
// responses, and what the server serves.
//
// It uses neither client-go's dynamic client nor its watches, which decode every object, hide response
// headers and retry on their own, nor its discovery client, which links every built-in API type into the
// program (23 MB).
package kubeclient
