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

// Covers reports whether a pattern matches everything that another one matches.
func Covers(pattern, other string) bool {
	return Match(pattern, other) // a * of the other is text that only a * can match
}

// Overlap reports whether some text matches both patterns.
func Overlap(a, b string) bool {
	// both[j] is whether what follows in a and b[j:] can match the same text.
	both := make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		below := both // for a[i+1:]
		both = make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				both[j] = true
			case i < len(a) && a[i] == '*':
				both[j] = below[j] || j < len(b) && both[j+1]
			case j < len(b) && b[j] == '*':
				both[j] = both[j+1] || i < len(a) && below[j]
			default:
				both[j] = i < len(a) && j < len(b) && a[i] == b[j] && below[j+1]
			}
		}
	}
	return both[0]
}
