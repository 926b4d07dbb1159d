// Package reference reads the table of attributes in docs/records.md and compares it with what is emitted. Only tests use
// it.
package reference
