package record

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"unicode/utf8"
	"unsafe"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// bodyMap sets dst to the object in json. Strings without escapes share json's memory, which therefore lives as long as
// they do. Integers that fit become Int and other numbers Double; a number that no float64 can hold becomes a string.
// Of duplicate keys the last one counts. On an error dst is unchanged.
func bodyMap(dst pcommon.Map, json string) error {
	o := outlines.Get().(*outline)
	defer o.release()
	if err := o.read(json); err != nil {
		return fmt.Errorf("cannot make map of object: %w", err)
	}
	dst.Clear()
	o.fillMap(dst, 0)
	return nil
}

// outline is a parsed JSON text: one part for each value and key, in the order of the text. It is created first,
// because a pcommon.Map with a known number of members needs one allocation, and otherwise grows by copying.
type outline struct {
	json  string
	data  []byte // the same bytes, for scanning; never written to
	parts []part
}

// part is a value or key at json[a:b]. For an array or object, a is the number of elements or members, and b is the
// part after its last.
type part struct {
	kind partKind
	a, b int32
}

type partKind uint8

const (
	partString       partKind = iota // without escapes
	partQuotedString                 // must be unquoted
	partInteger
	partDecimal
	partLiteral
	partArray
	partObject
)

var outlines = sync.Pool{New: func() any { return &outline{} }}

// maxPartsKept bounds the memory that an unusual object leaves in the pool.
const maxPartsKept = 1 << 14

func (o *outline) release() {
	o.json, o.data, o.parts = "", nil, o.parts[:0]
	if cap(o.parts) <= maxPartsKept {
		outlines.Put(o)
	}
}

var errTooLarge = errors.New("more than 2 GiB")

// read parses a text that must be one object.
func (o *outline) read(json string) error {
	if len(json) > math.MaxInt32 {
		return errTooLarge
	}
	o.json, o.data = json, unsafe.Slice(unsafe.StringData(json), len(json))
	i := jsonscan.Space(o.data, 0)
	if i >= len(json) || json[i] != '{' {
		return jsonscan.Unexpected(o.data, i)
	}
	i, err := o.value(i, 0)
	if err != nil {
		return err
	}
	if i = jsonscan.Space(o.data, i); i != len(json) {
		return jsonscan.Unexpected(o.data, i)
	}
	return nil
}

func (o *outline) add(kind partKind, a, b int) {
	o.parts = append(o.parts, part{kind, int32(a), int32(b)})
}

// value adds the value at json[i], which is nested in depth arrays and objects, and returns its end.
func (o *outline) value(i, depth int) (end int, err error) {
	if i >= len(o.json) {
		return i, jsonscan.Unexpected(o.data, i)
	}
	switch o.json[i] {
	case '"':
		end = jsonscan.Plain(o.data, i+1)
		if end < len(o.data) && o.data[end] == '"' {
			o.add(partString, i+1, end)
			return end + 1, nil
		}
		var content jsonscan.Content
		end, content, err = jsonscan.StringFrom(o.data, end)
		o.addString(i, end, content)
	case '{':
		return o.parted(i, depth, partObject, '}')
	case '[':
		return o.parted(i, depth, partArray, ']')
	case 't', 'f', 'n':
		end, err = jsonscan.Literal(o.data, i)
		o.add(partLiteral, i, end)
	default:
		var isInteger bool
		end, isInteger, err = jsonscan.Number(o.data, i)
		if isInteger {
			o.add(partInteger, i, end)
		} else {
			o.add(partDecimal, i, end)
		}
	}
	return end, err
}

func (o *outline) addString(from, to int, content jsonscan.Content) {
	kind := partString
	if content&jsonscan.Escaped != 0 || content&jsonscan.NonASCII != 0 && !utf8.Valid(o.data[from:to]) {
		kind = partQuotedString
	}
	o.add(kind, from+1, to-1)
}

// key adds the key of a member that starts at json[i], and returns the start of its value.
func (o *outline) key(i int) (value int, err error) {
	end := jsonscan.Plain(o.data, i+1)
	if jsonscan.EndsKey(o.data, end) && o.data[i] == '"' {
		o.add(partString, i+1, end)
		return end + 2, nil
	}
	end, content, value, err := jsonscan.Key(o.data, i)
	if err == nil {
		o.addString(i, end, content)
	}
	return value, err
}

// parted adds the array or object at json[i].
func (o *outline) parted(i, depth int, kind partKind, closing byte) (end int, err error) {
	if depth >= jsonscan.MaxDepth {
		return i, &jsonscan.Error{Offset: i, Err: jsonscan.ErrTooDeep}
	}
	self, n := len(o.parts), 0
	o.add(kind, 0, 0)
	i = jsonscan.Space(o.data, i+1)
	if i < len(o.json) && o.json[i] == closing {
		o.parts[self] = part{kind, 0, int32(len(o.parts))}
		return i + 1, nil
	}
	for {
		if kind == partObject {
			if i, err = o.key(i); err != nil {
				return i, err
			}
		}
		if i, err = o.value(i, depth+1); err != nil {
			return i, err
		}
		n++
		if jsonscan.CommaAt(o.data, i) {
			i++
			continue
		}
		next, more, err := jsonscan.Next(o.data, i, closing)
		if err != nil {
			return next, err
		}
		if !more {
			o.parts[self] = part{kind, int32(n), int32(len(o.parts))}
			return next, nil
		}
		i = next
	}
}

// manyMembers is the size from which an object is wide. pcommon.Map compares each new key with all earlier ones, which
// is fast for ordinary objects but quadratic for a ConfigMap of ten thousand keys.
const manyMembers = 128

// fillMap copies the members of the object at part number at into dst.
func (o *outline) fillMap(dst pcommon.Map, at int) {
	n := int(o.parts[at].a)
	if n > manyMembers {
		o.fillWide(dst, at)
		return
	}
	dst.EnsureCapacity(n)
	at++
	for range n {
		o.set(dst.PutEmpty(o.text(at)), at+1)
		at = o.after(at + 1)
	}
}

// fillWide is fillMap for many members. Only FromRaw adds them without comparing keys, at the price of losing their
// order. Each value is at first the number of its part.
func (o *outline) fillWide(dst pcommon.Map, at int) {
	n := int(o.parts[at].a)
	members := make(map[string]any, n)
	at++
	for range n {
		members[o.text(at)] = at + 1
		at = o.after(at + 1)
	}
	_ = dst.FromRaw(members) // numbers cannot fail
	for _, v := range dst.All() {
		o.set(v, int(v.Int()))
	}
}

func (o *outline) fillSlice(dst pcommon.Slice, at int) {
	n := int(o.parts[at].a)
	dst.EnsureCapacity(n)
	at++
	for range n {
		o.set(dst.AppendEmpty(), at)
		at = o.after(at)
	}
}

// after returns the part after the value at part number at.
func (o *outline) after(at int) int {
	if p := o.parts[at]; p.kind == partArray || p.kind == partObject {
		return int(p.b)
	}
	return at + 1
}

// set sets v to the value at part number at.
func (o *outline) set(v pcommon.Value, at int) {
	switch p := o.parts[at]; p.kind {
	case partObject:
		o.fillMap(v.SetEmptyMap(), at)
	case partArray:
		o.fillSlice(v.SetEmptySlice(), at)
	case partInteger, partDecimal:
		setNumber(v, o.json[p.a:p.b], p.kind == partInteger)
	case partLiteral:
		switch o.json[p.a] {
		case 't':
			v.SetBool(true)
		case 'f':
			v.SetBool(false)
		default:
			_ = v.FromRaw(nil) // an empty value
		}
	default:
		v.SetStr(o.text(at))
	}
}

// text returns the text of the string or key at part number at.
func (o *outline) text(at int) string {
	p := o.parts[at]
	if p.kind == partQuotedString {
		return jsonscan.Unquote(o.data[p.a:p.b])
	}
	return o.json[p.a:p.b]
}

func setNumber(v pcommon.Value, text string, isInteger bool) {
	if isInteger {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			v.SetInt(n)
			return
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil { // out of range; an infinity would be wrong, and many exporters refuse it
		v.SetStr(text)
		return
	}
	v.SetDouble(f)
}
