package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"
)

// minLength is the minimum length of a value whose fingerprint includes the length. The length of a shorter one would
// help to guess it.
const minLength = 16

// fingerprintBytes is how much of the HMAC is shown.
const fingerprintBytes = 16

// fingerprintKey creates fingerprints. Without the key, a fingerprint cannot be looked up in a table. With the same
// key, the same value always has the same fingerprint.
type fingerprintKey struct {
	macs sync.Pool
}

func newFingerprintKey(key []byte) *fingerprintKey {
	return &fingerprintKey{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// json returns the JSON string that replaces a value.
func (k *fingerprintKey) json(value []byte) string {
	mac := k.macs.Get().(hash.Hash)
	defer k.macs.Put(mac)
	mac.Reset()
	mac.Write(value)
	var sum [sha256.Size]byte
	var out [96]byte
	b := append(out[:0], `"[REDACTED len=`...)
	if len(value) < minLength {
		b = append(b, "<16"...)
	} else {
		b = strconv.AppendInt(b, int64(len(value)), 10)
	}
	b = append(b, " hmac="...)
	b = hex.AppendEncode(b, mac.Sum(sum[:0])[:fingerprintBytes])
	return string(append(b, `]"`...))
}
