package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote returns the text of a string whose inside, without the quotes, is s. [String] must have accepted it. Like
// encoding/json it replaces each byte that is not UTF-8, and each lone surrogate, with U+FFFD.
func Unquote(s []byte) string {
	return string(AppendUnquoted(make([]byte, 0, len(s)), s))
}

// AppendUnquoted appends the result of [Unquote] to dst.
func AppendUnquoted(dst, s []byte) []byte {
	plain := 0 // start of the text without escapes
	for i := 0; i < len(s); {
		if i+8 <= len(s) {
			m := special(binary.LittleEndian.Uint64(s[i : i+8]))
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		switch b := s[i]; {
		case b == '\\':
			r, n := unescape(s, i)
			dst = utf8.AppendRune(append(dst, s[plain:i]...), r)
			i += n
			plain = i
		case b < utf8.RuneSelf:
			i++
		default:
			n := runeLen(s, i)
			if n == 0 {
				dst = utf8.AppendRune(append(dst, s[plain:i]...), utf8.RuneError)
				i++
				plain = i
			}
			i += n
		}
	}
	return append(dst, s[plain:]...)
}

// AppendQuoted appends text, which must be valid UTF-8, to dst as the inside of a JSON string.
func AppendQuoted(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	for _, b := range text {
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, '\\', 'n')
		case b == '\r':
			dst = append(dst, '\\', 'r')
		case b == '\t':
			dst = append(dst, '\\', 't')
		case b < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return dst
}

// Repaired returns the inside of a string with each byte that is not UTF-8 replaced by U+FFFD, and with its escapes
// unchanged. It returns "" and false if there is nothing to repair.
func Repaired(s []byte) (string, bool) {
	var out []byte
	plain := 0
	for i := 0; i < len(s); {
		n := runeLen(s, i)
		if n == 0 {
			out = utf8.AppendRune(append(out, s[plain:i]...), utf8.RuneError)
			i++
			plain = i
		}
		i += n
	}
	if plain == 0 {
		return "", false
	}
	return string(append(out, s[plain:]...)), true
}

// runeLen returns the length of the UTF-8 sequence at s[i], or 0 if there is none.
func runeLen(s []byte, i int) int {
	if s[i] < utf8.RuneSelf {
		return 1
	}
	r, n := utf8.DecodeRune(s[i:])
	if r == utf8.RuneError && n <= 1 {
		return 0
	}
	return n
}

// unescape returns the character that the escape at s[i] represents, and the length of the escape.
func unescape(s []byte, i int) (rune, int) {
	switch s[i+1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return unescapeUnicode(s, i)
	default: // the quote, the backslash and the slash represent themselves
		return rune(s[i+1]), 2
	}
}

// unescapeUnicode reads one \uXXXX, or two of them that are a surrogate pair.
func unescapeUnicode(s []byte, i int) (rune, int) {
	r := hex4(s, i)
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if pair := utf16.DecodeRune(r, hex4(s, i+6)); pair != utf8.RuneError {
		return pair, 12
	}
	return utf8.RuneError, 6
}

// hex4 returns the number in the \uXXXX at s[i], or -1 if there is none.
func hex4(s []byte, i int) rune {
	if i+6 > len(s) || s[i] != '\\' || s[i+1] != 'u' {
		return -1
	}
	var r rune
	for j := i + 2; j < i+6; j++ {
		r = r<<4 | hexValue(s[j])
	}
	return r
}
