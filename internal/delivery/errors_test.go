package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.uber.org/multierr"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// chained joins errors like go-multierror: errors.As sees all of them in turn.
type chained []error

func (c chained) Error() string           { return fmt.Sprint([]error(c)) }
func (c chained) WrappedErrors() []error  { return c }
func (c chained) Unwrap() error           { return c[0] }
func (c chained) As(target any) bool      { return errors.As(errors.Join(c...), target) }
func wrapped(err error) error             { return fmt.Errorf("cannot export: %w", err) }
func twice(err error) error               { return fmt.Errorf("%w and %w", err, err) }
func logsError(err error) error           { return consumererror.NewLogs(err, plog.NewLogs()) }
func httpError(err error, code int) error { return consumererror.NewOTLPHTTPError(err, code) }
func instrumented(errs ...error) error    { return consumererror.NewDownstream(fannedOut(errs...)) }
func permanentError(err error) error      { return consumererror.NewPermanent(err) }
func aggregate(errs ...error) error       { return utilerrors.NewAggregate(errs) }
func retryable(err error) error           { return consumererror.NewRetryableError(err) }

// fannedOut returns what the Collector's fan-out returns with pipeline telemetry around each of its consumers.
func fannedOut(errs ...error) (all error) {
	for _, err := range errs {
		all = multierr.Append(all, consumererror.NewDownstream(err))
	}
	return all
}

func TestPermanent(t *testing.T) {
	mixed := func(join func(...error) error) []error { return []error{join(errBad, errBusy), join(errBusy, errBad)} }
	join := func(errs ...error) error { return errors.Join(errs...) }
	combine := func(errs ...error) error { return multierr.Combine(errs...) }
	chain := func(errs ...error) error { return chained(errs) }
	list := func(errs ...error) []error { return errs }
	for _, tt := range []struct {
		name string
		errs []error
		want bool
	}{
		{"plain", list(errBusy, wrapped(errBusy), context.DeadlineExceeded), false},
		{"permanent", list(errBad, wrapped(errBad), consumererror.NewDownstream(errBad), logsError(errBad), retryable(errBad)), true},
		{"permanent around something else", list(permanentError(errBusy), permanentError(join(errBusy, errBusy)), wrapped(permanentError(retryable(errBusy)))), true},
		{"retryable", list(retryable(errBusy), logsError(errBusy), httpError(errBusy, 503)), false},
		{"a status without the mark", list(httpError(errBusy, 400), wrapped(httpError(errBusy, 413))), false},
		{"mixed: errors.Join", mixed(join), false},
		{"mixed: multierr", mixed(combine), false},
		{"mixed: fan-out", mixed(fannedOut), false},
		{"mixed: go-multierror", mixed(chain), false},
		{"mixed: aggregate", mixed(aggregate), false},
		{"mixed: two %w", list(fmt.Errorf("%w, and %w", errBad, errBusy), fmt.Errorf("%w, and %w", errBusy, errBad)), false},
		{"mixed and wrapped", list(wrapped(join(errBad, errBusy)), wrapped(combine(errBusy, errBad)), wrapped(chain(errBad, errBusy))), false},
		{"mixed and wrapped twice", list(wrapped(wrapped(join(errBad, errBusy))), consumererror.NewDownstream(wrapped(fannedOut(errBad, errBusy)))), false},
		{"mixed: pipeline telemetry", mixed(instrumented), false},
		{"mixed: one branch retryable", list(join(errBad, retryable(errBusy)), logsError(join(errBad, errBusy)), retryable(wrapped(join(errBad, errBusy)))), false},
		{"mixed deep inside", list(join(errBad, wrapped(combine(errBad, wrapped(join(errBad, errBusy))))), instrumented(errBad, instrumented(errBad, errBusy)), twice(join(errBad, errBusy))), false},
		{"all permanent", list(join(errBad, errBad), combine(errBad, wrapped(errBad)), chain(errBad, errBad), aggregate(errBad, errBad),
			wrapped(instrumented(errBad, instrumented(errBad, errBad))), twice(errBad), join(errBad, permanentError(errBusy))), true},
	} {
		for i, err := range tt.errs {
			if got := permanent(err); got != tt.want {
				t.Errorf("%s, error %d: permanent(%v) = %v", tt.name, i, err, got)
			}
		}
	}
	if permanent(nil) {
		t.Error("no error is permanent")
	}
}

// However errors are joined, the transient one is the reason for the retry.
func TestCauseIsTheTransientError(t *testing.T) {
	f := func(err, want error) {
		t.Helper()
		if got := cause(err); got != want {
			t.Errorf("cause(%v) = %v, want %v", err, got, want)
		}
	}
	f(errBusy, errBusy)
	f(errors.Join(errBad, errBusy), errBusy)
	f(wrapped(errors.Join(errBad, errors.Join(errBad, errBusy))), errBusy)
	both := errors.Join(errBusy, errBusy)
	f(both, both)
	f(errBad, errBad)
}

func TestErrorTextIsShortAndQuotesNoObject(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := errorText(errors.New(text)); got != want {
			t.Errorf("errorText(%q) = %q, want %q", text, got, want)
		}
	}
	f("rpc error: code = InvalidArgument desc = too large", "rpc error: code = InvalidArgument desc = too large")
	f("first line\nsecond line", "first line")
	f("\n  first line\r\nsecond line", "first line")
	f(`cannot parse '{"kind":"Secret","data":{"a":"aGVsbG8="}}'`, "cannot parse")
	f(`cannot parse {"kind":"Secret"}`, "cannot parse")
	f(`cannot parse "{\"kind\":\"Secret\"}"`, "cannot parse")
	f("bell\a and \x1b[31mred", "bell and [31mred")
	f("not \xff UTF-8", "not \uFFFD UTF-8")
	f(strings.Repeat("ä", maxErrorRunes), strings.Repeat("ä", maxErrorRunes))
	f(strings.Repeat("ä", 1e6), strings.Repeat("ä", maxErrorRunes)+"…")
}

func TestKindOfAnError(t *testing.T) {
	same := func(a, b string) {
		t.Helper()
		if kindOf(a) != kindOf(b) {
			t.Errorf("%q and %q are of the kinds %q and %q", a, b, kindOf(a), kindOf(b))
		}
	}
	same("object pods/shop/a-1 is refused", "object pods/shop/b-2 is refused")
	same(`object "a b" is refused`, `object "c" is refused`)
	same("record of 1048577 bytes is too large", "record of 22222222 bytes is too large")
	same("request 7f3b-11 failed", "request 9c2d-47 failed")
	for _, pair := range [][2]string{{"HTTP 400", "HTTP 413"}, {"code = Internal", "code = InvalidArgument"}} {
		if kindOf(pair[0]) == kindOf(pair[1]) {
			t.Errorf("%q is of one kind", pair)
		}
	}
}
