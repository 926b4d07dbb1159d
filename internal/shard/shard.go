// Package shard divides the objects of a cluster among several processes, by a hash of each object's UID or namespace.
// It makes the same division as the API server does for the parameter shardSelector (KEP-5866,
// https://github.com/kubernetes/enhancements/issues/5866), so that it does not matter which of the two applies it.
package shard

import (
	"fmt"
	"math/bits"
)

// By is the field of an object whose hash decides to which shard the object belongs.
type By uint8

const (
	// UID spreads the objects evenly.
	UID By = iota
	// Namespace keeps all objects of a namespace together. Those without a namespace all belong to one shard.
	Namespace
)

func (b By) String() string {
	if b == Namespace {
		return "namespace"
	}
	return "uid"
}

// Shard is one part of the objects. The zero value is all of them. It is comparable and can be part of a map key.
type Shard struct {
	Index, Total int // Index is below Total; Total 0 or 1 means that nothing is divided
	By           By
}

// Divided reports whether the shard may lack objects.
func (s Shard) Divided() bool { return s.Total > 1 }

// Owns reports whether an object belongs to the shard. Objects without a UID all belong to the same one.
func (s Shard) Owns(uid, namespace string) bool { return owns(s, uid, namespace) }

// OwnsBytes is Owns for texts that are not strings yet.
func (s Shard) OwnsBytes(uid, namespace []byte) bool { return owns(s, uid, namespace) }

// Hash returns the hash of an object by which it is divided.
func (s Shard) Hash(uid, namespace []byte) uint64 { return hash(s, uid, namespace) }

func hash[T string | []byte](s Shard, uid, namespace T) uint64 {
	if s.By == Namespace {
		return hashOf(namespace)
	}
	return hashOf(uid)
}

func owns[T string | []byte](s Shard, uid, namespace T) bool {
	if !s.Divided() {
		return true
	}
	hash := hash(s, uid, namespace)
	return bound(s.Index, s.Total) <= hash && hash <= s.last()
}

// Covers reports whether all objects of another shard belong to this one, too.
func (s Shard) Covers(other Shard) bool {
	switch {
	case !s.Divided():
		return true
	case !other.Divided() || s.By != other.By:
		return false
	}
	return bound(s.Index, s.Total) <= bound(other.Index, other.Total) && s.last() >= other.last()
}

// Overlaps reports whether an object may belong to both shards.
func (s Shard) Overlaps(other Shard) bool {
	if !s.Divided() || !other.Divided() || s.By != other.By {
		return true
	}
	return bound(s.Index, s.Total) <= other.last() && bound(other.Index, other.Total) <= s.last()
}

// Selector returns the value of the request parameter shardSelector, or "" if nothing is divided. API servers before
// 1.36, and later ones without the feature gate ShardedListAndWatch, ignore the parameter.
func (s Shard) Selector() string {
	if !s.Divided() {
		return ""
	}
	end := "0x10000000000000000" // 2^64, the only number of 17 digits that the API server accepts
	if s.Index < s.Total-1 {
		end = fmt.Sprintf("0x%016x", bound(s.Index+1, s.Total))
	}
	return fmt.Sprintf("shardRange(object.metadata.%s, '0x%016x', '%s')", s.By, bound(s.Index, s.Total), end)
}

// String describes the shard to people: "2 of 4", with indexes from 0 as in the configuration, or "2 of 4 by namespace".
func (s Shard) String() string {
	if !s.Divided() {
		return ""
	}
	by := ""
	if s.By != UID {
		by = " by " + s.By.String()
	}
	return fmt.Sprintf("%d of %d%s", s.Index, s.Total, by)
}

// last returns the highest hash of the shard.
func (s Shard) last() uint64 {
	if !s.Divided() || s.Index == s.Total-1 {
		return ^uint64(0)
	}
	return bound(s.Index+1, s.Total) - 1
}

// bound returns the lowest hash of a shard, index · 2^64 / total rounded down. The owner of a hash is found by comparing
// it with bounds: multiplying the hash instead gives another result at a bound that is not a whole number.
func bound(index, total int) uint64 {
	quotient, _ := bits.Div64(uint64(index), 0, uint64(total))
	return quotient
}

// hashOf returns the hash of the API server: FNV-1a with 64 bits. http://www.isthe.com/chongo/tech/comp/fnv/
func hashOf[T string | []byte](value T) uint64 {
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	hash := uint64(offset)
	for i := range len(value) {
		hash = (hash ^ uint64(value[i])) * prime
	}
	return hash
}
