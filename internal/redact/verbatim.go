package redact

import (
	"bytes"
	"unicode/utf8"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// isVerbatim says whether the inside of a string is written as what it stands for.
func isVerbatim(inside []byte) bool {
	return bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside)
}

// unquotedKey returns what the inside of a key stands for; content is what it holds. Bytes that are not UTF-8
// stay, since no key that is looked for has any.
func unquotedKey(inside []byte, content jsonscan.Content) []byte {
	if content&jsonscan.Escaped == 0 {
		return inside
	}
	return []byte(jsonscan.Unquote(inside))
}
