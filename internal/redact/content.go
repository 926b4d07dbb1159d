package redact

import (
	"bytes"
	"encoding/json"

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
		jsonscan.Members(data, m.Value, func(own jsonscan.Member) bool {
			members = append(members, memberSpan{own.KeyFrom - 1, own.Value, own.End, true})
			return true
		})
		return true
	})
	return members
}
