// Package glob matches text with the patterns of the configuration.
package glob

import "strings"

// Match reports whether s matches the pattern, in which * matches any text.
func Match(pattern, s string) bool {
	head, rest, found := strings.Cut(pattern, "*")
	if !found {
		return pattern == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	s = s[len(head):]
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(s, part)
		}
		at := strings.Index(s, part)
		if at < 0 {
			return false
		}
		s, rest = s[at+len(part):], next
	}
}

// Has reports whether the text is a pattern.
func Has(text string) bool { return strings.Contains(text, "*") }
