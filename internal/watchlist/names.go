package watchlist

import "encoding/binary"

// nameArena keeps the names of many objects without a pointer for each: bytes in large chunks, namespaces
// stored once.
type nameArena struct {
	chunks     [][]byte
	live, dead int // bytes

	namespaces     []string
	namespaceIndex map[string]uint64
}

// nameRef is where a name stands: chunk number and offset in it. With chunks of 64 KiB that reaches 4 GiB.
type nameRef uint32

const (
	nameChunkBytes = 1 << 16
	// compactDeadBytes is how much may be wasted before a rebuild is worth its time.
	compactDeadBytes = 1 << 20
)

func (a *nameArena) add(namespace, name string) nameRef {
	index, ok := a.namespaceIndex[namespace]
	if !ok {
		if a.namespaceIndex == nil {
			a.namespaceIndex = make(map[string]uint64)
		}
		index = uint64(len(a.namespaces))
		namespace = string([]byte(namespace)) // must not keep the object alive that it was cut from
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

// remove gives a name up, and says whether the arena should be rebuilt.
func (a *nameArena) remove(ref nameRef) bool {
	_, _, size := a.lookup(ref)
	a.live -= size
	a.dead += size
	return a.dead > compactDeadBytes && a.dead > a.live
}
