package jsonscan

// An API server writes no white space, so that what follows a key or a value nearly always stands next to it. These
// look only there, and are small enough to be inlined; where they say no, [Key] and [Next] must look.

// EndsKey says that s[i] is the quote that closes a key, with a colon and the value next to it.
func EndsKey(s []byte, i int) bool {
	return i+2 < len(s) && s[i] == '"' && s[i+1] == ':' && s[i+2] > ' '
}

// CommaAt says that s[i] is a comma, with the next part next to it.
func CommaAt(s []byte, i int) bool {
	return i+1 < len(s) && s[i] == ',' && s[i+1] > ' '
}
