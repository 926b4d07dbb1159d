// Package oracle is a slow, independent implementation of the redaction policy for tests: encoding/json parses an
// object to a tree, and the rules are applied to the tree with recursion, regular expressions and maps. It shares no
// code with the fast implementation.
package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Tree is a JSON value. Members keep their order, and duplicates are kept, so that nothing can hide behind another
// member.
type Tree struct {
	Kind    byte // '{', '[', or 0 for a scalar
	Scalar  any  // string, json.Number, bool or nil
	Members []Member
	Items   []Tree

	// Document is the content of a string in which something was masked. The string may be encoded in any way.
	Document *Tree
}

// Member is a key and its value.
type Member struct {
	Key   string
	Value Tree
}

// Parse reads the first JSON value of data, which must be an object, and returns where it ends.
func Parse(data []byte) (Tree, int, error) {
	t, end, err := parseValue(data)
	if err == nil && t.Kind != '{' {
		err = errors.New("not an object")
	}
	return t, end, err
}

func parseValue(data []byte) (Tree, int, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return Tree{}, 0, err
	}
	end := int(dec.InputOffset())
	dec = json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	t, err := next(dec)
	return t, end, err
}

func next(dec *json.Decoder) (Tree, error) {
	token, err := dec.Token()
	if err != nil {
		return Tree{}, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return Tree{Scalar: token}, nil
	}
	t := Tree{Kind: byte(delim)}
	for dec.More() {
		var m Member
		if t.Kind == '{' {
			key, err := dec.Token()
			if err != nil {
				return t, err
			}
			m.Key = key.(string)
		}
		if m.Value, err = next(dec); err != nil {
			return t, err
		}
		if t.Kind == '{' {
			t.Members = append(t.Members, m)
		} else {
			t.Items = append(t.Items, m.Value)
		}
	}
	if _, err = dec.Token(); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return t, err
}

// Get returns the values of all members with a key.
func (t Tree) Get(key string) []Tree {
	var all []Tree
	for _, m := range t.Members {
		if m.Key == key {
			all = append(all, m.Value)
		}
	}
	return all
}

// FirstString returns the first string under a key.
func (t Tree) FirstString(key string) string {
	for _, v := range t.Get(key) {
		if s, ok := v.Scalar.(string); ok {
			return s
		}
	}
	return ""
}

func (t Tree) isString() bool {
	_, ok := t.Scalar.(string)
	return ok && t.Kind == 0
}

func (t Tree) isNull() bool { return t.Kind == 0 && t.Scalar == nil }
