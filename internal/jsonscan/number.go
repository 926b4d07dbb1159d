package jsonscan

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

// digits passes one digit or more.
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
