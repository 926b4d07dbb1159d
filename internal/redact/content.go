package redact

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// Content identifies the content of an object by hashes. They are made of the object before redaction, so that a change
// of a masked value counts as well. Two different contents have the same sum with a probability of 2^-64. The hashes of
// sections have only 16 bits, because one is kept for each section of each object: one change in 65,536 goes unnoticed in
// its section. They only decide which sections a record names, never whether there is a record.
//
// The hashes leave out apiVersion and kind, which the items of a LIST lack, metadata.resourceVersion,
// metadata.managedFields, and what the plan ignores. They do not depend on the order of the members of the object and of
// its metadata. Below that, they assume that an API server always writes the same value in the same way.
type Content struct {
	Sum      uint64           // 0: not known
	Sections [Sections]uint16 // 0: the object has no such section, or none are known
	Detailed bool             // the sections are known
	Writer   uint16           // of the newest of managedFields; 0: there is none, or it is not known
}

// contentPurpose is the purpose for which the key of sums is derived. The ignored paths are added to it, so that a stored
// sum never equals one that was made with other ignored paths. A release that otherwise changes what is hashed, or how,
// needs another purpose.
const contentPurpose = "k8s_watchlist content 1\n"

// memberSpan is a member of the object, or of its metadata: data[key:end], with the value from data[value] on.
type memberSpan struct {
	key, value, end int
	inMetadata      bool
}

// level marks the objects whose members are hashed: the object itself and its metadata.
type level uint8

const (
	noLevel level = iota
	objectLevel
	metadataLevel
)

// passed notes the member data[key:end] of the object or its metadata.
func (w *walk) passed(at level, r *rule, key, value, end int) {
	if r.note == ownMetadata && w.data[value] == '{' {
		return // its members count
	}
	w.memberSpans = append(w.memberSpans, memberSpan{key, value, end, at == metadataLevel})
}

// content returns the hashes of the object, which has been walked.
func (w *walk) content(start, end int) Content {
	data, members := w.data, w.memberSpans
	for i := range members {
		if !members[i].isCompact(data) {
			// Some servers write one form of the same object with white space and another without.
			var compact bytes.Buffer
			if json.Compact(&compact, data[start:end]) != nil {
				return Content{}
			}
			data = compact.Bytes()
			w.memberSpans = membersOf(data, w.memberSpans[:0])
			members = w.memberSpans
			break
		}
	}
	c := w.hash(data, members)
	c.Writer = w.facts.writer(&w.plan.sumKey, w.data)
	return c
}

// isCompact reports whether there is no white space around the key.
func (m *memberSpan) isCompact(data []byte) bool {
	return data[m.value-1] == ':' && data[m.value-2] == '"' && (data[m.key-1] == ',' || data[m.key-1] == '{')
}

// hash returns the hashes of an object with these members.
func (w *walk) hash(data []byte, members []memberSpan) Content {
	p := w.plan
	c := Content{Detailed: p.sections != nil}
	for i := range members {
		m := &members[i]
		key := data[m.key+1 : m.value-2]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(jsonscan.Unquote(key))
		}
		if isVersioning(key, m.inMetadata) {
			continue
		}
		text := data[m.key:m.end]
		ignored := p.ignored
		if m.inMetadata {
			ignored = p.ignoredInMetadata
		}
		if len(ignored) > 0 {
			if text = w.counting(data, m, key, ignored); text == nil {
				continue
			}
		}
		sum := p.sumKey.of(text)
		if m.inMetadata {
			sum ^= sum << 1 // another hash than that of the same member outside of the metadata
		}
		c.Sum += sum // whatever their order
		if c.Detailed {
			if at := p.sections.of(key, m.inMetadata); at != noSection {
				c.Sections[at] += uint16(sum >> 32)
			}
		}
	}
	if c.Sum == 0 {
		c.Sum = 1
	}
	return c
}

// isVersioning reports whether a member identifies a version of the object, and is no part of its content.
func isVersioning(key []byte, inMetadata bool) bool {
	if inMetadata {
		return string(key) == "resourceVersion" || string(key) == "managedFields"
	}
	return string(key) == "apiVersion" || string(key) == "kind"
}

// membersOf finds the members of a compact object and of its metadata, and appends them to members.
func membersOf(data []byte, members []memberSpan) []memberSpan {
	hasMetadata := false
	jsonscan.Members(data, 0, func(m jsonscan.Member) bool {
		if hasMetadata || data[m.Value] != '{' || string(m.Name(data)) != "metadata" {
			members = append(members, memberSpan{m.KeyFrom - 1, m.Value, m.End, false})
			return true
		}
		hasMetadata = true
		members = appendMetadata(data, m.Value, members)
		return true
	})
	return members
}

// appendMetadata appends the members of the metadata at data[i].
func appendMetadata(data []byte, i int, members []memberSpan) []memberSpan {
	jsonscan.Members(data, i, func(own jsonscan.Member) bool {
		members = append(members, memberSpan{own.KeyFrom - 1, own.Value, own.End, true})
		return true
	})
	return members
}

// Sections is for how many sections of an object a hash is kept.
const Sections = 11

// The sections of the metadata, and the last section, which all other members share.
const (
	sectionLabels = iota
	sectionAnnotations
	sectionFinalizers
	sectionOwners
	sectionDeletion
	firstNamed // the first section of the object's own members, which get theirs in the order in which they are met

	sectionOther = Sections - 1
	noSection    = -1
)

var metadataSections = [firstNamed]string{
	sectionLabels: "metadata.labels", sectionAnnotations: "metadata.annotations", sectionFinalizers: "metadata.finalizers",
	sectionOwners: "metadata.ownerReferences", sectionDeletion: "metadata.deletionTimestamp",
}

// otherSection is the name of the section that members without one of their own share.
const otherSection = "other"

// longestSection is the maximum length of a section's name, in bytes.
const longestSection = 63

// sectionTable assigns sections to the members of a resource's objects. Most kinds have two members besides metadata. If
// there are more members than sections, the last ones share one.
type sectionTable struct {
	names atomic.Pointer[[]string] // of the sections from firstNamed on
	mu    sync.Mutex               // for who adds one
}

func newSectionTable() *sectionTable {
	t := &sectionTable{}
	t.names.Store(&[]string{})
	return t
}

// of returns the section of a member.
func (t *sectionTable) of(key []byte, inMetadata bool) int {
	if inMetadata {
		switch string(key) {
		case "labels":
			return sectionLabels
		case "annotations":
			return sectionAnnotations
		case "finalizers":
			return sectionFinalizers
		case "ownerReferences":
			return sectionOwners
		case "deletionTimestamp", "deletionGracePeriodSeconds":
			return sectionDeletion
		case "name", "namespace", "uid", "generateName", "creationTimestamp", "selfLink", "generation":
			return noSection // these never change, or change with everything else
		}
		return sectionOther
	}
	names := *t.names.Load()
	for i, name := range names {
		if name == string(key) {
			return firstNamed + i
		}
	}
	if firstNamed+len(names) >= sectionOther || len(key) == 0 || len(key) > longestSection || !utf8.Valid(key) {
		return sectionOther
	}
	return t.add(string(key))
}

func (t *sectionTable) add(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := *t.names.Load()
	if at := slices.Index(names, name); at >= 0 {
		return firstNamed + at
	}
	if firstNamed+len(names) >= sectionOther {
		return sectionOther
	}
	names = append(slices.Clone(names), name)
	t.names.Store(&names)
	return firstNamed + len(names) - 1
}

func (t *sectionTable) name(section int) string {
	switch {
	case section < firstNamed:
		return metadataSections[section]
	case section == sectionOther:
		return otherSection
	}
	return (*t.names.Load())[section-firstNamed]
}

// SectionSet is some of the sections of an object.
type SectionSet struct {
	table *sectionTable
	bits  uint16
}

// Changed returns the sections in which two contents of an object differ: none if the sections of one are not known.
func (p *Plan) Changed(before, after *Content) SectionSet {
	if !before.Detailed || !after.Detailed {
		return SectionSet{}
	}
	set := SectionSet{table: p.sections}
	for i := range before.Sections {
		if before.Sections[i] != after.Sections[i] {
			set.bits |= 1 << i
		}
	}
	return set
}

// IsEmpty reports whether no section is in the set.
func (s SectionSet) IsEmpty() bool { return s.bits == 0 }

// IsDeletion reports whether the set holds nothing but the mark for deletion.
func (s SectionSet) IsDeletion() bool { return s.bits == 1<<sectionDeletion }

// Names are the names of the sections, in order: the members of an object (spec, status, data), and those of its metadata
// after "metadata.". What has no section of its own is called other.
func (s SectionSet) Names() []string {
	var names []string
	for i := range Sections {
		if s.bits&(1<<i) != 0 {
			names = append(names, s.table.name(i))
		}
	}
	slices.Sort(names)
	return names
}

// Has reports whether the set holds the section with this name.
func (s SectionSet) Has(name string) bool {
	for i := range Sections {
		if s.bits&(1<<i) != 0 && s.table.name(i) == name {
			return true
		}
	}
	return false
}

// IsOnly reports whether the set holds exactly the section with this name.
func (s SectionSet) IsOnly(name string) bool {
	return bits.OnesCount16(s.bits) == 1 && s.table.name(bits.TrailingZeros16(s.bits)) == name
}

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
