package watchlist

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
// a missed deletion can be reported by name. It never holds the object.
type inventory struct {
	entries map[Key]entry
	names   nameArena
	pass    uint16

	// Values that do not fit an entry: UIDs that are not UUIDs, and versions that are not uint64.
	oddUIDs     map[Key]string
	oddVersions map[Key]string

	contents map[Key]uint64 // hashes of the last emitted content, for objects whose versions mean nothing

	// The logical clusters of the objects that name one. Each name is stored once.
	clusters     map[Key]string
	clusterNames map[string]string
}

type entry struct {
	rv   uint64 // 0: in oddVersions
	name nameRef
	pass uint16 // the last snapshot in which the object was seen
}

func newInventory() *inventory {
	return &inventory{
		entries:     make(map[Key]entry),
		oddUIDs:     make(map[Key]string),
		oddVersions: make(map[Key]string),
		contents:    make(map[Key]uint64),

		clusters:     make(map[Key]string),
		clusterNames: make(map[string]string),
	}
}

func (inv *inventory) forgetContent(key Key) {
	if len(inv.contents) > 0 {
		delete(inv.contents, key)
	}
}

func (inv *inventory) len() int { return len(inv.entries) }

// get returns the last emitted version. It is none if an earlier process may have emitted the object in a version that
// is unknown.
func (inv *inventory) get(key Key) (version, bool) {
	e, ok := inv.entries[key]
	if !ok {
		return version{}, false
	}
	return inv.versionOf(key, e), true
}

func (inv *inventory) versionOf(key Key, e entry) version {
	if e.rv == 0 {
		return parseVersion(inv.oddVersions[key])
	}
	return version{number: e.rv}
}

// put remembers that rv of the object was emitted. A new object counts as seen in the current snapshot; a known one
// keeps its mark.
func (inv *inventory) put(key Key, id redact.Identity, rv version) {
	e, known := inv.entries[key]
	if !known {
		e.pass = inv.pass
		e.name = inv.names.add(id.Namespace, id.Name)
		if !parseUUID(id.UID, new(Key)) {
			inv.oddUIDs[key] = strings.Clone(id.UID)
		}
	}
	if id.Cluster != "" {
		inv.putCluster(key, id.Cluster)
	}
	if rv.text != "" {
		inv.oddVersions[key] = rv.text
	} else if len(inv.oddVersions) > 0 {
		delete(inv.oddVersions, key)
	}
	e.rv = rv.number
	inv.entries[key] = e
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
	e, ok := inv.entries[key]
	if !ok {
		return
	}
	delete(inv.entries, key)
	delete(inv.oddUIDs, key)
	delete(inv.oddVersions, key)
	delete(inv.clusters, key)
	inv.forgetContent(key)
	if inv.names.remove(e.name) {
		inv.compactNames()
	}
}

func (inv *inventory) compactNames() {
	var fresh nameArena
	for key, e := range inv.entries {
		e.name = fresh.add(inv.names.get(e.name))
		inv.entries[key] = e
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
	_, ok := inv.contents[key]
	rv, known := inv.get(key)
	return ok || known && !rv.none()
}

// wasSeen reports whether the current snapshot held the object.
func (inv *inventory) wasSeen(key Key) bool {
	e, ok := inv.entries[key]
	return ok && e.pass == inv.pass
}

func (inv *inventory) setPass(key Key, pass uint16) {
	if e, ok := inv.entries[key]; ok && e.pass != pass {
		e.pass = pass
		inv.entries[key] = e
	}
}

// unseen returns the objects that the current snapshot lacks, in order of namespace and name.
func (inv *inventory) unseen() []Key {
	var keys []Key
	for key, e := range inv.entries {
		if e.pass != inv.pass {
			keys = append(keys, key)
		}
	}
	inv.sortByName(keys)
	return keys
}

// all returns every object in order of namespace and name.
func (inv *inventory) all() []Key {
	keys := make([]Key, 0, len(inv.entries))
	for key := range inv.entries {
		keys = append(keys, key)
	}
	inv.sortByName(keys)
	return keys
}

func (inv *inventory) sortByName(keys []Key) {
	sort.Slice(keys, func(i, j int) bool {
		namespaceI, nameI := inv.names.get(inv.entries[keys[i]].name)
		namespaceJ, nameJ := inv.names.get(inv.entries[keys[j]].name)
		if namespaceI != namespaceJ {
			return namespaceI < namespaceJ
		}
		return nameI < nameJ
	})
}

// identity returns all that is known of an object: its UID, its names and the last emitted version.
func (inv *inventory) identity(key Key) redact.Identity {
	e, ok := inv.entries[key]
	if !ok {
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
