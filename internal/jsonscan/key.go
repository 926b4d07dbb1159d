package jsonscan

// Key reads the key of a member that starts at s[i]. It returns the offset past its closing quote, what it
// holds, and the offset of the value, past the colon and white space.
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
