package redact

import (
	"fmt"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// IdentityBytes is an [Identity] that may share memory with the data it was read from, and is valid as long as the
// data.
type IdentityBytes struct {
	UID             []byte
	ResourceVersion []byte
	Namespace       []byte
	Name            []byte
}

// Identity copies the identity out of the data, in one allocation.
func (b IdentityBytes) Identity() Identity {
	var all strings.Builder
	all.Grow(len(b.UID) + len(b.ResourceVersion) + len(b.Namespace) + len(b.Name))
	for _, part := range [...][]byte{b.UID, b.ResourceVersion, b.Namespace, b.Name} {
		all.Write(part)
	}
	rest := all.String()
	cut := func(n int) (s string) {
		s, rest = rest[:n], rest[n:]
		return s
	}
	return Identity{
		UID:             cut(len(b.UID)),
		ResourceVersion: cut(len(b.ResourceVersion)),
		Namespace:       cut(len(b.Namespace)),
		Name:            cut(len(b.Name)),
	}
}

// Identify returns the identity of the JSON object at the start of data. It reads only up to the last of the four
// parts, which is near the start in built-in types, or to the end of the metadata; what follows is not checked. For
// data that [Plan.Decode] accepts, it returns the identity that Decode finds.
func (p *Plan) Identify(data []byte) (Identity, error) {
	b, err := p.IdentifyBytes(data)
	if err != nil {
		return Identity{}, err
	}
	return b.Identity(), nil
}

// IdentifyBytes is Identify without the copy.
func (p *Plan) IdentifyBytes(data []byte) (IdentityBytes, error) {
	s := search{data: data}
	if err := s.object(jsonscan.Space(data, 0), false); err != nil {
		return IdentityBytes{}, fmt.Errorf("cannot identify object: %w", err)
	}
	return IdentityBytes{
		UID:             s.stringAt(s.uid),
		ResourceVersion: s.stringAt(s.resourceVersion),
		Namespace:       s.stringAt(s.namespace),
		Name:            s.stringAt(s.name),
	}, nil
}

// search finds the parts of an identity in the metadata of an object.
type search struct {
	data                                  []byte
	uid, resourceVersion, namespace, name span // the first string of each
	parts                                 int  // number of parts found
}

const identityParts = 4

// object walks the object at data[i], which is the object itself or its metadata, until the identity is complete.
func (s *search) object(i int, isMetadata bool) error {
	data := s.data
	if i >= len(data) || data[i] != '{' {
		return jsonscan.Unexpected(data, i)
	}
	depth := 1
	if isMetadata {
		depth = 2
	}
	if i = jsonscan.Space(data, i+1); i < len(data) && data[i] == '}' {
		return nil
	}
	for {
		keyEnd, content, value, err := jsonscan.Key(data, i)
		if err != nil {
			return err
		}
		key := jsonscan.KeyText(data[i+1:keyEnd-1], content)
		if !isMetadata && string(key) == "metadata" && value < len(data) && data[value] == '{' {
			return s.object(value, true)
		}
		end, err := jsonscan.Skip(data, value, depth)
		if err != nil {
			return err
		}
		if isMetadata && data[value] == '"' {
			s.take(key, span{value, end})
			if s.parts == identityParts {
				return nil
			}
		}

		next, more, err := jsonscan.Next(data, end, '}')
		if err != nil || !more {
			return err
		}
		i = next
	}
}

// take records the string at value, if it is part of the identity.
func (s *search) take(key []byte, value span) {
	var part *span
	switch string(key) {
	case "uid":
		part = &s.uid
	case "resourceVersion":
		part = &s.resourceVersion
	case "namespace":
		part = &s.namespace
	case "name":
		part = &s.name
	default:
		return
	}
	if *part == (span{}) {
		*part = value
		s.parts++
	}
}

// stringAt returns the text of the string at p, without a copy if it has no escapes.
func (s *search) stringAt(p span) []byte {
	if p == (span{}) {
		return nil
	}
	inside := s.data[p.from+1 : p.to-1]
	if isVerbatim(inside) {
		return inside
	}
	return []byte(jsonscan.Unquote(inside))
}
