package jsonscan

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
