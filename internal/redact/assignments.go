package redact

import "bytes"

// queryNames are URL parameters whose values authorize, in addition to those that are sensitive keys.
var queryNames = words(`sig signature token access_token id_token refresh_token auth apikey api_key key code password
	secret client_secret x-amz-signature x-amz-credential x-amz-security-token x-goog-signature x-goog-credential sas
	private_token`)

// assignment masks the value after the "=" or ":" at text[i], if the key before it is sensitive.
func (t *scanner) assignment(i int) {
	if t.mode == asLabel {
		return
	}
	s := t.text
	value := i + 1
	isEqual := s[i] == '='
	switch {
	case isEqual && s[value] == '=': // a comparison
		return
	case isEqual && s[value] == '>', !isEqual && s[value] == '=': // => and :=
		value++
		isEqual = true
	}
	key := t.keyBefore(i)
	if key.from == key.to {
		return
	}
	name := s[key.from:key.to]
	if isEqual && key.from > 0 && isQuerySeparator(s[key.from-1]) && isQueryName(name) {
		end := value + run(s[value:], func(c byte) bool { return isURL(c) && c != '&' && c != '#' && c != ';' })
		if !isReference(s[value:end]) {
			t.mask(value, end, RuleURL)
		}
		return
	}
	if t.mode == asName || !t.keys.isSensitive(name) && !t.isInvalidValue(key, i) {
		return
	}
	first := t.isFirstOnLine(key.from)
	from, to := t.valueAfter(value, isEqual, first)
	switch text := s[from:to]; {
	case len(text) == 0, isReference(text), !isEqual && !first && isWord(bytes.TrimRight(text, ".!?")):
	default:
		if !isEqual && endsFold(name, "authorization") { // a scheme, and any number of parameters
			for to < len(s) && s[to] != '\n' && s[to] != '"' && s[to] != '\'' && s[to] != '\\' {
				to++
			}
		}
		t.mask(from, to, RuleAssignment)
	}
}

// keyBefore returns the key that ends before text[i], with white space, quotes and brackets between.
func (t *scanner) keyBefore(i int) span {
	s := t.text
	end := i
	for end > t.done && (s[end-1] == ' ' || s[end-1] == '\t') {
		end--
	}
	for end > t.done && isClosing(s[end-1]) {
		end--
	}
	from := end
	for from > t.done && end-from < maxKey && isKey(s[from-1]) {
		from--
	}
	return span{from, end}
}

func isClosing(c byte) bool { return c == '"' || c == '\'' || c == '`' || c == '\\' || c == ']' }

func isKey(c byte) bool { return isTokenOrDot(c) }

func isQuerySeparator(c byte) bool { return c == '?' || c == '&' || c == ';' }

func isQueryName(name []byte) bool {
	var buf [maxKey]byte
	return queryNames[string(appendLower(buf[:0], name))]
}

// isInvalidValue reports whether the API server quotes a refused value of an environment variable, a Secret or a
// sensitive field, as in
//
//	spec.containers[0].env[0].value: Invalid value: "…"
func (t *scanner) isInvalidValue(key span, i int) bool {
	s := t.text
	if string(s[key.from:key.to]) != "value" || key.from < 10 || !hasPrefix(s[i:], `: "`) || !bytes.HasSuffix(s[:key.from], []byte(": Invalid ")) {
		return false
	}
	end := key.from - len(": Invalid ")
	from := end
	for from > 0 && end-from < maxUserinfo && isVisible(s[from-1]) {
		from--
	}
	path := s[from:end]
	return bytes.Contains(path, []byte("env[")) || bytes.HasPrefix(path, []byte("data[")) || bytes.HasPrefix(path, []byte("stringData[")) ||
		t.keys.isSensitive(bytes.TrimRight(path, "]"))
}

// isFirstOnLine reports whether nothing but white space, quotes, a dash or "export" is before text[i] on its line.
func (t *scanner) isFirstOnLine(i int) bool {
	s := t.text
	blank := func() {
		for i > 0 && (s[i-1] == ' ' || s[i-1] == '\t' || s[i-1] == '"' || s[i-1] == '\'' || s[i-1] == '-') {
			i--
		}
	}
	blank()
	for _, word := range []string{"export", "ENV", "ARG", "set"} {
		if n := i - len(word); n >= 0 && string(s[n:i]) == word && (n == 0 || isSpace(s[n-1])) {
			i = n
			blank()
			break
		}
	}
	return i == 0 || s[i-1] == '\n' || s[i-1] == '\r'
}

// valueAfter returns the value at text[i]: the quoted text, the rest of the line if the key is the first on it, or else
// everything before the next white space.
func (t *scanner) valueAfter(i int, isEqual, first bool) (from, to int) {
	s := t.text
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	escapes := 0
	for i+escapes < len(s) && s[i+escapes] == '\\' {
		escapes++
	}
	if at := i + escapes; at < len(s) && (s[at] == '"' || s[at] == '\'' || s[at] == '`') {
		return at + 1, t.closing(at+1, s[at], escapes)
	}
	if first && (!isEqual || bytes.IndexByte(s, '\n') >= 0 && t.mode != asCommand && t.mode != asArgument) {
		line := s[i:]
		if at := bytes.IndexByte(line, '\n'); at >= 0 {
			line = line[:at]
		}
		line = bytes.TrimRight(line, " \t\r")
		if isStructure(line) {
			return i, i
		}
		return i, i + len(line)
	}
	if i < len(s) && (s[i] == '{' || s[i] == '[') && !hasPrefix(s[i:], "{{") {
		return i, i
	}
	n := run(s[i:], func(c byte) bool { return isVisible(c) && c != ';' && c != '&' && c != '<' })
	if hasPrefix(s[i:], "{{") {
		if end := bytes.Index(s[i:min(len(s), i+maxUserinfo)], []byte("}}")); end >= 0 {
			n = max(n, end+2)
		}
	}
	if !isVariable(s[i : i+n]) {
		n = len(bytes.TrimRight(s[i:i+n], ",)}]"))
	}
	return i, i + n
}

// isStructure reports whether the rest of a line shows that the value is on the following lines, or consists of
// members, which are checked one by one.
func isStructure(line []byte) bool {
	if len(line) == 0 {
		return true
	}
	switch line[0] {
	case '#', '&':
		return true
	case '{', '[':
		return !hasPrefix(line, "{{") && (line[0] == '{' || len(line) <= 2)
	}
	return isBlockIndicator(line)
}

// isBlockIndicator reports whether a YAML value is the block of lines that follows.
func isBlockIndicator(value []byte) bool {
	if hasPrefix(value, "!!") || hasPrefix(value, "!b") {
		if at := bytes.IndexByte(value, ' '); at >= 0 {
			value = bytes.TrimLeft(value[at:], " ")
		}
	}
	if len(value) == 0 || value[0] != '|' && value[0] != '>' {
		return false
	}
	value = bytes.TrimLeft(value[1:], "+-0123456789")
	value = bytes.TrimLeft(value, " ")
	return len(value) == 0 || value[0] == '#'
}

// closing returns the end of the quoted text that starts at text[i]: before the same quote with the same number of
// backslashes, or at the end of the line if there is none.
func (t *scanner) closing(i int, quote byte, escapes int) int {
	s := t.text
	line := -1
	for j := i; j < len(s); j++ {
		switch s[j] {
		case '\n':
			if line < 0 {
				line = j
			}
		case '\\':
			n := run(s[j:], func(c byte) bool { return c == '\\' })
			if j+n < len(s) && s[j+n] == quote {
				if escapes > 0 && n <= escapes {
					return j
				}
				if escapes > 0 || n%2 == 1 {
					n++
				}
			}
			j += n - 1
		case quote:
			return j
		}
	}
	if line >= 0 {
		return line
	}
	return len(s)
}

// flag masks the word after a sensitive option, as in --password V.
func (t *scanner) flag(i int) {
	if t.mode == asName || t.mode == asLabel || t.mode == asArgument {
		return
	}
	s := t.text[i:]
	n := run(s, isKey)
	if n < 4 || n+1 >= len(s) || s[n] != ' ' || !t.keys.isSensitive(s[:n]) {
		return
	}
	n++
	from, to := t.valueAfter(i+n, true, false)
	value := t.text[from:to]
	if len(value) == 0 || value[0] == '-' || isReference(value) || t.mode != asCommand && isWord(bytes.TrimRight(value, ".,")) {
		return
	}
	t.mask(from, to, RuleCommand)
}

// isReference reports whether the value under a sensitive key refers to a secret elsewhere, or means that there is
// none.
func isReference(v []byte) bool {
	v = bytes.TrimSpace(v)
	switch string(v) {
	case "", "true", "false", "none", "required", "optional", "null", "nil", "~", "<nil>", "<none>", "{}", "[]", Masked, "***", "******", "<redacted>", "[MASKED]":
		return true
	}
	switch v[0] {
	case '/':
		return isPath(v)
	case '$', '{':
		return isVariable(v)
	case 'E':
		return hasPrefix(v, "ENC[AES256_GCM,") && v[len(v)-1] == ']'
	case 'T', 'F':
		return string(v) == "True" || string(v) == "False"
	case '[':
		return hasPrefix(v, "[REDACTED len=") && v[len(v)-1] == ']' && len(v) < 70
	}
	for _, prefix := range []string{"file://", "vault:", "ref+vault:", "op://", "arn:aws:secretsmanager:", "arn:aws:ssm:", "arn:aws:kms:"} {
		if hasPrefix(v, prefix) {
			return len(v) > len(prefix) && all(v, isURL)
		}
	}
	return hasPrefix(v, "projects/") && bytes.Contains(v, []byte("/secrets/"))
}

// isPath reports whether v is an absolute path and not, for example, base64 that starts with a slash.
func isPath(v []byte) bool {
	length := 0
	for i, c := range v {
		if c == '/' {
			length = 0
			continue
		}
		if !isTokenOrDot(c) && c != '@' && c != ':' && c != '*' && c != '{' && c != '}' && c != '$' {
			return false
		}
		if length++; length > 40 && !bytes.ContainsAny(v[i-length+1:i+1], "-_.") {
			return false
		}
	}
	return len(v) > 1
}

// isVariable reports whether v is a single variable or template: $(NAME), ${NAME}, $NAME or {{ … }}. One with a
// default, such as ${NAME:-value}, is not.
func isVariable(v []byte) bool {
	n := len(v)
	isName := func(s []byte) bool {
		return len(s) > 0 && all(s, func(c byte) bool { return isTokenOrDot(c) || c == ':' && hasPrefix(s, "env:") })
	}
	switch {
	case hasPrefix(v, "$(") && v[n-1] == ')':
		return isName(v[2 : n-1])
	case hasPrefix(v, "${") && v[n-1] == '}':
		return isName(v[2 : n-1])
	case hasPrefix(v, "$") && n > 1:
		return all(v[1:], func(c byte) bool { return isUpper(c) || isDigit(c) || c == '_' }) && !isDigit(v[1])
	case hasPrefix(v, "{{"):
		return n >= 4 && string(v[n-2:]) == "}}" && !bytes.Contains(v[2:n-2], []byte("{{")) && !hasLiteralDefault(v)
	}
	return false
}

// hasLiteralDefault reports whether a template contains a literal value: {{ default "value" .name }}.
func hasLiteralDefault(v []byte) bool {
	return bytes.Contains(v, []byte("default")) && bytes.ContainsAny(v, "\"'`")
}
