// Package redact turns the bytes of a Kubernetes object, as the API server sent them, into the object
// that may be seen: the one that is kept, compared, queued and emitted.
//
// What leaves an object is decided once per resource, by a [Plan]. Decoding, pruning and redaction are
// one pass over the bytes, so there is no moment at which an unredacted object exists outside the
// buffer it was read into.
//
// A plan is a graph of rules: what becomes of a value by its shape, and of its parts by their keys. A walk follows
// it over the bytes and only collects edits (cut this, put the mask there) and the places of facts; the object that
// goes out is then written once, with the edits made. What a rule does not name goes out as it is, but for Secrets,
// where it does not.
package redact
