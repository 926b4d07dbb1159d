package redact

import (
	"unicode/utf8"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// walk is one pass over the bytes of one object. It writes nothing: it collects the edits that make the
// bytes into what may be seen, and where the facts about the object stand.
type walk struct {
	plan  *Plan
	data  []byte
	edits edits
	facts facts

	// In an object that says what it is only after its data, the data are known to be a Secret's
	// when they have been passed already.
	undecided []span
	secret    []span
}

// value passes the value at data[i], which is kept, and lies inside depth arrays and objects.
func (w *walk) value(i int, in *interior, depth int) (end int, err error) {
	switch w.data[i] {
	case '"':
		return w.stringValue(i)
	case '{':
		return w.object(i, in, depth)
	case '[':
		return w.array(i, in, depth)
	case 't', 'f', 'n':
		return jsonscan.Literal(w.data, i)
	default:
		end, _, err := jsonscan.Number(w.data, i)
		return end, err
	}
}

// stringValue passes the string at data[i], which is kept.
func (w *walk) stringValue(i int) (end int, err error) {
	end = jsonscan.Plain(w.data, i+1)
	if end < len(w.data) && w.data[end] == '"' {
		return end + 1, nil
	}
	end, content, err := jsonscan.StringFrom(w.data, end)
	if err == nil && content&jsonscan.NonASCII != 0 {
		w.repair(i, end)
	}
	return end, err
}

// part passes the value at data[i] by its rule, and returns what has become of it.
func (w *walk) part(i int, r *rule, depth int) (end int, v verdict, err error) {
	v = r.do[shapeOf[w.data[i]]]
	switch v {
	case keep, glean:
		if w.data[i] == '"' { // as most are
			end, err = w.stringValue(i)
		} else {
			end, err = w.value(i, r.in, depth)
		}
	case mask:
		end, err = jsonscan.Skip(w.data, i, depth)
		w.edits.add(i, end, maskedJSON)
	default:
		end, err = jsonscan.Skip(w.data, i, depth)
	}
	return end, v, err
}

// object passes the object at data[i].
//
// kept is where the text that goes out ends so far. A part that stays must follow it directly, or after one
// comma; everything else between the two is an edit, be it white space or parts that do not stay.
func (w *walk) object(i int, in *interior, depth int) (end int, err error) {
	if depth >= jsonscan.MaxDepth {
		return i, &jsonscan.Error{Offset: i, Err: jsonscan.ErrTooDeep}
	}
	data := w.data
	undecided, isSecret := len(w.undecided), false
	i++
	kept, comma := i, ""
	if i = jsonscan.Space(data, i); i < len(data) && data[i] == '}' {
		w.edits.gap(kept, i, "")
		return i + 1, nil
	}
	for {
		key := i
		quote := jsonscan.Plain(data, key+1)
		keyEnd, value, content := quote+1, quote+2, jsonscan.Content(0)
		if !jsonscan.EndsKey(data, quote) || data[key] != '"' {
			if keyEnd, content, value, err = jsonscan.Key(data, key); err != nil {
				return value, err
			}
		}
		if value >= len(data) {
			return value, jsonscan.Unexpected(data, value)
		}
		r := in.others
		if content&jsonscan.Escaped != 0 {
			r = in.rule([]byte(jsonscan.Unquote(data[key+1 : keyEnd-1])))
		} else if slot := in.slots[slotOf(data, key+1, keyEnd-1)]; slot != 0 {
			r = in.search(slot, data[key+1:keyEnd-1])
		}
		if r.note != nothing {
			r = w.inContext(r, isSecret, value)
		}

		before := len(w.edits)
		w.edits.gap(kept, key, comma)
		if content&jsonscan.NonASCII != 0 {
			w.repair(key, keyEnd)
		}
		w.edits.gap(keyEnd, value, ":")
		end, v, err := w.part(value, r, depth+1)
		if err != nil {
			return end, err
		}
		if v.stays() {
			kept, comma = end, ","
		} else {
			w.edits.undo(before)
		}
		if r.note != nothing && v == keep {
			isSecret = w.note(r.note, value, end) || isSecret
		}

		if jsonscan.CommaAt(data, end) {
			i = end + 1
			continue
		}
		next, more, err := jsonscan.Next(data, end, '}')
		if err != nil {
			return next, err
		}
		if !more {
			w.edits.gap(kept, next-1, "")
			w.decide(undecided, isSecret)
			return next, nil
		}
		i = next
	}
}

// array passes the array at data[i], as object does.
func (w *walk) array(i int, in *interior, depth int) (end int, err error) {
	if depth >= jsonscan.MaxDepth {
		return i, &jsonscan.Error{Offset: i, Err: jsonscan.ErrTooDeep}
	}
	data := w.data
	r := in.elements
	i++
	kept, comma := i, ""
	if i = jsonscan.Space(data, i); i < len(data) && data[i] == ']' {
		w.edits.gap(kept, i, "")
		return i + 1, nil
	}
	for {
		if i >= len(data) {
			return i, jsonscan.Unexpected(data, i)
		}
		value, before := i, len(w.edits)
		w.edits.gap(kept, value, comma)
		end, v, err := w.part(value, r, depth+1)
		if err != nil {
			return end, err
		}
		if v.stays() {
			kept, comma = end, ","
		} else {
			w.edits.undo(before)
		}
		if r.note != nothing && v == keep {
			w.note(r.note, value, end)
		}

		if jsonscan.CommaAt(data, end) {
			i = end + 1
			continue
		}
		next, more, err := jsonscan.Next(data, end, ']')
		if err != nil {
			return next, err
		}
		if !more {
			w.edits.gap(kept, next-1, "")
			return next, nil
		}
		i = next
	}
}

// repair makes the string data[from:to] valid UTF-8, which everything downstream takes strings for.
func (w *walk) repair(from, to int) {
	inside := w.data[from+1 : to-1]
	if utf8.Valid(inside) {
		return
	}
	repaired, _ := jsonscan.Repaired(inside)
	w.edits.add(from+1, to-1, repaired)
}

// inContext returns the rule in the place of r for the value at data[i], where that depends on what was
// passed before.
func (w *walk) inContext(r *rule, isSecret bool, i int) *rule {
	switch {
	case r.note == secretData && isSecret:
		return w.plan.secretValues
	case r.note == ownMetadata && w.data[i] == '{':
		if w.facts.hasMetadata {
			return w.plan.laterMetadata
		}
		w.facts.hasMetadata = true
	}
	return r
}

// note takes note of what the value data[from:to] tells, and says whether it makes the object that it is a
// member of a Secret.
func (w *walk) note(n note, from, to int) (isSecret bool) {
	if n == secretData {
		w.undecided = append(w.undecided, span{from, to})
		return false
	}
	w.facts.take(w.data, n, span{from, to})
	return n.isKind() && w.isString(from, to, "Secret")
}

// decide is called at the end of each object, when it is known what it is.
func (w *walk) decide(undecided int, isSecret bool) {
	if len(w.undecided) == undecided {
		return
	}
	if isSecret {
		w.secret = append(w.secret, w.undecided[undecided:]...)
	}
	w.undecided = w.undecided[:undecided]
}

// isString says whether the value data[from:to] is this string, however it is written.
func (w *walk) isString(from, to int, s string) bool {
	if w.data[from] != '"' {
		return false
	}
	inside := w.data[from+1 : to-1]
	return string(inside) == s || !isVerbatim(inside) && jsonscan.Unquote(inside) == s
}
