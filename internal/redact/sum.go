package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// sumKey makes keyed hashes of contents. Whoever writes an object must not be able to find another content with the same
// hash, since that change would not be emitted. So the hash is SipHash-1-3, a pseudorandom function of a secret key, as the
// hash tables of Rust and Ruby use it (https://www.aumasson.jp/siphash/siphash.pdf). xxhash and its like are faster, but
// have collisions that hold under every seed, and the seed of hash/maphash ends with the process, so that no hash could be
// kept in a checkpoint.
type sumKey [2]uint64

// newSumKey derives a key from a secret. Keys for different purposes are independent.
func newSumKey(secret []byte, purpose string) sumKey {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(purpose))
	derived := mac.Sum(nil)
	return sumKey{binary.LittleEndian.Uint64(derived), binary.LittleEndian.Uint64(derived[8:])}
}

// of returns the hash of a text.
func (k *sumKey) of(text []byte) uint64 {
	v0, v1, v2, v3 := k[0]^0x736f6d6570736575, k[1]^0x646f72616e646f6d, k[0]^0x6c7967656e657261, k[1]^0x7465646279746573
	last := uint64(len(text)) << 56
	for ; len(text) >= 8; text = text[8:] {
		m := binary.LittleEndian.Uint64(text)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	for i, b := range text {
		last |= uint64(b) << (8 * i)
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

// sipRound is small enough to be inlined.
func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32) + v3
	v2 += v1
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}
