package watchlist

import "sync"

// A stream reads at most this much at once. Most have little, and an idle one keeps the smaller buffers.
//
// While a server sends faster than we take, much has come by the time we read again. To take it in one piece matters
// beyond the saved calls: what is read is what HTTP/2 lets the server send next, and in small pieces that costs both
// ends a frame, a TLS record and a wake-up each.
const (
	minReadBytes = 64 << 10
	maxReadBytes = 512 << 10
)

// nextReadBytes is how much to read at once, after a read of at most size that had so many bytes.
func nextReadBytes(size, read int) int {
	if size == minReadBytes && read >= size/2 || size == maxReadBytes && read >= size/8 {
		return maxReadBytes
	}
	return minReadBytes
}

// largeBuffers are those of maxReadBytes that no stream needs just now.
var largeBuffers = sync.Pool{New: func() any { return new([maxReadBytes]byte) }}

// bufferFor returns an empty buffer of that size, which is this one if it has it. Where a long tail is to be put into
// it, it is larger.
func bufferFor(buffer []byte, size, tail int) []byte {
	switch {
	case tail > size/2:
		return make([]byte, 0, 2*tail)
	case cap(buffer) == size:
		return buffer[:0]
	case size == maxReadBytes:
		return largeBuffers.Get().(*[maxReadBytes]byte)[:0]
	}
	return make([]byte, 0, size)
}

// keptBuffer returns what a stream keeps of a buffer that it has done with.
func keptBuffer(buffer []byte) []byte {
	if cap(buffer) == minReadBytes {
		return buffer
	}
	if cap(buffer) == maxReadBytes {
		largeBuffers.Put((*[maxReadBytes]byte)(buffer[:maxReadBytes]))
	}
	return nil
}
