package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote returns the text of a string whose inside, without the quotes, is s. [String] must have accepted it. Like
// encoding/json it replaces each byte that is not UTF-8, and each lone surrogate, with U+FFFD.
func Unquote(s []byte) string {
	buffer := buffers.Get().(*[]byte)
	*buffer = AppendUnquoted((*buffer)[:0], s)
	text := string(*buffer)
	if cap(*buffer) <= maxBufferKept {
		buffers.Put(buffer)
	}
	return text
}

// buffers are used by Unquote, so that it allocates only its result.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBufferKept is the size of the largest buffer that is kept for the next text.
const maxBufferKept = 64 << 10

// AppendUnquoted appends to dst what [Unquote] returns.
//
// A document in a string has an escaped quote every few bytes. So eight bytes are always copied at once, even if an
// escape begins among them, and the next eight overwrite the bytes from that escape on.
func AppendUnquoted(dst, s []byte) []byte {
	dst = slices.Grow(dst, len(s)+8)
	free := dst[len(dst):cap(dst)]
	i, n := 0, 0 // free[:n] is s[:i]
	for i+8 <= len(s) {
		w := binary.LittleEndian.Uint64(s[i:])
		binary.LittleEndian.PutUint64(free[n:], w)
		m := special(w)
		if m == 0 {
			i, n = i+8, n+8
			continue
		}
		plain := bits.TrailingZeros64(m) >> 3
		i, n = i+plain, n+plain
		if s[i] != '\\' || unescaped[s[i+1]] == 0 {
			break
		}
		free[n] = unescaped[s[i+1]]
		i, n = i+2, n+1
	}
	return appendUnquoted(dst[:len(dst)+n], s[i:])
}

// appendUnquoted is AppendUnquoted for text that is not ASCII, or near the end.
func appendUnquoted(dst, s []byte) []byte {
	plain := 0 // start of the bytes that are copied unchanged
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
	if r := unescaped[s[i+1]]; r != 0 {
		return rune(r), 2
	}
	return unescapeUnicode(s, i)
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
