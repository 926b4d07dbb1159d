package redaction

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
)

const (
	deepest      = 4       // a Helm release is gzip in base64 in base64
	shortestRun  = 24      // characters of base64: gzip of nothing is longer
	largestBytes = 8 << 20 // that are unpacked of a gzip member
)

// unpack calls see with the text, and with everything packed in it with gzip and base64 in any order. packing names the
// layers.
func unpack(text []byte, see func(packing, text []byte)) { unpackInside(nil, text, see, 0) }

func unpackInside(packing, text []byte, see func(packing, text []byte), depth int) {
	see(packing, text)
	if depth == deepest {
		return
	}
	inside := func(how string, content []byte) {
		unpackInside(append(packing[:len(packing):len(packing)], how+" > "...), content, see, depth+1)
	}
	for from := 0; ; from++ {
		at := bytes.Index(text[from:], []byte{0x1f, 0x8b, 0x08})
		if at < 0 {
			break
		}
		from += at
		if r, err := gzip.NewReader(bytes.NewReader(text[from:])); err == nil {
			r.Multistream(false)
			content, _ := io.ReadAll(io.LimitReader(r, largestBytes)) // a member that was cut is searched up to the cut
			inside("gzip", content)
		}
	}
	for from := 0; from < len(text); {
		if !isBase64[text[from]] {
			from++
			continue
		}
		to := from
		for to < len(text) && isBase64[text[to]] {
			to++
		}
		if to-from >= shortestRun {
			for shift := range 4 { // other text may directly precede it
				inside("base64", decode(text[from+shift:to]))
			}
		}
		from = to
	}
}

// decode decodes base64 of either alphabet, without padding. A last character that only begins a byte is ignored.
func decode(run []byte) []byte {
	if len(run)%4 == 1 {
		run = run[:len(run)-1]
	}
	run = bytes.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, run)
	content := make([]byte, base64.RawStdEncoding.DecodedLen(len(run)))
	n, _ := base64.RawStdEncoding.Decode(content, run) // only characters of the alphabet are in it
	return content[:n]
}

var isBase64 = func() (is [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_" {
		is[c] = true
	}
	return is
}()
