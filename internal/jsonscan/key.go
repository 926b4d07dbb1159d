package jsonscan

// Key reads the key of a member that starts at s[i]. It returns the offset past its closing quote, what it
// holds, and the offset of the value, past the colon and white space.
func Key[T Text](s T, i int) (end int, c Content, value int, err error) {
	if i >= len(s) || s[i] != '"' {
		return i, Plain, i, Unexpected(s, i)
	}
	if end, c, err = String(s, i); err != nil {
		return end, c, end, err
	}
	i = Space(s, end)
	if i >= len(s) || s[i] != ':' {
		return end, c, i, Unexpected(s, i)
	}
	return end, c, Space(s, i+1), nil
}
