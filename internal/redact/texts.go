package redact

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"
)

// shortestSecret is the length of the shortest text in which anything can be masked.
const shortestSecret = 5

// Text masks everything with the shape of a secret in a text from outside an object, such as the message of a Status. A
// text without secrets is returned unchanged.
func Text(s string) string {
	t := &scanner{keys: standardKeys}
	text := []byte(s)
	t.all(text)
	if len(t.found) == 0 {
		return s
	}
	return string(appendMasked(nil, text, t.found))
}

// all finds the secrets in a text that is not a document as a whole.
func (t *scanner) all(text []byte) {
	t.found = t.found[:0]
	if len(text) < shortestSecret {
		return
	}
	if t.mode != asName && t.mode != asLabel && bytes.IndexByte(text, '\n') >= 0 {
		t.lines(text)
	}
	if t.mode == asCommand {
		t.script(text)
	}
	several := len(t.found) > 0
	t.scan(text)
	if several {
		t.merge()
	}
}

// appendMasked appends the text with the findings masked.
func appendMasked(dst, text []byte, found []finding) []byte {
	at := 0
	for _, f := range found {
		dst = append(append(dst, text[at:f.from]...), Masked...)
		at = f.to
	}
	return append(dst, text[at:]...)
}

// minBase64 is the minimum length of a base64 string that is decoded.
const minBase64 = 24

// isBase64Text reports whether s may be a text in base64.
func isBase64Text(s []byte) bool {
	return len(s) >= minBase64 && len(s)%4 == 0 && run(s, isStandardBase64) >= len(s)-2
}

func isStandardBase64(c byte) bool { return alphanumeric[c] || c == '+' || c == '/' }

// decodeText appends the text that s encodes in base64 to dst, if it is printable.
func decodeText(dst, s []byte) ([]byte, bool) {
	head := s[:min(len(s), 64)&^3]
	var start [48]byte
	n, err := base64.StdEncoding.Decode(start[:], head)
	if err != nil || !isPrintable(start[:max(0, n-3)]) { // the last character may be cut
		return dst, false
	}
	dst, err = base64.StdEncoding.AppendDecode(dst, s)
	return dst, err == nil && isPrintable(dst) && utf8.Valid(dst)
}

func isPrintable(s []byte) bool {
	return all(s, func(c byte) bool { return c >= ' ' && c != 0x7f || isSpace(c) })
}

// isGzip reports whether s is the base64 of gzip data, such as a Helm release.
func isGzip(s []byte) bool { return len(s) > 40 && hasPrefix(s, "H4sI") }

// dataURL returns where the content of a data: URL starts, or 0 if s is not one, or holds an image.
func dataURL(s []byte) int {
	if !hasPrefix(s, "data:") || hasPrefix(s, "data:image/") {
		return 0
	}
	return bytes.IndexByte(s, ',') + 1
}
