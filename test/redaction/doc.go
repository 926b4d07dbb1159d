// Package redaction runs the corpus of internal/redact through the collector that ocb builds: its objects are created on
// a real API server, and every byte that the collector emits, logs, serves or stores is searched for their sentinels.
package redaction
