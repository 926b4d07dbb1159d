package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// Plain passes bytes of the inside of a string that stand for themselves, from s[i] on. Where it stops is the closing
// quote, or what [StringFrom] must look at. Nearly all strings of an API server are plain to their end, so this is
// small enough to be inlined where they are read.
func Plain(s []byte, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if m := special(binary.LittleEndian.Uint64(s[i : i+8])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	return i
}
