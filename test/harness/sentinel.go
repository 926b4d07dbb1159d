package harness

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Sentinel is a secret value that must never be seen.
type Sentinel string

// Traces are the forms in which a text gives the sentinel away: as it is, as JSON writes it, its core that no quoting
// changes, and each of them inside of something that was encoded as base64, wherever in it.
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

// core is the longest part of letters and digits.
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

// alignments are the characters that a text always becomes in base64, for each of the three places in which it may
// begin. Those at its ends hang on what stands beside it and are left out.
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
