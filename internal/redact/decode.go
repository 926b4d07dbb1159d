package redact

import (
	"errors"
	"fmt"
	"sync"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

var (
	errTooIntricate = errors.New("too many of its values are classified only by later members")
	errTooLarge     = errors.New("larger than 64 MiB")
	errPanic        = errors.New("a fault of the receiver")
)

// maxObject is the largest object that is walked. The API server stores objects of up to 1.5 MiB, and aggregated API
// servers rarely have larger ones.
const maxObject = 64 << 20

// Decode reads the JSON object at the start of data, and returns it redacted, with the number of bytes read. Nothing
// that has to be redacted is ever copied out of data. The error reports where data is malformed, never its content; it
// wraps [io.ErrUnexpectedEOF] if data ends inside the object. A well-formed object that cannot be walked has
// RedactionFailed set.
func (p *Plan) Decode(data []byte) (obj Object, n int, err error) {
	return p.decode(data, nil)
}

func (p *Plan) decode(data []byte, report *[]Redaction) (obj Object, n int, err error) {
	w := walks.Get().(*walk)
	w.plan, w.data, w.report = p, data, report
	w.scanner.keys = p.keys
	obj, n, err = w.guarded()
	if err == nil {
		p.observe(w)
		w.release()
		return obj, n, nil
	}
	isMalformed := !errors.Is(err, jsonscan.ErrTooDeep) && !errors.Is(err, errTooIntricate) && !errors.Is(err, errTooLarge) && !errors.Is(err, errPanic)
	if !isMalformed {
		if end := objectEnd(data); end > 0 {
			if p.observer != nil {
				p.observer.Failed()
			}
			return p.identityOnly(data), end, nil // the walk is not reused: its state is undefined
		}
	}
	return Object{}, 0, fmt.Errorf("cannot decode object: %w", err)
}

// guarded converts a panic to an error, because a crashed receiver is worse than a record without a body.
func (w *walk) guarded() (obj Object, n int, err error) {
	defer func() {
		if recover() != nil {
			obj, n, err = Object{}, 0, errPanic
		}
	}()
	if testPanic != nil {
		testPanic()
	}
	return w.decode()
}

// testPanic is set by tests only.
var testPanic func()

func (w *walk) decode() (obj Object, n int, err error) {
	start := jsonscan.Space(w.data, 0)
	if start >= len(w.data) || w.data[start] != '{' {
		return obj, 0, jsonscan.Unexpected(w.data, start)
	}
	w.track()
	w.fields = w.plan.fields
	end, err := w.object(start, w.plan.root, 0)
	if err != nil {
		return obj, 0, err
	}
	if end > maxObject {
		return obj, 0, errTooLarge
	}
	if len(w.late) > 0 {
		if err = w.redo(); err != nil {
			return obj, 0, err
		}
	}
	obj.JSON = w.edits.apply(w.data, start, end)
	w.describe(&obj, start)
	obj.Content = w.content(start, end)
	return obj, end, nil
}

// count adds the edits to the counts of their rules.
func (w *walk) count() {
	for _, e := range w.edits {
		if e.masks {
			w.counts[e.rule]++
		}
	}
}

// observe reports the masked and kept values.
func (p *Plan) observe(w *walk) {
	if p.observer == nil {
		return
	}
	if w.kept > 0 {
		p.observer.Kept(w.kept)
	}
	if w.masked == 0 {
		return
	}
	w.count()
	for rule, n := range w.counts {
		if n > 0 && Rule(rule) != noRule {
			p.observer.Redacted(Rule(rule), n)
		}
	}
}

// identityOnly returns an object with nothing but its identity.
func (p *Plan) identityOnly(data []byte) Object {
	obj := Object{RedactionFailed: true}
	obj.Identity, _ = p.Identify(data)
	out := []byte(`{"metadata":{`)
	for _, part := range []struct{ key, value string }{
		{"name", obj.Name}, {"namespace", obj.Namespace}, {"uid", obj.UID}, {"resourceVersion", obj.ResourceVersion},
	} {
		if part.value == "" {
			continue
		}
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), part.key...), `":"`...)
		out = append(jsonscan.AppendQuoted(out, []byte(part.value)), '"')
	}
	obj.JSON = string(append(out, '}', '}'))
	return obj
}

// objectEnd returns the offset past the object at the start of data, at any depth, or 0 if it does not end.
func objectEnd(data []byte) int {
	depth := 0
	for i := jsonscan.Space(data, 0); i < len(data); i++ {
		switch data[i] {
		case '"':
			end, _, err := jsonscan.String(data, i)
			if err != nil {
				return 0
			}
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

var walks = sync.Pool{New: func() any { return &walk{} }}

// Limits on the memory that an unusual object may leave in the pool.
const (
	maxEditsKept  = 1 << 10
	maxBufferKept = 64 << 10
)

func (w *walk) release() {
	w.plan, w.data, w.nested = nil, nil, 0
	w.facts = facts{}
	if cap(w.edits) > maxEditsKept {
		w.edits = nil
	}
	w.edits.undo(0)
	if cap(w.memberSpans) > maxEditsKept {
		w.memberSpans = nil
	}
	w.memberSpans, w.cutter.data = w.memberSpans[:0], nil
	for _, b := range []*[]byte{&w.buffer, &w.decoded, &w.cutter.out} {
		if cap(*b) > maxBufferKept {
			*b = nil
		}
	}
	if cap(w.scanner.found) > maxEditsKept {
		w.scanner.found = nil
	}
	w.scanner.text = nil
	if cap(w.editsBefore) > maxEditsKept || cap(w.lateBefore) > maxEditsKept || cap(w.late) > maxEditsKept {
		w.editsBefore, w.lateBefore, w.late = nil, nil, nil
	}
	clear(w.editsBefore)
	clear(w.lateBefore)
	clear(w.undecided)
	clear(w.late)
	w.undecided, w.late = w.undecided[:0], w.late[:0]
	w.inSecretKind, w.namesKeys, w.family, w.inCommand = 0, false, unknownProgram, false
	if w.masked > 0 {
		w.masked, w.counts = 0, [Rules]int{}
	}
	w.kept, w.base, w.fields = 0, 0, nil
	if len(w.unseenTexts) > 0 {
		clear(w.unseenTexts)
		w.unseenTexts = w.unseenTexts[:0]
	}
	if w.tracking {
		clear(w.path)
		w.tracking, w.path, w.keep, w.report = false, w.path[:0], nil, nil
	}
	walks.Put(w)
}

// Rule names the rule of the policy that masked a value.
type Rule uint8

// The rules, in the order in which docs/redaction.md explains them.
const (
	noRule            Rule = iota
	RuleLastApplied        // a copy of a manifest, which is dropped
	RuleSecret             // a value of a Secret
	RuleConfigMap          // a value of a ConfigMap
	RuleEnvironment        // the value of an environment variable
	RulePair               // the value beside a sensitive name
	RuleHeader             // the value of a header
	RuleCommand            // an argument of a command
	RuleKey                // the value under a sensitive key
	RuleDocument           // a document inside a string
	RuleAssignment         // the value of an assignment in a text
	RulePrivateKey         // a private key in PEM
	RuleToken              // a token of a known form
	RuleAuthorization      // credentials after an authentication scheme
	RuleURL                // a password, signature or secret path in a URL
	RulePasswordHash       // a hash of a password
	Rules             = iota
)

var ruleNames = [Rules]string{
	"", "last_applied", "secret", "configmap", "environment", "pair", "header", "command", "key", "document", "assignment",
	"private_key", "token", "authorization", "url", "password_hash",
}

// String returns the name of the rule in metrics.
func (r Rule) String() string { return ruleNames[r] }
