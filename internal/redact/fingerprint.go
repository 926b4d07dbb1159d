package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"
)

// minLength is the length from which on a fingerprint says how long the value is: the length of a short one helps to
// guess it.
const minLength = 16

// fingerprintBytes is how much of the HMAC is shown.
const fingerprintBytes = 16

// fingerprintKey makes fingerprints: with a key that is not known one cannot be looked up in a table, and the same value
// has the same one as long as the key is the same.
type fingerprintKey struct {
	macs sync.Pool
}

func newFingerprintKey(key []byte) *fingerprintKey {
	return &fingerprintKey{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// json returns the string, in JSON, that stands in the place of a value.
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
