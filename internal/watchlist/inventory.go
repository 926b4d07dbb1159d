package watchlist

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"sort"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact"
)

// Key is the UID of an object as 16 bytes, so that a map of them holds no pointers and the garbage
// collector need not look into it.
type Key [16]byte

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(k) {
		return hex.ErrLength
	}
	_, err := hex.Decode(k[:], text)
	return err
}

// String is the key in hex.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// keyOf returns the key of an object. UIDs are UUIDs; what is not (or is missing, as with some aggregated
// APIs) is hashed, a missing one by namespace and name.
func keyOf(id redact.Identity) (key Key) {
	if parseUUID(id.UID, &key) {
		return key
	}
	seed := "uid\x00" + id.UID
	if id.UID == "" {
		seed = "name\x00" + id.Namespace + "\x00" + id.Name
	}
	sum := sha256.Sum256([]byte(seed))
	copy(key[:], sum[:])
	return key
}

// KeyOf returns the key of the object with this UID.
func KeyOf(uid string) Key { return keyOf(redact.Identity{UID: uid}) }

// KeyOfIdentity returns the key of an object.
func KeyOfIdentity(id redact.Identity) Key { return keyOf(id) }

func parseUUID(s string, into *Key) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	at := 0
	for i := 0; i < len(s); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			continue
		}
		high, ok := lowerHex(s[i])
		if !ok {
			return false
		}
		i++
		low, ok := lowerHex(s[i])
		if !ok {
			return false
		}
		into[at] = high<<4 | low
		at++
	}
	return true
}

// lowerHex knows lower case only: a UID in capitals must come out of the inventory as it went in.
func lowerHex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

func (k Key) uuid() string {
	var out [36]byte
	hex.Encode(out[0:8], k[0:4])
	out[8] = '-'
	hex.Encode(out[9:13], k[4:6])
	out[13] = '-'
	hex.Encode(out[14:18], k[6:8])
	out[18] = '-'
	hex.Encode(out[19:23], k[8:10])
	out[23] = '-'
	hex.Encode(out[24:36], k[10:16])
	return string(out[:])
}

// inventory knows the last emitted version and the name of every object that has been emitted and not deleted, so that
// a missed deletion can be reported by name, and hashes of its content. It never holds the object.
type inventory struct {
	index   map[Key]entryRef
	entries entryArena
	names   nameArena
	pass    uint16

	// Values that do not fit an entry: UIDs that are not UUIDs, and versions that are not uint64.
	oddUIDs     map[Key]string
	oddVersions map[Key]string

	// The logical clusters of the objects that name one. Each name is stored once.
	clusters     map[Key]string
	clusterNames map[string]string
}

type entry struct {
	rv       uint64 // 0: in oddVersions
	sum      uint64 // of the content that was emitted last; 0: not known
	sections [redact.Sections]uint16
	writer   uint16
	name     nameRef
	pass     uint16 // the last snapshot in which the object was seen
	detailed bool   // the sections are known
	ahead    Ahead  // of the version, compared with that of the last record, which has the same content
}

func newInventory() *inventory {
	return &inventory{
		index:       make(map[Key]entryRef),
		oddUIDs:     make(map[Key]string),
		oddVersions: make(map[Key]string),

		clusters:     make(map[Key]string),
		clusterNames: make(map[string]string),
	}
}

func (inv *inventory) len() int { return len(inv.index) }

// find returns the entry of an object, or nil.
func (inv *inventory) find(key Key) *entry {
	ref, ok := inv.index[key]
	if !ok {
		return nil
	}
	return inv.entries.at(ref)
}

// get returns the last emitted version. It is none if an earlier process may have emitted the object in a version that
// is unknown.
func (inv *inventory) get(key Key) (version, bool) {
	e := inv.find(key)
	if e == nil {
		return version{}, false
	}
	return inv.versionOf(key, e), true
}

func (inv *inventory) versionOf(key Key, e *entry) version {
	if e.rv == 0 {
		return parseVersion(inv.oddVersions[key])
	}
	return version{number: e.rv}
}

// put remembers that rv of the object was emitted, and forgets its content. A new object counts as seen in the current
// snapshot; a known one keeps its mark.
func (inv *inventory) put(key Key, id redact.Identity, rv version) {
	e := inv.find(key)
	if e == nil {
		var ref entryRef
		ref, e = inv.entries.add()
		inv.index[key] = ref
		e.pass = inv.pass
		e.name = inv.names.add(id.Namespace, id.Name)
		if !parseUUID(id.UID, new(Key)) {
			inv.oddUIDs[key] = strings.Clone(id.UID)
		}
	}
	if id.Cluster != "" {
		inv.putCluster(key, id.Cluster)
	}
	inv.setVersion(key, e, rv)
	e.setContent(&redact.Content{})
	e.ahead = 0
}

func (inv *inventory) setVersion(key Key, e *entry, rv version) {
	if rv.text != "" {
		inv.oddVersions[key] = rv.text
	} else if len(inv.oddVersions) > 0 {
		delete(inv.oddVersions, key)
	}
	e.rv = rv.number
}

// putContent remembers what an object that was put holds.
func (inv *inventory) putContent(key Key, c *redact.Content) {
	inv.find(key).setContent(c)
}

func (e *entry) setContent(c *redact.Content) {
	e.sum, e.sections, e.writer, e.detailed = c.Sum, c.Sections, c.Writer, c.Detailed
}

// passOver remembers a version of an object that was not emitted, since its content was before. Of the content the newer
// hashes are kept: a restart leaves no more of it than the sum.
func (inv *inventory) passOver(key Key, rv version, c *redact.Content) {
	e := inv.find(key)
	e.ahead = inv.aheadOf(key, rv)
	inv.setVersion(key, e, rv)
	e.setContent(c)
}

// Ahead is by how much the version of an object is higher than that of its last record, because versions with the same
// content were passed over.
type Ahead uint32

// farAhead stands for a difference that is not known.
const farAhead = Ahead(math.MaxUint32)

// record returns the version of the last record of an object, or none if it is not known.
func (inv *inventory) record(key Key) version {
	e := inv.find(key)
	if e == nil || e.rv == 0 || e.ahead == farAhead || uint64(e.ahead) >= e.rv {
		return version{}
	}
	return version{number: e.rv - uint64(e.ahead)}
}

// aheadOf returns by how much a version that is passed over is ahead of the last record of the object.
func (inv *inventory) aheadOf(key Key, rv version) Ahead {
	last := inv.record(key)
	if rv == last {
		return 0 // later versions were passed over, and are undone
	}
	if last.none() || rv.number <= last.number || rv.number-last.number >= uint64(farAhead) {
		return farAhead
	}
	return Ahead(rv.number - last.number)
}

// ahead returns by how much the version of an object is ahead of its last record.
func (inv *inventory) ahead(key Key) Ahead {
	if e := inv.find(key); e != nil {
		return e.ahead
	}
	return 0
}

// putAhead remembers how far the version of an object that was put is ahead of its last record.
func (inv *inventory) putAhead(key Key, ahead Ahead) { inv.find(key).ahead = ahead }

// content is what is known of what the object held when it was emitted last.
func (inv *inventory) content(key Key) redact.Content {
	e := inv.find(key)
	if e == nil {
		return redact.Content{}
	}
	return redact.Content{Sum: e.sum, Sections: e.sections, Writer: e.writer, Detailed: e.detailed}
}

// hasPassed reports whether the version is later than that of the last record, which had this content.
func (inv *inventory) hasPassed(key Key, sum uint64) bool {
	e := inv.find(key)
	return e != nil && e.ahead > 0 && e.sum == sum && sum != 0
}

func (inv *inventory) putCluster(key Key, cluster string) {
	name, ok := inv.clusterNames[cluster]
	if !ok {
		name = strings.Clone(cluster)
		inv.clusterNames[name] = name
	}
	inv.clusters[key] = name
}

func (inv *inventory) remove(key Key) {
	ref, ok := inv.index[key]
	if !ok {
		return
	}
	name := inv.entries.at(ref).name
	inv.entries.remove(ref)
	delete(inv.index, key)
	delete(inv.oddUIDs, key)
	delete(inv.oddVersions, key)
	delete(inv.clusters, key)
	if inv.names.remove(name) {
		inv.compactNames()
	}
}

func (inv *inventory) compactNames() {
	var fresh nameArena
	for _, ref := range inv.index {
		e := inv.entries.at(ref)
		e.name = fresh.add(inv.names.get(e.name))
	}
	inv.names = fresh
}

// beginPass starts a snapshot: no known object has been seen in it yet.
func (inv *inventory) beginPass() { inv.pass++ }

// markSeen notes that the current snapshot holds the object; unmarkSeen undoes that.
func (inv *inventory) markSeen(key Key)   { inv.setPass(key, inv.pass) }
func (inv *inventory) unmarkSeen(key Key) { inv.setPass(key, inv.pass-1) }

// wasEmitted reports whether the last emitted version of the object, or its content, is known.
func (inv *inventory) wasEmitted(key Key) bool {
	e := inv.find(key)
	return e != nil && (e.sum != 0 || !inv.versionOf(key, e).none())
}

// hasUnknown reports whether the version of some object is not known to whoever reads the records.
func (inv *inventory) hasUnknown() bool {
	for key, ref := range inv.index {
		if e := inv.entries.at(ref); e.sum == 0 && inv.versionOf(key, e).none() {
			return true
		}
	}
	return false
}

// wasSeen reports whether the current snapshot held the object.
func (inv *inventory) wasSeen(key Key) bool {
	e := inv.find(key)
	return e != nil && e.pass == inv.pass
}

func (inv *inventory) setPass(key Key, pass uint16) {
	if e := inv.find(key); e != nil {
		e.pass = pass
	}
}

// unseen returns the objects that the current snapshot lacks, in order of namespace and name.
func (inv *inventory) unseen() []Key {
	var keys []Key
	for key, ref := range inv.index {
		if inv.entries.at(ref).pass != inv.pass {
			keys = append(keys, key)
		}
	}
	inv.sortByName(keys)
	return keys
}

// outside returns the objects in namespaces that are not in a set, in order of namespace and name.
func (inv *inventory) outside(isIn func(namespace string) bool) []Key {
	outside := inv.names.outside(isIn)
	if len(outside) == 0 {
		return nil
	}
	var keys []Key
	for key, ref := range inv.index {
		if namespace, _, _ := inv.names.lookup(inv.entries.at(ref).name); outside[namespace] {
			keys = append(keys, key)
		}
	}
	inv.sortByName(keys)
	return keys
}

// all returns every object in order of namespace and name.
func (inv *inventory) all() []Key {
	keys := make([]Key, 0, len(inv.index))
	for key := range inv.index {
		keys = append(keys, key)
	}
	inv.sortByName(keys)
	return keys
}

func (inv *inventory) sortByName(keys []Key) {
	sort.Slice(keys, func(i, j int) bool {
		namespaceI, nameI := inv.names.get(inv.find(keys[i]).name)
		namespaceJ, nameJ := inv.names.get(inv.find(keys[j]).name)
		if namespaceI != namespaceJ {
			return namespaceI < namespaceJ
		}
		return nameI < nameJ
	})
}

// identity returns all that is known of an object: its UID, its names and the last emitted version.
func (inv *inventory) identity(key Key) redact.Identity {
	e := inv.find(key)
	if e == nil {
		return redact.Identity{}
	}
	id := redact.Identity{ResourceVersion: inv.versionOf(key, e).String(), Cluster: inv.clusters[key]}
	id.Namespace, id.Name = inv.names.get(e.name)
	if odd, ok := inv.oddUIDs[key]; ok {
		id.UID = odd
	} else {
		id.UID = key.uuid()
	}
	return id
}

// entryArena stores the entries outside the map that finds them: a map that has just grown is more than half empty, so
// that whatever it holds takes more than twice its size.
type entryArena struct {
	chunks []*[entriesInChunk]entry
	used   uint32   // entries of the chunks that were ever in use
	free   entryRef // the first that is free again, plus one; 0: none. Its name refers to the next one
}

type entryRef uint32

const entriesInChunk = 1 << 7 // few, since many readers have few objects

func (a *entryArena) at(ref entryRef) *entry {
	return &a.chunks[ref/entriesInChunk][ref%entriesInChunk]
}

// add returns an empty entry.
func (a *entryArena) add() (entryRef, *entry) {
	ref := a.free - 1
	if a.free == 0 {
		if a.used%entriesInChunk == 0 {
			a.chunks = append(a.chunks, new([entriesInChunk]entry))
		}
		ref = entryRef(a.used)
		a.used++
		return ref, a.at(ref)
	}
	e := a.at(ref)
	a.free = entryRef(e.name)
	*e = entry{}
	return ref, e
}

func (a *entryArena) remove(ref entryRef) {
	*a.at(ref) = entry{name: nameRef(a.free)}
	a.free = ref + 1
}

// nameArena stores the names of many objects without a pointer for each: as bytes in large chunks, with each namespace
// stored once.
type nameArena struct {
	chunks     [][]byte
	live, dead int // bytes

	namespaces     []string
	namespaceIndex map[string]uint64
}

// nameRef is the place of a name: a chunk number and an offset. With chunks of 64 KiB that covers 4 GiB.
type nameRef uint32

const (
	nameChunkBytes = 1 << 16
	// compactDeadBytes is how many bytes may be wasted before a rebuild pays off.
	compactDeadBytes = 1 << 20
)

func (a *nameArena) add(namespace, name string) nameRef {
	index, ok := a.namespaceIndex[namespace]
	if !ok {
		if a.namespaceIndex == nil {
			a.namespaceIndex = make(map[string]uint64)
		}
		index = uint64(len(a.namespaces))
		namespace = strings.Clone(namespace) // the object that it is a slice of must not stay in memory
		a.namespaces = append(a.namespaces, namespace)
		a.namespaceIndex[namespace] = index
	}
	var head [2 * binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], index)
	n += binary.PutUvarint(head[n:], uint64(len(name)))
	size := n + len(name)

	last := len(a.chunks) - 1
	if last < 0 || len(a.chunks[last])+size > cap(a.chunks[last]) || len(a.chunks[last]) >= nameChunkBytes {
		a.chunks = append(a.chunks, make([]byte, 0, max(nameChunkBytes, size)))
		last++
	}
	at := len(a.chunks[last])
	a.chunks[last] = append(append(a.chunks[last], head[:n]...), name...)
	a.live += size
	return nameRef(uint32(last)<<16 | uint32(at))
}

// outside returns the namespaces of objects, and perhaps of former ones, that are not in a set.
func (a *nameArena) outside(isIn func(namespace string) bool) map[string]bool {
	outside := make(map[string]bool)
	for _, namespace := range a.namespaces {
		if !isIn(namespace) {
			outside[namespace] = true
		}
	}
	return outside
}

func (a *nameArena) get(ref nameRef) (namespace, name string) {
	namespace, raw, _ := a.lookup(ref)
	return namespace, string(raw)
}

func (a *nameArena) lookup(ref nameRef) (namespace string, name []byte, size int) {
	data := a.chunks[ref>>16][ref&0xffff:]
	index, n := binary.Uvarint(data)
	length, m := binary.Uvarint(data[n:])
	size = n + m + int(length)
	return a.namespaces[index], data[n+m : size], size
}

// remove releases a name and reports whether the arena should be rebuilt.
func (a *nameArena) remove(ref nameRef) bool {
	_, _, size := a.lookup(ref)
	a.live -= size
	a.dead += size
	return a.dead > compactDeadBytes && a.dead > a.live
}
