package jsonscan

// Skip returns the offset past the value that starts at s[i], which is nested in depth arrays and objects. White space
// before the value is skipped too.
func Skip(s []byte, i, depth int) (end int, err error) {
	// One bit for each open array or object, the innermost lowest: 1 for an object, 0 for an array.
	var open uint64
	n := 0
	for {
		i = Space(s, i)
		if i >= len(s) {
			return i, fail(len(s), i, ErrSyntax)
		}
		switch c := s[i]; c {
		case '"':
			if i = Plain(s, i+1); i < len(s) && s[i] == '"' {
				i++
				break
			}
			i, _, err = StringFrom(s, i)
		case '{', '[':
			if n == 64 { // no bit left: another call reads the deeper levels
				i, err = Skip(s, i, depth+n)
				break
			}
			if depth+n >= MaxDepth {
				return i, fail(len(s), i, ErrTooDeep)
			}
			i = Space(s, i+1)
			if i < len(s) && s[i] == c+2 { // '{'+2 is '}' and '['+2 is ']'
				i++
				break
			}
			n++
			open <<= 1
			if c == '{' {
				open |= 1
				if i, err = skipKey(s, i, depth+n < MaxDepth); err != nil {
					return i, err
				}
			}
			continue
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			i, _, err = Number(s, i)
		default:
			i, err = Literal(s, i)
		}
		if err != nil {
			return i, err
		}
		// A value ended, and perhaps arrays and objects with it.
		for {
			if n == 0 {
				return i, nil
			}
			i = Space(s, i)
			if i >= len(s) {
				return i, fail(len(s), i, ErrSyntax)
			}
			c := s[i]
			i++
			if c == ',' {
				break
			}
			if c != ']'+byte(open&1)<<5 { // ']'+32 is '}'
				return i - 1, fail(len(s), i-1, ErrSyntax)
			}
			n--
			open >>= 1
		}
		if open&1 == 1 {
			if i, err = skipKey(s, Space(s, i), depth+n < MaxDepth); err != nil {
				return i, err
			}
		}
	}
}

// skipKey skips the key of a member that starts at s[i], and its colon. It also skips members whose value is an empty
// object, if one may be nested here: managedFields consists mostly of those.
func skipKey(s []byte, i int, mayNest bool) (end int, err error) {
	for i < len(s) && s[i] == '"' {
		end = Plain(s, i+1)
		if !EndsKey(s, end) {
			_, _, end, err = keyFrom(s, end)
			return end, err
		}
		end += 2
		if !mayNest || end+4 > len(s) || string(s[end:end+4]) != `{},"` {
			return end, nil
		}
		i = end + 3
	}
	return i, Unexpected(s, i)
}

// Valid reports whether s is one JSON value and nothing else.
func Valid(s []byte) bool {
	i, err := Skip(s, 0, 0)
	return err == nil && Space(s, i) == len(s)
}

// Literal returns the offset past the true, false or null that starts at s[i].
func Literal(s []byte, i int) (end int, err error) {
	word := ""
	if i < len(s) {
		switch s[i] {
		case 't':
			word = "true"
		case 'f':
			word = "false"
		case 'n':
			word = "null"
		}
	}
	if word == "" {
		return i, fail(len(s), i, ErrSyntax)
	}
	for j := range len(word) {
		if i+j >= len(s) || s[i+j] != word[j] {
			return i + j, fail(len(s), i+j, ErrSyntax)
		}
	}
	return i + len(word), nil
}

// Number returns the offset past the number that starts at s[i], and whether it is written as an
// integer: without fraction and exponent.
func Number(s []byte, i int) (end int, integer bool, err error) {
	if i < len(s) && s[i] == '-' {
		i++
	}
	if i < len(s) && s[i] == '0' {
		i++
	} else if i, err = digits(s, i); err != nil {
		return i, false, err
	}
	integer = true
	if i < len(s) && s[i] == '.' {
		integer = false
		if i, err = digits(s, i+1); err != nil {
			return i, false, err
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		i, err = exponent(s, i+1)
		return i, false, err
	}
	return i, integer, nil
}

// digits skips one or more digits.
func digits(s []byte, i int) (int, error) {
	start := i
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return i, fail(len(s), i, ErrSyntax)
	}
	return i, nil
}

func exponent(s []byte, i int) (int, error) {
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	return digits(s, i)
}

// An API server writes no white space, so whatever follows a key or a value is nearly always adjacent to it. These
// functions check only the adjacent bytes and are small enough to be inlined. If they return false, [Key] and [Next]
// have to be called.

// EndsKey reports whether s[i] is the quote that closes a key, directly followed by a colon and the value.
func EndsKey(s []byte, i int) bool {
	return i+2 < len(s) && s[i] == '"' && s[i+1] == ':' && s[i+2] > ' '
}

// CommaAt reports whether s[i] is a comma, directly followed by the next part.
func CommaAt(s []byte, i int) bool {
	return i+1 < len(s) && s[i] == ',' && s[i+1] > ' '
}

// Key reads the key of a member that starts at s[i]. It returns the offset past its closing quote, the content
// of the key, and the offset of the value, past the colon and white space.
func Key(s []byte, i int) (end int, c Content, value int, err error) {
	if i >= len(s) || s[i] != '"' {
		return i, 0, i, Unexpected(s, i)
	}
	end = Plain(s, i+1)
	if EndsKey(s, end) {
		return end + 1, 0, end + 2, nil
	}
	return keyFrom(s, end)
}

// keyFrom is Key for a key that is plain from its start to before s[i].
func keyFrom(s []byte, i int) (end int, c Content, value int, err error) {
	if end, c, err = StringFrom(s, i); err != nil {
		return end, c, end, err
	}
	i = Space(s, end)
	if i >= len(s) || s[i] != ':' {
		return end, c, i, Unexpected(s, i)
	}
	return end, c, Space(s, i+1), nil
}

// Next reads what follows a part of an array or object that ends before s[i]. If it is a comma, it returns the offset
// of the next part and true. If it is the closing bracket, it returns the offset past it and false.
func Next(s []byte, i int, closing byte) (next int, more bool, err error) {
	i = Space(s, i)
	if i < len(s) {
		switch s[i] {
		case ',':
			return Space(s, i+1), true, nil
		case closing:
			return i + 1, false, nil
		}
	}
	return i, false, Unexpected(s, i)
}

// Space returns the offset of the first byte at or after s[i] that is not white space. The API server writes none, so
// this is kept small enough to be inlined.
func Space(s []byte, i int) int {
	if i < len(s) && s[i] <= ' ' {
		return space(s, i)
	}
	return i
}

func space(s []byte, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// Member is a member of an object in a text.
type Member struct {
	Key     Content // of the key
	KeyFrom int     // offset of the key, past its opening quote
	KeyTo   int     // offset of its closing quote
	Value   int     // offset of the value
	End     int     // offset past the value
}

// Name returns the text of the key of a member in s.
func (m Member) Name(s []byte) []byte { return KeyText(s[m.KeyFrom:m.KeyTo], m.Key) }

// KeyText returns the text of a key, which is a slice of the inside of its quotes unless that has escapes. Bytes that
// are not UTF-8 are kept.
func KeyText(inside []byte, content Content) []byte {
	if content&Escaped == 0 {
		return inside
	}
	return []byte(Unquote(inside))
}

// Members calls each for the members of the object that starts at s[i], until that returns false. It ends at the first
// error, and does nothing if something else starts there. It is for small texts, and where speed does not matter.
func Members(s []byte, i int, each func(Member) (more bool)) {
	if i >= len(s) || s[i] != '{' {
		return
	}
	next := Space(s, i+1)
	if next < len(s) && s[next] == '}' {
		return
	}
	for more := true; more; {
		key := next
		keyEnd, content, value, err := Key(s, key)
		if err != nil {
			return
		}
		end, err := Skip(s, value, 1)
		if err != nil || !each(Member{content, key + 1, keyEnd - 1, value, end}) {
			return
		}
		if next, more, err = Next(s, end, '}'); err != nil {
			return
		}
	}
}

// MemberNamed returns the first member with this name of the object that starts at s[i]. It is false if there is none, or an
// error comes before it.
func MemberNamed(s []byte, i int, name string) (found Member, ok bool) {
	Members(s, i, func(m Member) bool {
		if ok = string(m.Name(s)) == name; ok {
			found = m
		}
		return !ok
	})
	return found, ok
}
