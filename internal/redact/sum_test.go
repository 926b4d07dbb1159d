package redact

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// slowSipHash is SipHash with c rounds for each word and d at the end, as its paper describes it.
func slowSipHash(c, d int, key [2]uint64, text []byte) uint64 {
	v := [4]uint64{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573}
	rotate := func(x uint64, n int) uint64 { return x<<n | x>>(64-n) }
	round := func() {
		v[0] += v[1]
		v[2] += v[3]
		v[1] = rotate(v[1], 13)
		v[3] = rotate(v[3], 16)
		v[1] ^= v[0]
		v[3] ^= v[2]
		v[0] = rotate(v[0], 32)
		v[2] += v[1]
		v[0] += v[3]
		v[1] = rotate(v[1], 17)
		v[3] = rotate(v[3], 21)
		v[1] ^= v[2]
		v[3] ^= v[0]
		v[2] = rotate(v[2], 32)
	}
	padded := make([]byte, len(text)/8*8+8)
	copy(padded, text)
	padded[len(padded)-1] = byte(len(text))
	for ; len(padded) > 0; padded = padded[8:] {
		m := binary.LittleEndian.Uint64(padded)
		v[3] ^= m
		for range c {
			round()
		}
		v[0] ^= m
	}
	v[2] ^= 0xff
	for range d {
		round()
	}
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

func TestSipHash(t *testing.T) {
	text := make([]byte, 15)
	for i := range text {
		text[i] = byte(i)
	}
	key := [2]uint64{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	assert.Equal(t, uint64(0xa129ca6149be45e5), slowSipHash(2, 4, key, text), "the example of the paper, appendix A")
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		text := randomBytes(random, n)
		key := sumKey{random.Uint64(), random.Uint64()}
		assert.Equal(t, slowSipHash(1, 3, key, text), key.of(text), "%d bytes", n)
	}
}

func TestSumDependsOnEveryBitAndOnTheKey(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	k := newSumKey([]byte("a secret"), "test")
	for _, n := range []int{0, 1, 7, 8, 9, 63, 200, 1000} {
		text := randomBytes(random, n)
		was := k.of(text)
		seen := map[uint64]bool{was: true}
		for bit := range 8 * n {
			text[bit/8] ^= 1 << (bit % 8)
			sum := k.of(text)
			assert.False(t, seen[sum], "bit %d of %d bytes", bit, n)
			seen[sum] = true
			text[bit/8] ^= 1 << (bit % 8)
		}
		assert.NotEqual(t, was, k.of(append(text, 0)), "a zero at the end of %d bytes", n)
		other, another, same := newSumKey([]byte("a secret"), "another"), newSumKey([]byte("another secret"), "test"), newSumKey([]byte("a secret"), "test")
		assert.NotEqual(t, was, other.of(text))
		assert.NotEqual(t, was, another.of(text))
		assert.Equal(t, was, same.of(text), "the same in every process")
	}
}

func randomBytes(random *rand.Rand, n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	return text
}

func BenchmarkSum(b *testing.B) {
	k := newSumKey([]byte("a secret"), "test")
	for _, n := range []int{20, 60, 200, 1000, 5000} {
		text := randomBytes(rand.New(rand.NewPCG(7, 8)), n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				k.of(text)
			}
		})
	}
}
