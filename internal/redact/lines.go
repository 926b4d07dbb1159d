package redact

import (
	"bytes"
	"slices"
)

// Values of YAML, properties, .env and INI files that are on the line of their key are found as assignments. lines
// finds the others: below a sensitive key, in blocks, lists and maps; of environment variables; and beside a sensitive
// name. It is not a parser: a line belongs to a block by its indentation.

// block is the context of the lines below a key.
type block struct {
	indent int // of the key; the block's lines are indented further, or start with a dash
	kind   blockKind
}

type blockKind uint8

const (
	blockPlain     blockKind = iota // nothing special
	blockScalar                     // the text of a secret: all of it is masked
	blockSensitive                  // values except those under structural keys
	blockAll                        // all values
	blockVariables                  // values except the names of variables
	blockHeaders                    // values of headers, except known harmless ones
)

// maxBlocks bounds how many blocks are open at once.
const maxBlocks = 16

type lineReader struct {
	*scanner
	open []block
	// The last name and the last value of a list item or map, to find {name, value} in either order.
	name, value struct {
		column    int
		sensitive bool
		span      span
		isBlock   bool
	}
}

// lines appends the secrets of a text of several lines to found. They may overlap with those of scan.
func (t *scanner) lines(text []byte) {
	t.text = text
	var open [maxBlocks]block
	r := lineReader{scanner: t, open: open[:0]}
	r.name.column, r.value.column = -1, -1
	for from := 0; from < len(text); {
		to := from + lineLength(text[from:])
		r.line(from, to)
		from = to + 1
	}
}

func lineLength(s []byte) int {
	if at := bytes.IndexByte(s, '\n'); at >= 0 {
		return at
	}
	return len(s)
}

func (r *lineReader) add(from, to int, rule Rule) {
	for to > from && isSpace(r.text[to-1]) {
		to--
	}
	if to > from && string(r.text[from:to]) != Masked {
		r.found = append(r.found, finding{span{from, to}, rule})
	}
}

// line reads the line text[from:to].
func (r *lineReader) line(from, to int) {
	s := r.text
	start := from
	for start < to && (s[start] == ' ' || s[start] == '\t') {
		start++
	}
	if start == to || s[start] == '\r' {
		return
	}
	indent := start - from
	isItem := s[start] == '-' && (start+1 == to || s[start+1] == ' ')
	for n := len(r.open); n > 0; n-- {
		b := r.open[n-1]
		if indent > b.indent || indent == b.indent && isItem && b.kind != blockScalar {
			break
		}
		r.open = r.open[:n-1]
	}
	kind := blockPlain
	if n := len(r.open); n > 0 {
		kind = r.open[n-1].kind
	}
	if kind == blockScalar {
		r.add(start, to, RuleAssignment)
		return
	}
	if s[start] == '#' {
		return
	}
	if isItem && indent <= r.name.column {
		r.name.column, r.value.column = -1, -1
	}
	for start < to && s[start] == '-' && (start+1 == to || s[start+1] == ' ') {
		start++
		for start < to && s[start] == ' ' {
			start++
		}
	}
	if start == to {
		return
	}
	key, value := yamlMember(s[:to], start)
	if value < 0 {
		if kind != blockPlain {
			r.item(start, to, kind)
		}
		return
	}
	r.member(key, span{value, to}, start-from, kind)
}

// yamlMember returns the key that starts at s[i], and where its value starts, or -1 if there is none.
func yamlMember(s []byte, i int) (key span, value int) {
	from := i
	if s[i] == '"' || s[i] == '\'' {
		end := bytes.IndexByte(s[i+1:], s[i])
		if end < 0 {
			return key, -1
		}
		key = span{i + 1, i + 1 + end}
		i += end + 2
	} else {
		for i < len(s) && (isKey(s[i]) || s[i] == '/' || s[i] == '$') {
			i++
		}
		key = span{from, i}
	}
	if key.from == key.to || i >= len(s) || s[i] != ':' || i+1 < len(s) && !isSpace(s[i+1]) {
		return key, -1
	}
	i++
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return key, i
}

// item handles an element of a list, or a line that is not a member.
func (r *lineReader) item(from, to int, kind blockKind) {
	from, to = unquoted(r.text, from, to)
	v := r.text[from:to]
	if kind == blockHeaders && bytes.IndexByte(v, ':') < 0 {
		return
	}
	if kind == blockSensitive && isReference(v) {
		return
	}
	switch string(v) {
	case "{", "}", "[", "]", "},", "],", "---", "...":
		return
	}
	r.add(from, to, RuleAssignment)
}

// unquoted returns the range of text[from:to] without its quotes, if it has any.
func unquoted(s []byte, from, to int) (int, int) {
	for to > from && (isSpace(s[to-1]) || s[to-1] == ',') {
		to--
	}
	if to-from >= 2 && (s[from] == '"' || s[from] == '\'') && s[to-1] == s[from] {
		return from + 1, to - 1
	}
	return from, to
}

// member handles a key and the rest of its line.
func (r *lineReader) member(key, value span, column int, kind blockKind) {
	name := r.text[key.from:key.to]
	rest := bytes.TrimRight(r.text[value.from:value.to], " \t\r")
	isBlock := isBlockIndicator(rest)
	isEmpty := len(rest) == 0 || rest[0] == '#' || rest[0] == '&' && bytes.IndexByte(rest, ' ') < 0
	r.pair(name, value, column, isBlock)

	class := r.keys.classify(name)
	below := r.below(name, class, kind, column)
	if isBlock || isEmpty {
		if isBlock && below != blockPlain && below != blockHeaders {
			below = blockScalar
		}
		if len(r.open) < maxBlocks {
			r.open = append(r.open, block{column, below})
		} else if below != blockPlain {
			r.open[maxBlocks-1] = block{column, below}
		}
		return
	}
	if class == sensitiveKey && below == blockSensitive && kind == blockPlain {
		return // an assignment, which scan finds
	}
	if below == blockPlain || below == blockHeaders && class == headersKey {
		return
	}
	from, to := unquoted(r.text, value.from, value.from+len(rest))
	v := r.text[from:to]
	if from < to && v[0] == '{' && !hasPrefix(v, "{{") && below != blockAll && below != blockVariables {
		return
	}
	if below == blockSensitive && isReference(v) || string(v) == "true" || string(v) == "false" || string(v) == "null" || string(v) == "[]" || string(v) == "{}" {
		return
	}
	rule := RuleAssignment
	if below == blockVariables {
		rule = RuleEnvironment
	}
	r.add(from, to, rule)
}

// below returns the kind of the block below a member, in a block of the given kind.
func (r *lineReader) below(name []byte, class class, kind blockKind, column int) blockKind {
	switch kind {
	case blockAll:
		return blockAll
	case blockVariables:
		switch {
		case string(name) == "name":
			return blockPlain
		case class == referenceKey:
			return blockPlain
		}
		return blockVariables
	case blockHeaders:
		if string(name) == "name" || isHarmlessHeader(name) {
			return blockPlain
		}
		return blockAll
	case blockSensitive:
		if structuralKeys[string(name)] {
			if string(name) == "items" {
				return blockSensitive
			}
			return blockPlain
		}
		if class == referenceKey {
			return blockPlain
		}
		return blockSensitive
	}
	if isPairValue(name) && r.name.sensitive && r.name.column == column {
		return blockAll
	}
	switch {
	case class == sensitiveKey:
		return blockSensitive
	case class == environmentKey:
		return blockVariables
	case class == headersKey:
		return blockHeaders
	case string(name) == "stringData":
		return blockAll
	}
	return blockPlain
}

// pair records the name or value of a {name, value}, and masks a value that came before its sensitive name.
func (r *lineReader) pair(name []byte, value span, column int, isBlock bool) {
	from, to := unquoted(r.text, value.from, value.to)
	switch {
	case isPairName(name):
		r.name.column = column
		r.name.sensitive = r.isSensitiveName(r.text[from:to])
		if r.name.sensitive && r.value.column == column && !r.value.isBlock {
			from, to := unquoted(r.text, r.value.span.from, r.value.span.to)
			r.add(from, to, RulePair)
		}
	case isPairValue(name):
		r.value.column, r.value.span, r.value.isBlock = column, value, isBlock
	}
}

// isSensitiveName reports whether the name, which may also be a JSON pointer, is that of a parameter with a secret
// value.
func (t *scanner) isSensitiveName(name []byte) bool {
	if len(name) > 0 && name[0] == '/' {
		if bytes.Contains(name, []byte("/env/")) || bytes.HasPrefix(name, []byte("/stringData/")) {
			return true
		}
		name = name[bytes.LastIndexByte(name, '/')+1:]
	}
	return t.keys.isSensitive(name)
}

// isPairName reports whether the value of this member names the value of another.
func isPairName(key []byte) bool {
	return string(key) == "name" || string(key) == "key" || string(key) == "path"
}

// isPairValue reports whether this member is the value of a {name, value}.
func isPairValue(key []byte) bool {
	switch string(key) {
	case "value", "values", "default", "defaultValue", "stringValue", "val":
		return true
	}
	return false
}

// merge sorts the findings and joins those that overlap.
func (t *scanner) merge() {
	slices.SortStableFunc(t.found, func(a, b finding) int { return a.from - b.from })
	merged := t.found[:0]
	for _, f := range t.found {
		if n := len(merged); n > 0 && f.from < merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, f.to)
			continue
		}
		merged = append(merged, f)
	}
	t.found = merged
}

var kindSecret = []string{"Secret", "SecretList"}

// isSecretManifest reports whether a text of several lines holds the manifest of a Secret.
func isSecretManifest(text []byte) bool {
	for rest := text; ; {
		at := bytes.Index(rest, []byte("kind"))
		if at < 0 {
			return false
		}
		before := bytes.TrimRight(rest[:at], "\"' -\t")
		start := len(text) - len(rest) + len(before)
		rest = rest[at+len("kind"):]
		if start > 0 && text[start-1] != '\n' && text[start-1] != '{' && text[start-1] != ',' {
			continue
		}
		line := rest[:lineLength(rest)]
		line = bytes.TrimLeft(line, "\"' \t")
		if len(line) == 0 || line[0] != ':' {
			continue
		}
		if comment := bytes.IndexByte(line, '#'); comment > 0 {
			line = line[:comment]
		}
		line = bytes.Trim(line[1:], "\"' \t\r,}")
		for _, kind := range kindSecret {
			if string(line) == kind {
				return true
			}
		}
	}
}

// structuralKeys describe a secret rather than holding it. Their values are kept in objects under sensitive keys.
var structuralKeys = words(`name namespace key secretName path mountPath items mode defaultMode optional kind apiVersion
	group algorithm size encoding rotationPolicy type provider server role engine version property expirationSeconds
	audience issuer refreshInterval reason message status lastTransitionTime`)

// harmlessHeaders do not authorize. Custom header names cannot be enumerated, so only the values of these are kept.
var harmlessHeaders = words(`host user-agent content-type content-length cache-control connection origin referer
	x-request-id`)

func isHarmlessHeader(name []byte) bool {
	if startsFold(name, "accept") || startsFold(name, "x-forwarded-") {
		return true
	}
	var buf [maxKey]byte
	return len(name) <= maxKey && harmlessHeaders[string(appendLower(buf[:0], name))]
}
