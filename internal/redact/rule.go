package redact

// rule says what becomes of one value, by the shape that it turns out to have.
type rule struct {
	do   [shapes]verdict
	note note
	in   *interior // of arrays and objects that are kept or gleaned; nil where there can be none
}

// shape is what a value is, as its first byte tells.
type shape uint8

const (
	scalar shape = iota // strings, numbers, booleans, and what is no value at all
	null
	array
	object
	shapes = iota
)

// verdict is what becomes of a value.
type verdict uint8

const (
	keep  verdict = iota // goes out, with what its interior says of its parts
	mask                 // goes out as Masked
	drop                 // does not go out, and neither does its key
	glean                // as drop, but it is looked through for what its parts tell
)

// stays says whether something goes out in the place of the value.
func (v verdict) stays() bool { return v == keep || v == mask }

// whole is the rule that gives every shape the same verdict.
func whole(v verdict) *rule { return &rule{do: [shapes]verdict{v, v, v, v}} }

// noted is the rule that keeps a value and takes note of it.
func (in *interior) noted(n note) *rule { return &rule{note: n, in: in} }

// interior says what becomes of the parts of an array or object.
type interior struct {
	elements *rule // of an array
	others   *rule // the members of an object that are not named
	slots    [64]uint8
	members  []member
}

// member is the rule for the value under one key.
type member struct {
	key  string
	rule *rule
	next uint8 // position + 1 of the next member in the same slot
}

// named makes the member rules of an interior. Later ones replace earlier ones of the same key.
func (in *interior) named(members ...member) *interior {
	in.members, in.slots = nil, [64]uint8{}
	position := map[string]int{}
	for _, m := range members {
		if at, ok := position[m.key]; ok {
			in.members[at].rule = m.rule
			continue
		}
		position[m.key] = len(in.members)
		slot := &in.slots[slotOf([]byte(m.key), 0, len(m.key))]
		in.members = append(in.members, member{key: m.key, rule: m.rule, next: *slot})
		*slot = uint8(len(in.members))
	}
	return in
}

// with returns an interior that treats some members differently, and the others and the elements alike.
func (in *interior) with(members ...member) *interior {
	derived := &interior{elements: in.elements, others: in.others}
	return derived.named(append(append([]member(nil), in.members...), members...)...)
}

// slotOf spreads the keys data[from:to] over the slots, so that most keys that have no rule meet an empty one. An empty
// key goes by the bytes around it.
func slotOf(data []byte, from, to int) uint8 {
	return (data[from] + data[to-1]<<2 + uint8(to-from)*5) & 63
}

// rule returns the rule for the member with this key.
func (in *interior) rule(key []byte) *rule {
	if len(key) == 0 {
		return in.others
	}
	return in.search(in.slots[slotOf(key, 0, len(key))], key)
}

func (in *interior) search(slot uint8, key []byte) *rule {
	for slot != 0 {
		m := &in.members[slot-1]
		if m.key == string(key) {
			return m.rule
		}
		slot = m.next
	}
	return in.others
}

// shapeOf tells the shape of a value by its first byte.
var shapeOf = [256]shape{'n': null, '[': array, '{': object}
