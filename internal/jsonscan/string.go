package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// Content describes what a string contains besides plain ASCII without escapes.
type Content uint8

const (
	Escaped  Content = 1 << iota // backslash escapes
	NonASCII                     // bytes beyond ASCII; they may or may not be valid UTF-8
)

// Eight bytes are checked at once, one in each lane of a word.
// https://graphics.stanford.edu/~seander/bithacks.html#ZeroInWord
const (
	lanes    = 0x0101010101010101
	highBits = 0x80 * lanes
)

// special returns a word whose lowest set bit is in the lane of the first byte of w that is a quote, a
// backslash, a control character or beyond ASCII.
func special(w uint64) uint64 { return (terminators(w) | w) & highBits }

// terminators is special without the bytes beyond ASCII, whose lanes are undefined and have to be masked.
//
// Flipping bit 1 turns the quote (0x22) into 0x20, next to the control characters, and moves only the space out of
// its place, so that one subtraction finds both.
func terminators(w uint64) uint64 {
	return ((w ^ 0x02*lanes) - 0x21*lanes) | ((w ^ '\\'*lanes) - lanes)
}

// String returns the offset past the closing quote of the string that is opened at s[i], and its content.
func String(s []byte, i int) (end int, c Content, err error) {
	i = Plain(s, i+1)
	if i < len(s) && s[i] == '"' {
		return i + 1, 0, nil
	}
	return StringFrom(s, i)
}

// StringFrom is String for a string that is plain from its start to before s[i].
func StringFrom(s []byte, i int) (end int, c Content, err error) {
	for {
		if i+8 > len(s) {
			return stringTail(s, i, c)
		}
		switch b := s[i]; {
		case b == '"':
			return i + 1, c, nil
		case b == '\\' && unescaped[s[i+1]] != 0:
			i, c = i+2, c|Escaped
		default:
			if i, c, err = unusual(s, i, c); err != nil {
				return i, c, err
			}
		}
		i = Plain(s, i)
	}
}

// stringTail is StringFrom near the end of the text, where a word would reach beyond it.
func stringTail(s []byte, i int, c Content) (int, Content, error) {
	var err error
	for i < len(s) {
		switch b := s[i]; {
		case b == '"':
			return i + 1, c, nil
		case b < ' ' || b == '\\' || b >= 0x80:
			if i, c, err = unusual(s, i, c); err != nil {
				return i, c, err
			}
		default:
			i++
		}
	}
	return i, c, fail(len(s), i, ErrString)
}

// unusual reads a byte inside a string that cannot simply be skipped.
func unusual(s []byte, i int, c Content) (int, Content, error) {
	switch b := s[i]; {
	case b == '\\':
		end, err := escape(s, i)
		return end, c | Escaped, err
	case b >= 0x80:
		return nonASCII(s, i), c | NonASCII, nil
	default:
		return i, c, fail(len(s), i, ErrString)
	}
}

// nonASCII returns the offset of the next byte that may end the string or has to be checked. Text in other scripts has
// few ASCII bytes, so it does not stop at those.
func nonASCII(s []byte, i int) int {
	for i+8 <= len(s) {
		w := binary.LittleEndian.Uint64(s[i : i+8])
		if m := terminators(w) &^ w & highBits; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(s) && s[i] >= 0x80 {
		i++
	}
	return i
}

func escape(s []byte, i int) (int, error) {
	if i+1 >= len(s) {
		return i, fail(len(s), len(s), ErrEscape)
	}
	switch b := s[i+1]; {
	case unescaped[b] != 0:
		return i + 2, nil
	case b == 'u':
		for j := i + 2; j < i+6; j++ {
			if j >= len(s) || hexValue(s[j]) < 0 {
				return j, fail(len(s), j, ErrEscape)
			}
		}
		return i + 6, nil
	default:
		return i, fail(len(s), i+1, ErrEscape)
	}
}

// unescaped maps the second byte of a two-byte escape to the character that the escape represents.
var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func hexValue(b byte) rune {
	switch {
	case '0' <= b && b <= '9':
		return rune(b - '0')
	case 'a' <= b && b <= 'f':
		return rune(b - 'a' + 10)
	case 'A' <= b && b <= 'F':
		return rune(b - 'A' + 10)
	default:
		return -1
	}
}

// Plain skips plain bytes inside a string, from s[i] on. It stops at the closing quote, or at a byte that [StringFrom]
// has to check. Nearly all strings of an API server are plain, so this is small enough to be inlined.
func Plain(s []byte, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if m := special(binary.LittleEndian.Uint64(s[i : i+8])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	return i
}
