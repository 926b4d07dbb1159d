// Package redact turns the bytes of a Kubernetes object, as the API server sent them, into the redacted object that is
// stored, compared, queued and emitted. docs/redaction.md describes the policy.
//
// A [Plan], created once per resource, decides what is kept of an object. Decoding, pruning and redaction are one pass
// over the bytes, so an unredacted object never exists outside the buffer it was read into.
//
// A plan is a graph of rules (rules.go) that decide about a value by its shape, and about its parts by their keys. Keys
// that no rule names are classified by their last word (keys.go). A walk (walk.go) follows the graph over the bytes and
// only collects edits (cut this, mask that) and the positions of facts. The redacted object is then written once, with
// the edits applied (edits.go). Values that can be classified only by a later member, as in a Secret whose kind comes
// after its data, are walked a second time.
//
// Fields (fields.go) remove parts of objects by path, as the walk comes to them. What is removed is skipped, except for facts
// and for what decides how other values are masked.
//
// Each kept string is inspected: as a document (documents.go), as a command (commands.go), or as a text in which a
// scanner finds shapes (shapes.go), assignments (assignments.go) and, if it has several lines, members of YAML
// (lines.go).
//
// The package oracle is a slow, independent implementation of the policy. Tests compare both on random and real
// objects, and run this one against a corpus of secrets and innocent values (testdata/corpus). The tests themselves
// were verified by breaking the rules one at a time: each rule by place, the order of kinds and names, the splitting of
// keys into words, each kind of shape, blocks of lines, options of commands, nested documents. Every such change must
// fail a test, and a new rule is complete when removing it fails one.
package redact
