// Package replay is a server for the part of the Kubernetes API that a reader of objects needs: discovery, LIST, WATCH
// and WatchList, over TLS and HTTP/2. The objects come from a corpus, one at a time, as fast as the client reads, so
// that the client is measured, not an API server. It also has Leases, for receivers that are replicas of one another.
//
// It differs from kube-apiserver only where that does not matter to a client: objects come in the order of their
// numbers, and only recently changed objects have any history.
package replay
