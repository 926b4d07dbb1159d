package delivery

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"unicode"

	"go.opentelemetry.io/collector/consumer/consumererror"
)

// permanentType is the type that marks an error as permanent. It is not exported, and consumererror.IsPermanent only
// reports whether it occurs anywhere, which is not enough where errors are joined.
var permanentType = reflect.TypeOf(consumererror.NewPermanent(errors.New("")))

// permanent reports whether a retry would return err again at any time. If several consumers received the logs, their
// errors are joined, and perhaps wrapped as a whole, as the Collector's pipeline telemetry does
// (consumererror.NewDownstream). Then all of them have to be permanent: the batch is retried as long as one consumer
// may accept it later. The others may receive it twice, which the ids of its records reveal, but none loses it.
//
// An error without the mark is transient, even with a status that OTLP calls not retryable: the Collector's own retries
// make no other distinction.
func permanent(err error) bool {
	if err == nil {
		return false
	}
	if reflect.TypeOf(err) == permanentType {
		return true
	}
	if joined, ok := branches(err); ok {
		for _, e := range joined {
			if !permanent(e) {
				return false
			}
		}
		return len(joined) > 0
	}
	if inner := errors.Unwrap(err); inner != nil {
		return permanent(inner)
	}
	return consumererror.IsPermanent(err)
}

// branches returns the errors that err joins, in any of the usual ways.
func branches(err error) ([]error, bool) {
	switch e := err.(type) {
	case interface{ Unwrap() []error }: // errors.Join, several %w, multierr
		return e.Unwrap(), true
	case interface{ Errors() []error }: // Kubernetes' aggregate
		return e.Errors(), true
	case interface{ WrappedErrors() []error }: // go-multierror
		return e.WrappedErrors(), true
	}
	return nil, false
}

// cause returns the error to log for err: if some of the joined errors are permanent, the first transient one, because
// it is the reason for the retry; otherwise err.
func cause(err error) error {
	mixed := false
	for e := err; e != nil; e = errors.Unwrap(e) {
		joined, _ := branches(e)
		var transient error
		for _, branch := range joined {
			if permanent(branch) {
				mixed = true
			} else if transient == nil {
				transient = branch
			}
		}
		if mixed && transient != nil {
			return cause(transient)
		}
	}
	return err
}

// maxErrorRunes bounds the logged text of an error.
const maxErrorRunes = 400

// errorText returns the text of an external error that is safe to log: its first line up to the first quoted object, as
// plain text of at most maxErrorRunes.
func errorText(err error) string {
	text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	for _, object := range []string{`{"`, `{\"`, `'{`, `"{`} {
		if before, _, found := strings.Cut(text, object); found {
			text = strings.TrimRight(before, " '\"`")
		}
	}
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	runes := 0
	for i := range text {
		if runes++; runes > maxErrorRunes {
			text = text[:i] + "…"
			break
		}
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}

// variable matches the parts that differ between errors of one kind: quoted text, paths, numbers and names with digits.
var variable = regexp.MustCompile(`"[^"]*"|'[^']*'|\S*(?:\d{4}|/|\d[A-Za-z-]|[A-Za-z-]\d)\S*`)

// kindOf returns the text of an error without its variable parts.
func kindOf(text string) string { return variable.ReplaceAllString(text, "*") }
