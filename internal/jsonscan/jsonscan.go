// Package jsonscan finds the values in a JSON text without decoding them.
//
// Its functions take a text and an offset and return the offset past what they read, so that a caller can copy, skip or
// cut parts of the text as it goes. They accept exactly what [encoding/json.Valid] accepts. Errors report an offset and
// never a byte of the text, which may hold secrets; offsets count from the start of the text.
package jsonscan

import (
	"errors"
	"io"
	"strconv"
)

// MaxDepth is how deep arrays and objects may be nested. It is the limit of encoding/json, and therefore of the API
// server.
const MaxDepth = 10_000

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
