package cut

import (
	"math/bits"
	"unicode/utf8"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// What a value takes as protobuf in OTLP, or a little more: a number is given the size that its digits may need.
// https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/common/v1/common.proto
// https://protobuf.dev/programming-guides/encoding/

// MaxGrowth is how many times as large as its JSON a map may be. The worst is a list of negative numbers, each of which
// takes 13 bytes instead of 3.
const MaxGrowth = 5

// varint returns the size of a number in an encoding that takes seven bits in a byte.
func varint(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

// partSize returns the size of a field with content of that size: its tag, its length and itself.
func partSize(content int) int { return 1 + varint(content) + content }

// textSize returns the size of a text of that length as a value, or as a key.
func textSize(length int) int { return partSize(length) }

// partedSize returns the size of the array or object data[from:to] whose parts have that size.
func (s *survey) partedSize(from, to, parts int) int {
	if s.form == Text {
		return to - from
	}
	return partSize(parts)
}

// textLength returns the length of the text of the string data[from:to].
func (s *survey) textLength(from, to int, content jsonscan.Content) int {
	if content&jsonscan.Escaped != 0 || content&jsonscan.NonASCII != 0 && !utf8.Valid(s.data[from:to]) {
		s.text = jsonscan.AppendUnquoted(s.text[:0], s.data[from+1:to-1])
		return len(s.text)
	}
	return to - from - 2
}

func (s *survey) stringSize(from, to int, content jsonscan.Content) int {
	if s.form == Text {
		return to - from
	}
	return textSize(s.textLength(from, to, content))
}

// scalarSize returns the size of the number or literal data[from:to].
func (s *survey) scalarSize(from, to int) int {
	length := to - from
	if s.form == Text {
		return length
	}
	switch first := s.data[from]; {
	case first == 'n':
		return 0
	case first == 't' || first == 'f':
		return 2
	case first == '-' || length > 15:
		return max(11, textSize(length)) // a number that is out of range stays a text
	}
	for _, b := range s.data[from:to] {
		if b < '0' || b > '9' {
			return 9
		}
	}
	return 1 + length/2 + 1 // ten digits need 34 bits
}

// sizeOf returns the size of what stands in the place of a value that is cut.
func (s *survey) sizeOf(replacement string) int {
	switch {
	case s.form == Text:
		return len(replacement)
	case replacement == null:
		return 0
	}
	return textSize(len(replacement) - 2)
}
