// Package redact turns the bytes of a Kubernetes object, as the API server sent them, into the object
// that may be seen: the one that is kept, compared, queued and emitted. docs/redaction.md is the policy.
//
// What leaves an object is decided once per resource, by a [Plan]. Decoding, pruning and redaction are
// one pass over the bytes, so there is no moment at which an unredacted object exists outside the
// buffer it was read into.
//
// A plan is a graph of rules (rules.go): what becomes of a value by its shape, and of its parts by their keys. Keys that
// no rule names are classified by their last word (keys.go). A walk (walk.go) follows the graph over the bytes and only
// collects edits (cut this, put the mask there) and the places of facts; the object that goes out is then written once,
// with the edits made (edits.go). Values of which it is known too late what they are, as in a Secret whose kind comes
// after its data, are walked a second time.
//
// Each string that is kept is looked at: as a document (documents.go), as a command (commands.go), or as a text in which
// a scanner finds shapes (shapes.go), assignments (assignments.go) and, in texts of several lines, members of YAML
// (lines.go).
//
// The package oracle is a slow second form of the policy. Tests compare both on random and real objects, and hold the
// fast form against a corpus of secrets and of innocents (testdata/corpus). The tests were tried by breaking the rules
// on purpose, one at a time: each rule by place, the order in which kinds and names come, the splitting of keys into
// words, each kind of shape, blocks of lines, options of commands, nested documents. Every such change must fail a test;
// a new rule is complete when removing it does.
package redact
