package testobjects

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A JSON value is members, []any, a string, a json.Number, a bool or nil.

// members are the members of an object, in order.
type members []member

type member struct {
	key   string
	value any
}

func (m members) get(key string) any {
	for _, member := range m {
		if member.key == key {
			return member.value
		}
	}
	return nil
}

func parse(dec *json.Decoder) (any, error) {
	dec.UseNumber()
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := members{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			value, err := parse(dec)
			if err != nil {
				return nil, err
			}
			object = append(object, member{key.(string), value})
		}
		_, err = dec.Token()
		return object, err
	case json.Delim('['):
		array := []any{}
		for dec.More() {
			item, err := parse(dec)
			if err != nil {
				return nil, err
			}
			array = append(array, item)
		}
		_, err = dec.Token()
		return array, err
	}
	return token, nil
}

// style is how values are encoded.
type style struct {
	space   string // between all tokens
	escaped bool   // half of the characters of every string are escaped, although they need not be
}

func (s style) append(out []byte, v any) []byte {
	switch v := v.(type) {
	case members:
		out = append(append(out, '{'), s.space...)
		for i, m := range v {
			if i > 0 {
				out = append(append(out, ','), s.space...)
			}
			out = append(s.appendScalar(out, m.key), s.space...)
			out = append(append(out, ':'), s.space...)
			out = append(s.append(out, m.value), s.space...)
		}
		return append(out, '}')
	case []any:
		out = append(append(out, '['), s.space...)
		for i, item := range v {
			if i > 0 {
				out = append(append(out, ','), s.space...)
			}
			out = append(s.append(out, item), s.space...)
		}
		return append(out, ']')
	default:
		return s.appendScalar(out, v)
	}
}

func (s style) appendScalar(out []byte, v any) []byte {
	text, isString := v.(string)
	if !isString || !s.escaped {
		return append(out, encode(v)...)
	}
	out = append(out, '"')
	for i, r := range []rune(text) {
		switch {
		case r == '/':
			out = append(out, `\/`...)
		case i%2 == 1 && r > ' ' && r != '"' && r != '\\':
			out = utf8.AppendRune(out, r)
		case i%4 == 0:
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04X`, unit)
			}
		}
	}
	return append(out, '"')
}

// encode encodes a value that can always be encoded.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// changed returns a copy of a value in which the functions have been applied to the members of every object and to
// every value under a key.
func changed(v any, object func(members) members, value func(key string, v any) any) any {
	return changedUnder("", v, object, value)
}

func changedUnder(key string, v any, object func(members) members, value func(key string, v any) any) any {
	switch v := value(key, v).(type) {
	case members:
		out := make(members, 0, len(v))
		for _, m := range object(v) {
			out = append(out, member{m.key, changedUnder(m.key, m.value, object, value)})
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, changedUnder(key, item, object, value))
		}
		return out
	default:
		return v
	}
}

func sameMembers(m members) members { return m }

func sameValue(_ string, v any) any { return v }

// reversed sorts the keys of every object backwards: uid after managedFields, and kind after data.
func reversed(v any) any {
	return changed(v, func(m members) members {
		m = slices.Clone(m)
		slices.SortFunc(m, func(a, b member) int { return strings.Compare(b.key, a.key) })
		return m
	}, sameValue)
}

const foreign = "Größe 日本 😀 <&>\u2028"

// nonASCII puts non-ASCII text into the values that are just their name, and into the keys of maps.
func nonASCII(v any) any {
	value := func(key string, v any) any {
		switch v := v.(type) {
		case string:
			if strings.HasSuffix(v, "Value") {
				return v + foreign
			}
		case members: // the only key of the map "labels" is "labelsKey"
			if len(v) == 1 && v[0].key == key+"Key" {
				return members{{v[0].key + foreign, v[0].value}}
			}
		}
		return v
	}
	return changed(v, sameMembers, value)
}

// thinned removes some of the members, and sets others to null or to empty, as in real objects.
func thinned(v any, seed uint64) any {
	r := rand.New(rand.NewPCG(seed, 2))
	object := func(m members) members {
		var left members
		for _, m := range m {
			switch n := r.IntN(12); {
			case m.key == "kind" || m.key == "apiVersion" || m.key == "metadata" || n < 6:
				left = append(left, m)
			case n == 6:
				left = append(left, member{m.key, nil})
			case n == 7:
				left = append(left, member{m.key, empty(m.value)})
			}
		}
		return left
	}
	return changed(v, object, sameValue)
}

func empty(v any) any {
	switch v := v.(type) {
	case members:
		return members{}
	case []any:
		return []any{}
	case string:
		if strings.HasSuffix(v, "Value") { // and not a time
			return ""
		}
	}
	return v
}
