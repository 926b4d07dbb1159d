package redact

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/jsonscan"
)

// walk is one pass over the bytes of one object. It writes nothing: it collects the edits that redact the object, and
// the positions of its facts.
type walk struct {
	plan        *Plan
	data        []byte
	nested      int // in how many strings the data is nested as a document
	edits       edits
	facts       facts
	memberSpans []memberSpan // of the object and of its metadata
	cutter      cutter       // for the hash of a member
	scanner     scanner
	buffer      []byte // the text of the current string
	decoded     []byte // from base64

	// Values whose masking depends on later members of their object, and values that have to be masked.
	undecided []undecided
	late      []late

	// Both, from the walk before redo.
	lateBefore  []late
	editsBefore edits

	inSecretKind int // how many enclosing objects are of a kind that ends in Secret
	namesKeys    bool
	family       family  // of the program whose arguments follow
	command      command // the command whose words are the strings of the array
	inCommand    bool

	fields      *fieldNode   // of the current value; nil if Fields say nothing about it and its parts
	unseenTexts []unseenText // of facts that are removed

	masked int // number of edits that mask something
	counts [Rules]int

	// Used only if values may be kept, or if the caller asks what was masked.
	tracking bool
	path     []pathElement
	base     int // length of the path to the document
	keep     []Keep
	kept     int
	report   *[]Redaction
}

// undecided is a value that was walked before the kind of its object was known.
type undecided struct {
	span
	note   note
	path   []pathElement
	fields *fieldNode
}

// members is what is known of an object from the members walked so far.
type members struct {
	kind      objectKind
	sensitive bool // its name is that of a secret
	harmless  bool // its name is that of a header that does not authorize
	family    family
	value     span // the value of a pair, before its name
	arguments span // came before the command

	fieldsOfValue, fieldsOfArguments *fieldNode
}

// objectKind is what the kind of an object implies for its other members.
type objectKind uint8

const (
	isSecret objectKind = 1 << iota
	isSecretList
	isConfigMap
	isConfigMapList
	isKindOfSecret // SealedSecret and others whose template is a Secret
)

func kindOf(name []byte) objectKind {
	switch string(name) {
	case "Secret":
		return isSecret
	case "SecretList":
		return isSecretList
	case "ConfigMap":
		return isConfigMap
	case "ConfigMapList":
		return isConfigMapList
	}
	if bytes.HasSuffix(name, []byte("Secret")) {
		return isKindOfSecret
	}
	return 0
}

// value walks the value at data[i], which is kept and is nested in depth arrays and objects.
func (w *walk) value(i int, r *rule, depth int) (end int, err error) {
	switch w.data[i] {
	case '"':
		return w.stringValue(i, r.mode)
	case '{':
		return w.object(i, r.in, depth)
	case '[':
		if r.in.arguments {
			return w.commandLine(i, r, depth)
		}
		return w.array(i, r.in, depth)
	case 't', 'f', 'n':
		return jsonscan.Literal(w.data, i)
	default:
		end, _, err := jsonscan.Number(w.data, i)
		return end, err
	}
}

// stringValue walks the string at data[i], which is kept except for what the rules for texts mask in it.
func (w *walk) stringValue(i int, mode textMode) (end int, err error) {
	var content jsonscan.Content
	end = jsonscan.Plain(w.data, i+1)
	if end < len(w.data) && w.data[end] == '"' {
		end++
	} else if end, content, err = jsonscan.StringFrom(w.data, end); err != nil {
		return end, err
	}
	if mode == asArgument && w.inCommand {
		text := w.plain(i, end)
		if w.argument(i, end, text) {
			return end, nil
		}
		if isScript(text) {
			mode = asCommand
		}
	}
	if mode == asVerbatim || end-i < shortestSecret+2 || content == 0 && isPlain(w.data[i+1:end-1]) || !w.inspect(i, end, mode, content) {
		if content&jsonscan.NonASCII != 0 {
			w.repair(i, end)
		}
	}
	return end, nil
}

// part walks the value at data[i] by its rule, and returns the verdict on it.
func (w *walk) part(i int, r *rule, depth int) (end int, v verdict, err error) {
	v = r.do[shapeOf[w.data[i]]]
	switch v {
	case keep, extract:
		if w.data[i] == '"' { // the usual case
			end, err = w.stringValue(i, r.mode)
		} else {
			end, err = w.value(i, r, depth)
		}
	case drop:
		end, err = jsonscan.Skip(w.data, i, depth)
		if err == nil && r.reason == RuleLastApplied {
			w.dropped(i)
		}
	default:
		if end, err = jsonscan.Skip(w.data, i, depth); err == nil {
			v, err = w.conceal(i, end, v, r)
		}
	}
	return end, v, err
}

// conceal masks the value data[i:end] if the verdict, which may depend on the value, requires it.
func (w *walk) conceal(i, end int, v verdict, r *rule) (verdict, error) {
	switch v {
	case maskSecret:
		if isReference(w.plain(i, end)) {
			_, err := w.stringValue(i, asText)
			return keep, err
		}
	case maskHeader:
		if s := w.plain(i, end); bytes.IndexByte(s, ':') < 0 && bytes.IndexByte(s, '=') < 0 {
			_, err := w.stringValue(i, asText)
			return keep, err
		} else if name, _, ok := bytes.Cut(s, []byte(":")); ok && isHarmlessHeader(bytes.TrimSpace(name)) && bytes.IndexByte(s, '\n') < 0 {
			_, err := w.stringValue(i, asText)
			return keep, err
		}
	case dropDocument:
		if !isDocument(w.plain(i, end)) {
			_, err := w.stringValue(i, r.mode)
			return keep, err
		}
		w.dropped(i)
		return drop, nil
	case fingerprint:
		w.mask(i, end, w.plan.key.json(w.plainValue(i, end)), r.reason)
		return mask, nil
	case fingerprint64:
		w.mask(i, end, w.plan.key.json(w.decodedOrPlain(i, end)), r.reason)
		return mask, nil
	}
	if w.mask(i, end, maskedJSON, r.reason) {
		return mask, nil
	}
	if w.data[i] == '"' {
		_, err := w.stringValue(i, asVerbatim)
		return keep, err
	}
	return keep, nil
}

// mask replaces data[from:to] with a text, unless the configuration exempts the value.
func (w *walk) mask(from, to int, text string, rule Rule) bool {
	if w.tracking {
		if rule != RuleSecret && w.isKept() {
			w.kept++
			return false
		}
		w.record(from, rule)
	}
	w.edits = append(w.edits, edit{from: from, to: to, text: text, masks: true, rule: rule})
	w.masked++
	return true
}

// dropped records that the copy of a manifest at data[i] was dropped.
func (w *walk) dropped(i int) {
	w.counts[RuleLastApplied]++
	w.masked++
	if w.tracking {
		w.record(i, RuleLastApplied)
	}
}

// plain returns the text of the string data[i:end]. It is valid until the next call.
func (w *walk) plain(i, end int) []byte {
	inside := w.data[i+1 : end-1]
	if isVerbatim(inside) {
		return inside
	}
	w.buffer = jsonscan.AppendUnquoted(w.buffer[:0], inside)
	return w.buffer
}

// plainValue is plain for any scalar.
func (w *walk) plainValue(i, end int) []byte {
	if w.data[i] == '"' {
		return w.plain(i, end)
	}
	return w.data[i:end]
}

// decodedOrPlain returns the bytes that the string data[i:end] encodes in base64, or its text if it is not base64.
func (w *walk) decodedOrPlain(i, end int) []byte {
	text := w.plain(i, end)
	var err error
	if w.decoded, err = base64.StdEncoding.AppendDecode(w.decoded[:0], text); err != nil {
		return text
	}
	return w.decoded
}

// object walks the object at data[i].
//
// kept is the end of the text kept so far. The next kept part must follow it directly, or after one comma. Everything
// else between them, white space or dropped parts, becomes an edit.
func (w *walk) object(i int, in *interior, depth int) (end int, err error) {
	if depth >= jsonscan.MaxDepth {
		return i, &jsonscan.Error{Offset: i, Err: jsonscan.ErrTooDeep}
	}
	data := w.data
	var m members
	undecided := len(w.undecided)
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
		var r *rule
		if content&jsonscan.Escaped != 0 {
			r = w.ruleOf(in, []byte(jsonscan.Unquote(data[key+1:keyEnd-1])))
		} else {
			if slot := in.slots[slotOf(data, key+1, keyEnd-1)]; slot != 0 {
				r = in.search(slot, data[key+1:keyEnd-1])
			}
			if r == nil {
				if r = in.others; in.harmless != nil || in.byClass != nil && w.plan.keys.mayHaveClass(data[key+1:keyEnd-1]) {
					r = w.classRule(in, data[key+1:keyEnd-1])
				}
			}
		}
		if r.note != nothing {
			r = w.inContext(r, &m, value)
		}

		before := len(w.edits)
		w.edits.gap(kept, key, comma)
		if content&jsonscan.NonASCII != 0 {
			w.repair(key, keyEnd)
		}
		w.edits.gap(keyEnd, value, ":")
		if w.tracking {
			w.path = append(w.path, pathElement{key: jsonscan.KeyText(data[key+1:keyEnd-1], content)})
		}
		fields := w.fields
		var v verdict
		if fields == nil {
			end, v, err = w.part(value, r, depth+1)
		} else {
			end, v, err = w.fieldPart(fields.member(data[key+1:keyEnd-1], content), value, r, depth+1)
		}
		if err != nil {
			return end, err
		}
		if v.stays() {
			kept, comma = end, ","
		} else {
			w.edits.undo(before)
		}
		if in.level != noLevel {
			w.passed(in.level, r, key, value, end)
		}
		if r.note != nothing {
			if v == unseen {
				w.noteUnseen(r, &m, value, end)
			} else if v == keep || r.note == commandOfObject {
				w.note(r.note, &m, value, end)
			}
		}
		if fields != nil {
			w.fields = fields
		}
		if w.tracking {
			w.path = w.path[:len(w.path)-1]
			if r.note == pairName && len(w.path) > 0 && data[value] == '"' {
				w.path[len(w.path)-1].alias = bytes.Clone(w.plain(value, end))
			}
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
			if len(w.undecided) > undecided || m.kind&isKindOfSecret != 0 {
				w.decide(undecided, &m)
			}
			return next, nil
		}
		i = next
	}
}

// ruleOf returns the rule for the member with this key, which has no escapes.
func (w *walk) ruleOf(in *interior, key []byte) *rule {
	if len(key) > 0 {
		if r := in.search(in.slots[slotOf(key, 0, len(key))], key); r != nil {
			return r
		}
	}
	return w.classRule(in, key)
}

// classRule returns the rule for a key that is not named.
func (w *walk) classRule(in *interior, key []byte) *rule {
	r := in.unnamed(key, w.plan.keys)
	if in.byClass != nil && r == in.byClass[sensitiveKey] && (w.namesKeys || w.plan.namesKeys) && string(key) == "secretKey" {
		return w.plan.rules.keep
	}
	return r
}

// array walks the array at data[i], as object does.
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
	for n := 0; ; n++ {
		if i >= len(data) {
			return i, jsonscan.Unexpected(data, i)
		}
		value, before := i, len(w.edits)
		w.edits.gap(kept, value, comma)
		if w.tracking {
			w.path = append(w.path, pathElement{index: n, isIndex: true})
		}
		fields := w.fields
		var v verdict
		if fields == nil {
			end, v, err = w.part(value, r, depth+1)
		} else {
			end, v, err = w.fieldPart(fields.element(n), value, r, depth+1)
			w.fields = fields
		}
		if err != nil {
			return end, err
		}
		if v.stays() {
			kept, comma = end, ","
		} else {
			w.edits.undo(before)
		}
		if r.note != nothing && (v == keep || v == unseen) {
			w.facts.take(data, r.note, span{value, end})
		}
		if w.tracking {
			w.path = w.path[:len(w.path)-1]
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

// repair makes the string data[from:to] valid UTF-8, as everything downstream expects.
func (w *walk) repair(from, to int) {
	inside := w.data[from+1 : to-1]
	if utf8.Valid(inside) {
		return
	}
	repaired, _ := jsonscan.Repaired(inside)
	w.edits.add(from+1, to-1, repaired)
}

// inContext returns the rule for the value at data[i], which is not r if the members before it decide otherwise.
func (w *walk) inContext(r *rule, m *members, i int) *rule {
	rules := w.plan.rules
	switch r.note {
	case dataOfObject, binaryDataOfObject, itemsOfObject, dataOfTemplate:
		if now := w.decided(r.note, m.kind); now != nil {
			return now
		}
		if r.note == dataOfTemplate && w.inSecretKind > 0 {
			return rules.secretValues
		}
	case pairValue:
		if m.sensitive {
			return rules.pairValues
		}
	case headerValue:
		if m.harmless {
			return rules.keep
		}
	case argumentsOfObject, commandOfObject:
		w.family = m.family
	case ownMetadata:
		if w.data[i] != '{' {
			return r
		}
		if w.facts.hasMetadata {
			return rules.metadata
		}
		w.facts.hasMetadata = true
	}
	return r
}

// decided returns the rule for a member of an object of this kind, or nil if the kind does not decide it.
func (w *walk) decided(n note, kind objectKind) *rule {
	rules := w.plan.rules
	switch n {
	case dataOfObject, dataOfTemplate:
		if kind&isSecret != 0 || n == dataOfTemplate && kind&isKindOfSecret != 0 {
			return rules.secretValues
		}
		if kind&isConfigMap != 0 {
			return rules.configMapValues
		}
	case dataBelow:
		if kind&isKindOfSecret != 0 {
			return rules.secretValues
		}
	case binaryDataOfObject:
		if kind&isSecret != 0 {
			return rules.secretValues
		}
		if kind&isConfigMap != 0 {
			return rules.configMapBinary
		}
	case itemsOfObject:
		if kind&isSecretList != 0 {
			return rules.secretItems
		}
		if kind&isConfigMapList != 0 {
			return rules.configMapItems
		}
	}
	return nil
}

// note records the fact that the value data[from:to] holds about its object.
func (w *walk) note(n note, m *members, from, to int) {
	isString := w.data[from] == '"'
	switch n {
	case dataOfObject, binaryDataOfObject, itemsOfObject, dataOfTemplate:
		if w.data[from] != 'n' { // null is kept
			w.undecided = append(w.undecided, undecided{span{from, to}, n, w.pathNow(), w.fields})
		}
	case pairName:
		if isString && w.mayBeSensitiveName(w.data[from+1:to-1]) && w.scanner.isSensitiveName(w.plain(from, to)) {
			m.sensitive = true
			if m.value != (span{}) {
				w.late = append(w.late, late{m.value, w.plan.rules.pairValues, w.pathNow(), m.fieldsOfValue})
			}
		}
	case pairValue:
		if m.value == (span{}) {
			m.value, m.fieldsOfValue = span{from, to}, w.fields
		} else {
			w.undecided = append(w.undecided, undecided{span{from, to}, n, w.pathNow(), w.fields})
		}
	case headerName:
		m.harmless = isString && isHarmlessHeader(w.plain(from, to))
	case versionOfObject:
		if isString {
			group, _, _ := bytes.Cut(w.plain(from, to), []byte("/"))
			w.namesKeys = w.namesKeys || namesSecretKeys(string(group))
		}
	case commandOfObject:
		m.family = w.family
		if m.family != unknownProgram && m.arguments != (span{}) {
			w.late = append(w.late, late{m.arguments, w.plan.rules.programs[m.family], w.pathNow(), m.fieldsOfArguments})
		}
	case argumentsOfObject:
		if m.family == unknownProgram {
			m.arguments, m.fieldsOfArguments = span{from, to}, w.fields
		}
	default:
		w.facts.take(w.data, n, span{from, to})
	}
	if n.isKind() && isString {
		kind := kindOf(w.plain(from, to))
		if kind&isKindOfSecret != 0 && m.kind&isKindOfSecret == 0 {
			w.inSecretKind++
		}
		m.kind |= kind
	}
}

// mayBeSensitiveName reports whether the inside of a string may be the name of a secret. For most names it returns
// false.
func (w *walk) mayBeSensitiveName(inside []byte) bool {
	return len(inside) > 0 && (w.plan.keys.mayHaveClass(inside) || inside[0] == '/' || bytes.IndexByte(inside, '\\') >= 0)
}

// decide is called at the end of an object, when it is known what it is, if that matters.
func (w *walk) decide(first int, m *members) {
	if m.kind&isKindOfSecret != 0 {
		w.inSecretKind--
	}
	open := w.undecided[:first]
	for _, u := range w.undecided[first:] {
		rule := w.decided(u.note, m.kind)
		if u.note == pairValue && m.sensitive {
			rule = w.plan.rules.pairValues
		}
		switch {
		case rule != nil:
			w.late = append(w.late, late{u.span, rule, u.path, u.fields})
		case u.note == dataOfTemplate || u.note == dataBelow:
			u.note = dataBelow
			open = append(open, u) // an enclosing object may be of such a kind
		}
	}
	w.undecided = open
}
