package redact

import (
	"encoding/binary"
	"math/bits"
)

// scan appends what must be masked in the text to found, in order.
func (t *scanner) scan(text []byte) {
	t.text, t.done, t.token = text, 0, span{}
	for i := place(text, 0); i < len(text); i = place(text, max(i+1, t.done)) {
		t.look(i)
	}
}

// place returns the first place at text[i] or after it where a secret may begin, or the length of the text.
//
// A secret begins at a separator, which is any byte other than a letter or digit, or at the first byte of a word, at
// the start of the text or after a separator. So the bytes inside words are skipped, eight at a time.
func place(text []byte, i int) int {
	if (i == 0 || !alphanumeric[text[i-1]]) && startsLikeSecret(text, i) {
		return i
	}
	for ; i < len(text); i += 8 {
		for m := separators(eightBytes(text, i)); m != 0; m &= m - 1 {
			at := i + bits.TrailingZeros64(m)>>3
			if at+1 >= len(text) {
				break
			}
			if pair := openings[text[at]] & followers[text[at+1]]; pair != 0 && (pair != dotPair || mayBeBootstrapToken(text, at)) {
				return at
			}
			if startsLikeSecret(text, at+1) {
				return at + 1
			}
		}
	}
	return len(text)
}

// A separator is checked if the byte after it has the same bit in followers as the separator has in openings.
var openings, followers = func() (first, second [256]uint8) {
	var every []byte
	for c := range 256 {
		every = append(every, byte(c))
	}
	for bit, pair := range []struct{ first, second string }{
		{".", "abcdefghijklmnopqrstuvwxyz0123456789"},
		{"=", string(every)},
		{":", "/ =\"'\\\t"},
		{"-", "-"},
		{"$", "a1256y"},
		{"{", "S"},
		{"@", "tu"},
	} {
		first[pair.first[0]] |= 1 << bit
		for i := range len(pair.second) {
			second[pair.second[i]] |= 1 << bit
		}
	}
	return first, second
}()

// dotPair is the bit of the dot, which most texts contain, but hardly ever inside a token.
const dotPair = 1 << 0

// mayBeBootstrapToken reports whether the dot text[i] has as many characters around it as in a token of kubeadm.
func mayBeBootstrapToken(text []byte, i int) bool {
	return i >= 6 && (i == 6 || !tokenOrDot[text[i-7]]) && i+17 <= len(text)
}

// shortestWord is the minimum length of a secret that begins with a word: "token" or "basic", a space and eight
// characters.
const shortestWord = 14

// startsLikeSecret reports whether a word at text[i] begins like a secret, or like a word that comes before one. Few
// other words do.
func startsLikeSecret(text []byte, i int) bool {
	if i+shortestWord > len(text) {
		return false
	}
	h := startHash(binary.LittleEndian.Uint32(text[i : i+4]))
	return startHashes[h/64]>>(h%64)&1 != 0 && alphanumeric[text[i]]
}

// startHashes has a bit for the beginning of each word that may be a secret or come before one, by its hash.
var startHashes = func() (t [1 << startBits / 64]uint64) {
	for _, start := range wordStarts() {
		h := startHash(binary.LittleEndian.Uint32([]byte(start + " ")[:4]))
		t[h/64] |= 1 << (h % 64)
	}
	return t
}()

const startBits = 13

// startHash returns the hash of the first three letters of a word, ignoring case.
func startHash(word uint32) uint64 {
	const factor = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio
	return uint64(word&0xffffff|0x202020) * factor >> (64 - startBits)
}

func wordStarts() []string {
	starts := []string{"eyJ"}
	for _, tokens := range vendorTokens {
		for _, v := range tokens {
			starts = append(starts, v.prefix[:3])
		}
	}
	for _, hook := range secretPaths {
		starts = append(starts, hook.host[:3])
	}
	for _, scheme := range authSchemes {
		starts = append(starts, scheme[:3])
	}
	return starts
}

// isPlain reports whether a quick check shows that a text without escapes contains nothing to mask. It is true for most
// strings of an object.
func isPlain(s []byte) bool {
	return len(s) < shortestWord && isShortAndPlain(s) || len(s) == len("2006-01-02T15:04:05Z") && isTime(s)
}

// isShortAndPlain reports whether a text that is shorter than any secret that begins with a word has none of the
// characters that all other secrets need: white space for a scheme or an option, the sign of an assignment, a dollar
// for a hash, a brace for a hash or a document.
func isShortAndPlain(s []byte) bool {
	switch n := len(s); {
	case n >= 8:
		return signs(binary.LittleEndian.Uint64(s[:8]))|signs(binary.LittleEndian.Uint64(s[n-8:])) == 0
	case n >= 4:
		return signs(uint64(binary.LittleEndian.Uint32(s[:4]))|uint64(binary.LittleEndian.Uint32(s[n-4:]))<<32) == 0
	}
	return false
}

// isTime reports whether a text of twenty ASCII bytes is a time in the format of metav1.Time.
func isTime(s []byte) bool {
	return timeForms[0].fits(s[:8]) && timeForms[1].fits(s[8:16]) && timeForms[2].fits(s[12:20])
}

// timeForms are the parts of a time, in which 0 means any digit.
var timeForms = [3]form{newForm("0000-00-"), newForm("00T00:00"), newForm("0:00:00Z")}

// form is what eight bytes must be.
type form struct {
	bytes uint64
	above uint64 // makes a lane overflow that differs by more than allowed
}

func newForm(s string) form {
	f := form{bytes: binary.LittleEndian.Uint64([]byte(s)), above: 0x7f * lanes}
	for i := range 8 {
		if s[i] == '0' {
			f.above -= 9 << (8 * i)
		}
	}
	return f
}

func (f *form) fits(s []byte) bool {
	return ((binary.LittleEndian.Uint64(s)^f.bytes)+f.above)&highBits == 0
}

// Eight bytes are checked at once, one in each lane of a word.
// https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord
const (
	lanes    = 0x0101010101010101
	highBits = 0x80 * lanes
)

// from marks the lanes of w, all of them ASCII, whose byte is this one or a later one.
func from(w uint64, c byte) uint64 { return w + (0x80-uint64(c))*lanes }

// separators marks the lanes of w whose byte is not a letter or digit.
func separators(w uint64) uint64 {
	ascii := w &^ highBits
	lower := ascii | 0x20*lanes
	letters := from(lower, 'a') &^ from(lower, 'z'+1)
	digits := from(ascii, '0') &^ from(ascii, '9'+1)
	return (^(letters | digits) | w) & highBits
}

// signs marks the lanes of w, all of them ASCII, whose byte is none of the letters, digits and -./[\]^_`
func signs(w uint64) uint64 {
	return (^from(w, '-') | from(w, ':')&^from(w, 'A') | from(w, '{')) & highBits
}

// eightBytes returns text[i:i+8], with letters in place of the bytes beyond the end.
func eightBytes(text []byte, i int) uint64 {
	if i+8 <= len(text) {
		return binary.LittleEndian.Uint64(text[i : i+8])
	}
	w := uint64('a' * lanes)
	for j := len(text) - 1; j >= i; j-- {
		w = w<<8 | uint64(text[j])
	}
	return w
}
