// Package replay is a server that speaks as much of the Kubernetes API as somebody needs who reads objects: discovery,
// LIST, WATCH and WatchList, over TLS and HTTP/2. The objects come from a corpus, one at a time, as fast as the
// client takes them, so that a client is measured and not an API server.
//
// It differs from kube-apiserver where that does not matter to a client: objects come in the order of their numbers, and
// only an object that was changed lately has any history.
package replay
