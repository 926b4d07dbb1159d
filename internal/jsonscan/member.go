package jsonscan

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
	if end, c, err = StringFrom(s, end); err != nil {
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
