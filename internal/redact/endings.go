package redact

import "encoding/binary"

// Few keys have a class, and the last letters of nearly all others already show that they have none. keyEndings has a
// bit for each ending of three or four letters, by its hash, that a key with a class can have.
type keyEndings struct {
	three [1 << threeBits / 64]uint64 // of words with only three letters
	four  [1 << fourBits / 64]uint64
	extra bool      // mask_keys has entries
	last  [256]bool // their last characters; all of them if one entry leaves the ending open
}

const (
	threeBits = 13
	fourBits  = 14
)

// standardEndings are those of the policy.
var standardEndings = func() (e keyEndings) {
	for w := range sensitiveWords {
		e.add(w)
	}
	for _, w := range sensitiveEndings {
		e.add(w)
	}
	for w := range structuralWords {
		switch w {
		case "metadata", "pod", "from": // no class by themselves
		default:
			e.add(w)
		}
	}
	for _, ending := range []string{"proxymetadata", "original-pod", "valuefrom", "envvar", "envvars", "headermodifier"} {
		e.add(ending)
	}
	return e
}()

// add adds an ending, in lower case.
func (e *keyEndings) add(ending string) {
	three, four := endingHashes(endingOf([]byte(ending)))
	if len(ending) == 3 {
		e.three[three/64] |= 1 << (three % 64)
	} else {
		e.four[four/64] |= 1 << (four % 64)
	}
}

// addExtra adds the ending of an entry of mask_keys. A key may write the words of the entry in other ways, so only its
// last character is known.
func (e *keyEndings) addExtra(ending string) {
	e.extra = true
	if ending == "" {
		for c := range e.last {
			e.last[c] = true
		}
		return
	}
	c := ending[len(ending)-1]
	e.last[c] = true
	if isLower(c) {
		e.last[c&^0x20] = true
	}
}

// mayEnd reports whether the ending of a key allows it to have a class.
func (e *keyEndings) mayEnd(key []byte) bool {
	n := len(key)
	if n == 0 {
		return e.extra
	}
	if e.extra && e.mayEndExtra(key) {
		return true
	}
	if !isLetter(key[n-1]) { // PASSWORD_2
		for n > 0 && !isLetter(key[n-1]) {
			n--
		}
	}
	if n < 3 {
		return false
	}
	three, four := endingHashes(endingOf(key[:n]))
	return e.three[three/64]>>(three%64)&1 != 0 || e.four[four/64]>>(four%64)&1 != 0
}

// mayEndExtra is mayEnd for the entries of mask_keys. Words do not end in a separator; patterns may.
func (e *keyEndings) mayEndExtra(key []byte) bool {
	n := len(key)
	if e.last[key[n-1]] {
		return true
	}
	for n > 0 && !isAlphanumeric(key[n-1]) {
		n--
	}
	return n > 0 && e.last[key[n-1]]
}

// endingOf returns the last four bytes of a key of three or more, in lower case if they are letters.
func endingOf(key []byte) uint32 {
	n := len(key)
	if n < 4 {
		return uint32(key[0])<<8 | uint32(key[1])<<16 | uint32(key[2])<<24 | 0x20202020
	}
	return binary.LittleEndian.Uint32(key[n-4:]) | 0x20202020
}

func endingHashes(ending uint32) (three, four uint64) {
	const factor = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio
	return uint64(ending>>8) * factor >> (64 - threeBits), uint64(ending) * factor >> (64 - fourBits)
}
