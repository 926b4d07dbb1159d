// Package record turns changes into log records, with the names, attributes, times, severity and body that
// docs/records.md describes.
package record
