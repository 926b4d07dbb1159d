package watchlist

// readSize is how many bytes a stream reads at once, at most.
//
// While the server sends faster than we take, much has come by the time we read again. To take it in one piece matters
// beyond the saved calls: what is read is what HTTP/2 lets the server send next, and in small pieces that costs both
// ends a frame, a TLS record and a wake-up each.
type readSize struct {
	bytes int
	small int // reads in succession that had little
}

const (
	minReadBytes = 64 << 10 // a live stream seldom has more
	maxReadBytes = 512 << 10

	// smallReads in succession are needed to take less at once: also a fast server pauses.
	smallReads = 16
)

// adapt chooses the size for the next read, after one that had so many bytes. A frame that is larger grows the buffer
// that it comes in, and no other.
func (s *readSize) adapt(read int) {
	switch {
	case read >= s.bytes/2:
		s.bytes, s.small = min(2*s.bytes, maxReadBytes), 0
	case read >= s.bytes/8:
		s.small = 0
	default:
		if s.small++; s.small == smallReads {
			s.bytes, s.small = max(s.bytes/2, minReadBytes), 0
		}
	}
}
