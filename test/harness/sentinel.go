package harness

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Sentinel is a secret value that must never be emitted.
type Sentinel string

// Traces returns the forms in which a text reveals the sentinel: plain, as JSON, its core that no quoting changes, and
// each of these at any offset inside base64.
func (s Sentinel) Traces(text string) []string {
	var found []string
	for what, form := range s.forms() {
		if strings.Contains(text, form) {
			found = append(found, what+": "+form)
		}
	}
	return found
}

func (s Sentinel) forms() map[string]string {
	quoted, err := json.Marshal(string(s))
	if err != nil {
		panic(err) // a string can always be written as JSON
	}
	core := s.core()
	forms := map[string]string{
		"raw":  string(s),
		"JSON": strings.Trim(string(quoted), `"`),
		"core": core,
	}
	for name, encoding := range map[string]*base64.Encoding{"base64": base64.StdEncoding, "base64 for URLs": base64.URLEncoding} {
		forms[name] = encoding.EncodeToString([]byte(s))
		for shift, inside := range alignments(encoding, core) {
			forms[name+" after "+string('0'+rune(shift))] = inside
		}
	}
	return forms
}

// core returns the longest part of letters and digits.
func (s Sentinel) core() string {
	longest := ""
	for _, part := range strings.FieldsFunc(string(s), func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// alignments returns the base64 characters that a text always produces, for each of its three possible offsets. The
// characters at its ends depend on the surroundings and are left out.
func alignments(encoding *base64.Encoding, text string) [3]string {
	var inside [3]string
	for shift := range inside {
		encoded := encoding.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("x", shift) + text))
		first := (shift*8 + 5) / 6
		last := (shift + len(text)) * 8 / 6
		inside[shift] = encoded[first:last]
	}
	return inside
}
