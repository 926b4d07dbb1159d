package corpus

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Objects are the objects of one kind. They are safe for concurrent use.
type Objects struct {
	Kind *Kind

	seed      uint64
	templates []template
}

// variants is how many objects differ in more than their identity.
const variants = 64

// New returns the objects of a kind for a seed.
func New(kind *Kind, seed uint64) *Objects {
	o := &Objects{Kind: kind, seed: seed}
	for v := range uint64(variants) {
		o.templates = append(o.templates, newTemplate(kind, kind.make(newSource(seed, v))))
	}
	return o
}

// template is an object in pieces, with marks between them for the parts that differ in each object.
type template struct {
	object, partial []piece
	encoded         encodings
	head            int // bytes that a built-in object lacks in a list
}

type piece struct {
	mark byte // N, S, U, V, or 0 for constant text
	text string
}

func newTemplate(kind *Kind, o object) template {
	full, err := json.Marshal(o)
	if err != nil {
		panic(err) // the corpus is constant
	}
	var parsed struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(full, &parsed); err != nil {
		panic(err)
	}
	t := template{
		object:  pieces(string(full), marks),
		partial: pieces(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`+string(parsed.Metadata)+"}", marks),
		encoded: newEncodings(kind, string(parsed.Metadata)),
	}
	if !kind.Custom {
		// The Go types encode it like this, and a list omits both.
		head := fmt.Sprintf(`"kind":%q,"apiVersion":%q,`, kind.Kind, kind.APIVersion())
		if !strings.HasPrefix(string(full), "{"+head) {
			panic("the template begins with " + string(full[:80]))
		}
		t.head = len(head)
	}
	return t
}

// mark is a placeholder in a template for a part that differs in each object.
type mark struct {
	of   byte
	text string
}

var marks = []mark{{'N', nameMark}, {'S', namespaceMark}, {'U', uidMark}, {'V', versionMark}}

func pieces(text string, marks []mark) []piece {
	var all []piece
	for text != "" {
		at := strings.IndexByte(text, '@')
		if at < 0 {
			return append(all, piece{text: text})
		}
		all = append(all, piece{text: text[:at]})
		for _, mark := range marks {
			if strings.HasPrefix(text[at:], mark.text) {
				all, text = append(all, piece{mark: mark.of}), text[at+len(mark.text):]
				at = -1
				break
			}
		}
		if at >= 0 { // an ordinary one
			all, text = append(all, piece{text: "@"}), text[at+1:]
		}
	}
	return all
}

// Form selects which part of an object is written.
type Form int

// Forms.
const (
	Full           Form = iota
	Partial             // PartialObjectMetadata
	PartialEncoded      // the same as protobuf
	Item                // an item of a list
)

// Append appends the object with a number, in a version.
func (o *Objects) Append(to []byte, number int, version uint64, form Form) []byte {
	t := &o.templates[number%variants]
	all := t.object
	switch form {
	case Partial:
		all = t.partial
	case PartialEncoded:
		all = t.encoded.of(version)
	}
	for i := range all {
		switch p := &all[i]; p.mark {
		case 0:
			if i == 0 && form == Item {
				to = append(to, '{')
				to = append(to, p.text[1+t.head:]...)
				continue
			}
			to = append(to, p.text...)
		case 'N':
			to = o.appendName(to, number)
		case 'S':
			to = append(to, namespacePrefix...)
			to = appendPadded(to, uint64(number%97), namespaceDigits)
		case 'U':
			to = o.appendUID(to, number)
		case 'V':
			to = appendNumber(to, version)
		}
	}
	return to
}

const (
	numberDigits    = 7
	namespacePrefix = "team-"
	namespaceDigits = 2
	uidLength       = 36
)

func (o *Objects) appendName(to []byte, number int) []byte {
	to = append(to, o.Kind.Plural...)
	to = append(to, '-')
	return appendPadded(to, uint64(number), numberDigits)
}

// appendUID writes a UUID whose last part is the number.
func (o *Objects) appendUID(to []byte, number int) []byte {
	mixed := (uint64(number) + o.seed + 1) * 0x9e3779b97f4a7c15
	const digits = "0123456789abcdef"
	put := func(value uint64, n int) {
		for shift := 4 * (n - 1); shift >= 0; shift -= 4 {
			to = append(to, digits[value>>shift&15])
		}
	}
	put(mixed>>32, 8)
	to = append(to, '-')
	put(mixed>>16, 4)
	to = append(to, '-', '4')
	put(mixed>>4, 3)
	to = append(to, '-', 'a')
	put(uint64(len(o.Kind.Plural))<<8^uint64(o.Kind.Plural[0]), 3)
	to = append(to, '-')
	put(uint64(number), 12)
	return to
}

func appendPadded(to []byte, n uint64, width int) []byte {
	for limit := pow10(width - 1); limit > n && limit > 1; limit /= 10 {
		to = append(to, '0')
	}
	return appendNumber(to, n)
}

func pow10(n int) uint64 {
	p := uint64(1)
	for range n {
		p *= 10
	}
	return p
}

func appendNumber(to []byte, n uint64) []byte { return strconv.AppendUint(to, n, 10) }
