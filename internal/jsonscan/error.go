package jsonscan

import (
	"errors"
	"io"
	"strconv"
)

// The possible errors of a text.
var (
	ErrTruncated = io.ErrUnexpectedEOF // the text ends inside a value
	ErrSyntax    = errors.New("invalid character")
	ErrString    = errors.New("invalid character in string")
	ErrEscape    = errors.New("invalid escape in string")
	ErrTooDeep   = errors.New("nested too deep")
)

// Error reports what is wrong with a text and where, but never quotes the text.
type Error struct {
	Offset int
	Err    error // one of the errors above
}

func (e *Error) Error() string {
	return e.Err.Error() + " at offset " + strconv.Itoa(e.Offset)
}

func (e *Error) Unwrap() error { return e.Err }

// fail returns the error for s[i]. If i is past the end of the text, that is ErrTruncated.
//
//go:noinline
func fail(length, i int, what error) error {
	if i >= length {
		return &Error{Offset: length, Err: ErrTruncated}
	}
	return &Error{Offset: i, Err: what}
}

// Unexpected returns the error for a character that is not allowed at s[i].
func Unexpected(s []byte, i int) error { return fail(len(s), i, ErrSyntax) }
