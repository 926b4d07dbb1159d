package redaction

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// searcher looks for sentinels in any bytes: in clear text, and in the encodings in which a collector could emit them.
// It looks for both halves of each, so that a sentinel that was cut or partly masked is found too.
type searcher struct {
	patterns map[string][]pattern // by their first bytes
	starts   [1 << 16]bool        // the first two bytes of all of them
	searched int64                // bytes, including unpacked ones
}

// pattern is half of a sentinel in one encoding.
type pattern struct {
	text, sentinel, form string
}

// prefix is the number of bytes by which patterns are indexed.
const prefix = 4

func newSearcher(sentinels []string) *searcher {
	s := &searcher{patterns: map[string][]pattern{}}
	for _, whole := range sentinels {
		digits := strings.IndexAny(whole, "0123456789")
		first, second := whole[:digits+4], whole[digits:]
		s.add(whole, escapes(first))
		s.add(whole, escapes(second))
		s.add(whole, inBase64(whole[:digits+5])) // with one more, or the last digit would not count
		s.add(whole, inBase64(second))
	}
	return s
}

func (s *searcher) add(sentinel string, forms map[string]string) {
	for text, form := range forms {
		s.patterns[text[:prefix]] = append(s.patterns[text[:prefix]], pattern{text, sentinel, form})
		s.starts[uint16(text[0])<<8|uint16(text[1])] = true
	}
}

// escapes returns the forms in which a text may be written character by character, with their names.
func escapes(text string) map[string]string {
	inHex := hex.EncodeToString([]byte(text))
	var percent, unicode strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&percent, "%%%02x", text[i])
		fmt.Fprintf(&unicode, `\u%04x`, text[i])
	}
	return map[string]string{
		strings.ToLower(text):             "lower case",
		strings.ToUpper(text):             "upper case",
		inHex:                             "hex",
		strings.ToUpper(inHex):            "hex in upper case",
		percent.String():                  "URL-escaped",
		strings.ToUpper(percent.String()): "URL-escaped in upper case",
		unicode.String():                  "JSON-escaped",
		`\u` + strings.ReplaceAll(strings.ToUpper(unicode.String()[2:]), `\U`, `\u`): "JSON-escaped in upper case",
		text: "raw",
	}
}

// inBase64 returns the forms of a text inside longer base64, which depend on the length of the text before it. Both
// alphabets encode letters, digits and hyphens in the same way.
func inBase64(text string) map[string]string {
	all := map[string]string{}
	for shift := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + text))
		first, last := (shift*8+5)/6, (shift+len(text))*8/6 // the characters at both ends depend on their neighbours
		all[encoded[first:last]] = fmt.Sprintf("base64 at offset %d", shift)
	}
	return all
}

// finding is a sentinel, or half of one, in a text.
type finding struct {
	sentinel, form string
	around         string // the text around it, quoted
}

// search returns the sentinels in the text, including its encoded or compressed parts.
func (s *searcher) search(text []byte) (found []finding) {
	unpack(text, func(packing, text []byte) {
		s.searched += int64(len(text))
		for i := 0; i+prefix <= len(text); i++ {
			if !s.starts[uint16(text[i])<<8|uint16(text[i+1])] {
				continue
			}
			for _, p := range s.patterns[string(text[i:i+prefix])] {
				if bytes.HasPrefix(text[i:], []byte(p.text)) {
					around := text[max(0, i-60):min(len(text), i+len(p.text)+20)]
					found = append(found, finding{p.sentinel, string(packing) + p.form, fmt.Sprintf("%q", around)})
				}
			}
		}
	})
	return found
}
