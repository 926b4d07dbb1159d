package jsonscan

// Space returns the offset of the first byte at or after s[i] that is not white space. The API server
// writes none, so it is kept small enough to be inlined for that case.
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
