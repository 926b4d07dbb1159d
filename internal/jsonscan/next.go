package jsonscan

// Next reads what follows a part of an array or object, past which s[i] is: a comma, and then there is more and the
// offset is that of the next part, or the closing bracket, and then the offset is past that.
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
