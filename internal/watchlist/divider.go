package watchlist

import (
	"math/bits"

	"go.uber.org/zap/zapcore"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// divider is who leaves out the objects of other shards. API servers that know shards do, others ignore the parameter. Nothing
// depends on it, since the reader passes over such objects anyway. It is logged for people, because the objects of other shards
// cost the API server and the reader as much as their own. During an upgrade, API servers behind one address may differ, so each
// stream is judged anew.
type divider struct {
	is      dividerKind
	mixed   bool   // the stream has delivered objects of other shards
	objects uint64 // a bit for each object that it has delivered, chosen by the object's hash
}

type dividerKind uint8

const (
	unknownDivider dividerKind = iota
	dividedByServer
	dividedByReader
)

// convincingObjects is after how many different objects, all of the own shard, the server must have selected them. With two
// shards, that many are of the same one by chance once in four billion streams.
const convincingObjects = 32

// begin notes that another stream is read.
func (d *divider) begin() { d.mixed, d.objects = false, 0 }

// isOfAnotherShard reports whether the object belongs to another shard. One whose identity cannot be read does not.
func (r *Reader) isOfAnotherShard(object []byte) bool {
	if !r.Scope.Shard.Divided() {
		return false
	}
	b, err := r.Plan.IdentifyBytes(object)
	return err == nil && !r.Scope.Shard.OwnsBytes(b.UID, b.Namespace)
}

// noteShard notes an object of a stream and whether it belongs to the shard.
func (r *Reader) noteShard(b redact.IdentityBytes, own bool) {
	d := &r.divider
	switch {
	case !own:
		d.mixed = true
		if d.is != dividedByReader {
			d.is = dividedByReader
			r.log(zapcore.InfoLevel, "the API server sends the objects of all shards, passing over those of others", "", r.fields(nil)...)
		}
	case d.mixed || d.is == dividedByServer:
	default:
		d.objects |= 1 << (r.Scope.Shard.Hash(b.UID, b.Namespace) % 64)
		if bits.OnesCount64(d.objects) >= convincingObjects {
			d.is = dividedByServer
			r.log(zapcore.InfoLevel, "the API server sends only the objects of this shard", "", r.fields(nil)...)
		}
	}
}
