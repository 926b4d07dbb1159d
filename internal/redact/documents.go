package redact

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// maxNested is how many documents may be nested. Deeper ones are masked without being read.
const maxNested = 2

// inspect masks the secrets in the string data[i:end], and reports whether it has written the whole string.
func (w *walk) inspect(i, end int, mode textMode, content jsonscan.Content) bool {
	text := w.data[i+1 : end-1]
	isVerbatim := content == 0 || isVerbatim(text)
	if !isVerbatim {
		w.buffer = jsonscan.AppendUnquoted(w.buffer[:0], text)
		text = w.buffer
	}
	if mayBeDocument(text, !isVerbatim) {
		if masked, decided := w.document(i, end, text, mode); decided {
			return masked
		}
	}
	if isVerbatim && mode != asCommand && place(text, 0) == len(text) {
		return false // as for most strings
	}
	t := &w.scanner
	t.mode, t.found = mode, t.found[:0]
	if isVerbatim && mode != asCommand {
		t.scan(text) // it has no lines
	} else {
		t.all(text)
	}
	if len(t.found) == 0 || w.isKeptText() {
		return false
	}
	if isVerbatim {
		for _, f := range t.found {
			w.mask(i+1+f.from, i+1+f.to, Masked, f.rule)
		}
		return false
	}
	w.replace(i, end, appendMasked(nil, text, t.found), t.found)
	return true
}

// mayBeDocument reports whether a text may be one of those that document looks for. It is false for most.
func mayBeDocument(text []byte, mayHaveLines bool) bool {
	if len(text) == 0 {
		return false
	}
	switch text[0] {
	case '{', '[', ' ', '\n', '\t', '\r', 'H', 'd':
		return true
	}
	return len(text) >= minBase64 && (mayHaveLines || len(text)%4 == 0)
}

// replace puts a text in the place of the string data[i:end].
func (w *walk) replace(i, end int, text []byte, found []finding) {
	w.mask(i+1, end-1, string(jsonscan.AppendQuoted(nil, text)), found[0].rule)
	for _, f := range found[1:] {
		w.counts[f.rule]++
		if w.tracking {
			w.record(i, f.rule)
		}
	}
}

func (w *walk) isKeptText() bool {
	if w.tracking && w.isKept() {
		w.kept++
		return true
	}
	return false
}

// document masks the secrets in a string that is, as a whole, a document. It reports whether it has written the string,
// and whether the string was such a document, to which the rules for texts do not apply.
func (w *walk) document(i, end int, text []byte, mode textMode) (masked, decided bool) {
	switch text[0] {
	case '{', '[', ' ', '\n', '\t', '\r':
		start := jsonscan.Space(text, 0)
		if start < len(text) && (text[start] == '{' || text[start] == '[') && len(text) >= start+shortestSecret {
			if masked, decided = w.jsonDocument(i, end, text, start); decided {
				return masked, true
			}
		}
	case 'H':
		if isGzip(text) {
			return w.maskDocument(i, end), true
		}
	case 'd':
		if at := dataURL(text); at > 0 && (mode == asSource || w.dataIsSecret(text, at)) {
			return w.mask(i+1, end-1, string(jsonscan.AppendQuoted(nil, text[:at]))+Masked, RuleDocument), true
		}
	}
	if len(text) < minBase64 {
		return false, false
	}
	if isBase64Text(text) {
		if w.base64IsSecret(text) {
			return w.maskDocument(i, end), true
		}
	} else if bytes.IndexByte(text, '\n') >= 0 && (isSecretManifest(text) || w.wrappedBase64(text)) {
		return w.maskDocument(i, end), true
	}
	return false, false
}

// maskDocument masks all of the string data[i:end].
func (w *walk) maskDocument(i, end int) bool { return w.mask(i+1, end-1, Masked, RuleDocument) }

// jsonDocument walks a string that is JSON as an object is walked. It reports whether it has written the string, and
// whether the string was JSON.
func (w *walk) jsonDocument(i, end int, text []byte, start int) (masked, decided bool) {
	if w.nested >= maxNested {
		if !jsonscan.Valid(text) {
			return false, false
		}
		return w.maskDocument(i, end), true
	}
	reported := 0
	if w.report != nil {
		reported = len(*w.report)
	}
	inner := w.child(text)
	defer inner.release()
	out, masked, err := inner.walkDocument(start)
	if err != nil {
		if w.report != nil {
			*w.report = (*w.report)[:reported]
		}
		if malformed := new(jsonscan.Error); errors.As(err, &malformed) {
			return false, false
		}
		return w.maskDocument(i, end), true
	}
	w.kept += inner.kept
	if !masked {
		return false, true
	}
	w.edits = append(w.edits, edit{
		from: i + 1, to: end - 1, text: string(jsonscan.AppendQuoted(nil, []byte(out))), masks: true, rule: noRule,
	})
	w.masked++
	for rule, n := range inner.counts {
		w.counts[rule] += n
	}
	return true, true
}

// walkDocument walks the JSON value at data[start], which must be all of the data, and returns what may be seen of it
// and whether anything was masked.
func (w *walk) walkDocument(start int) (out string, masked bool, err error) {
	end, _, err := w.part(start, w.plan.rules.keep, 0)
	if err != nil {
		return "", false, err
	}
	if rest := jsonscan.Space(w.data, end); rest < len(w.data) {
		return "", false, jsonscan.Unexpected(w.data, rest)
	}
	if err = w.redo(); err != nil || w.masked == 0 {
		return "", false, err
	}
	w.count()
	return w.edits.apply(w.data, start, end), true, nil
}

// child returns a walk over a document in a string, which must not change as long as it is walked over.
func (w *walk) child(text []byte) *walk {
	c := walks.Get().(*walk)
	c.plan, c.nested, c.data = w.plan, w.nested+1, text
	c.scanner.keys = w.plan.keys
	c.namesKeys = w.namesKeys
	c.tracking, c.keep, c.report = w.tracking, w.keep, w.report
	c.path = append(c.path[:0], w.path...)
	c.base = len(c.path)
	return c
}

// changes reports whether the rules mask anything in a text.
func (w *walk) changes(text []byte) bool {
	if len(text) < shortestSecret {
		return false
	}
	if c := text[0]; c == '{' || c == '[' || isSpace(c) {
		start := jsonscan.Space(text, 0)
		if start < len(text) && (text[start] == '{' || text[start] == '[') && jsonscan.Valid(text) {
			if w.nested >= maxNested {
				return true
			}
			inner := w.child(text)
			defer inner.release()
			inner.tracking = false
			_, masked, err := inner.walkDocument(start)
			return masked || err != nil
		}
	}
	if isGzip(text) || bytes.IndexByte(text, '\n') >= 0 && isSecretManifest(text) {
		return true
	}
	t := scanner{keys: w.plan.keys}
	t.all(text)
	return len(t.found) > 0
}

// base64IsSecret reports whether a string is the base64 of a text in which something is masked.
func (w *walk) base64IsSecret(s []byte) bool {
	var ok bool
	w.decoded, ok = decodeText(w.decoded[:0], s)
	return ok && w.changes(w.decoded)
}

// wrappedBase64 is base64IsSecret for base64 that is wrapped into lines.
func (w *walk) wrappedBase64(s []byte) bool {
	if run(s[:min(len(s), 60)], func(c byte) bool { return isStandardBase64(c) || c == '\n' || c == '\r' }) < min(len(s), 60) {
		return false
	}
	joined := bytes.ReplaceAll(bytes.ReplaceAll(s, []byte("\n"), nil), []byte("\r"), nil)
	return isGzip(joined) || isBase64Text(joined) && w.base64IsSecret(joined)
}

// dataIsSecret reports whether something is masked in the content of a data: URL.
func (w *walk) dataIsSecret(s []byte, at int) bool {
	content := s[at:]
	if bytes.HasSuffix(s[:at-1], []byte(";base64")) {
		return isGzip(content) || w.base64IsSecret(content)
	}
	return utf8.Valid(content) && w.changes(content)
}

// isDocument reports whether a string consists of many values rather than one.
func isDocument(s []byte) bool {
	s = bytes.TrimLeft(s, " \t\r")
	return len(s) > 0 && (s[0] == '{' || s[0] == '[' || bytes.IndexByte(s, '\n') >= 0) || isGzip(s)
}
