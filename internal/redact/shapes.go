package redact

import (
	"bytes"
)

// span is data[from:to].
type span struct{ from, to int }

// finding is a part of a text that has to be masked, and the rule that found it.
type finding struct {
	span
	rule Rule
}

// textMode selects the rules for texts that apply to a string.
type textMode uint8

const (
	asText     textMode = iota // all of them
	asName                     // an object's name: no assignments, and its dots do not make a bootstrap token
	asLabel                    // a label or selector: only shapes of secrets
	asCommand                  // a command line or script
	asArgument                 // an element of a command
	asSource                   // may be a data: URL whose content is configuration
	asVerbatim                 // kept as it is
)

// scanner finds secrets in a text by their shape, and in assignments by the key before them. One pass over the text
// (scan.go) finds where a secret may begin, and only there the scanner checks further. Each check is bounded, or covers
// bytes that no other check of its kind covers, so the time is linear in the length of the text.
type scanner struct {
	text  []byte
	found []finding
	keys  *keyTable
	mode  textMode
	done  int  // everything before it is decided
	token span // the last run of token characters that was measured
}

var authSchemes = []string{"bearer", "basic", "token", "digest", "negotiate", "apikey"}

// mask adds text[from:to] to what must be masked.
func (t *scanner) mask(from, to int, rule Rule) {
	if to <= from || string(t.text[from:to]) == Masked {
		return
	}
	t.found = append(t.found, finding{span{from, to}, rule})
	t.done = max(t.done, to)
}

// look checks for a secret or an assignment at text[i].
func (t *scanner) look(i int) {
	switch s := t.text[i:]; s[0] {
	case '=':
		t.assignment(i)
	case ':':
		if hasPrefix(s, "://") {
			t.userinfo(i)
		} else {
			t.assignment(i)
		}
	case '-':
		if i > 0 && t.text[i-1] == '-' {
			return
		}
		if hasPrefix(s, "-----BEGIN ") {
			t.privateKey(i)
		} else {
			t.flag(i)
		}
	case '$':
		t.passwordHash(i)
	case '{':
		if hasPrefix(s, "{SHA}") || hasPrefix(s, "{SSHA") {
			t.mask(i, i+run(s, isVisible), RulePasswordHash)
		}
	case '@':
		t.dsn(i)
	case '.':
		t.bootstrapToken(i)
	default:
		t.word(i)
	}
}

// word checks the start of a word.
func (t *scanner) word(i int) {
	s := t.text[i:]
	if n := tokenLength(s); n > 0 {
		t.mask(i, i+n, RuleToken)
		return
	}
	if s[0] == 'e' {
		t.jwt(i)
		return
	}
	switch s[0] {
	case 'h', 'd', 'w', 'a':
		for _, hook := range secretPaths {
			if hasPrefix(s, hook.host) {
				n := len(hook.host)
				t.mask(i+n, i+n+run(s[n:], isURL), RuleURL)
				return
			}
		}
	}
	switch s[0] | 0x20 {
	case 'b', 't', 'd', 'n', 'a':
		t.authorization(i)
	}
}

// secretPaths lists URLs whose path authorizes.
var secretPaths = []struct{ host string }{
	{"hooks.slack.com/services/"},
	{"hooks.slack.com/workflows/"},
	{"hooks.slack.com/triggers/"},
	{"discord.com/api/webhooks/"},
	{"discordapp.com/api/webhooks/"},
	{"webhook.office.com/webhookb2/"},
	{"api.telegram.org/bot"},
}

// vendorToken is a token that its issuer made recognizable.
type vendorToken struct {
	prefix string
	least  int // characters after the prefix
	is     func(byte) bool
}

// vendorTokens are grouped by first letter. The prefixes are the issuers' own; a fixed length is given as the minimum.
var vendorTokens = func() (t [256][]vendorToken) {
	hex := func(c byte) bool { return isDigit(c) || c-'a' < 6 }
	base32 := func(c byte) bool { return isUpper(c) || c-'2' < 6 }
	base62 := func(c byte) bool { return isAlphanumeric(c) }
	word := func(c byte) bool { return isAlphanumeric(c) || c == '_' }
	for _, v := range []vendorToken{
		{"ghp_", 36, base62}, {"gho_", 36, base62}, {"ghu_", 36, base62}, {"ghs_", 36, base62}, {"ghr_", 36, base62},
		{"github_pat_", 22, word},
		{"glpat-", 20, isToken}, {"glrt-", 20, isToken}, {"gldt-", 20, isToken}, {"glcbt-", 20, isToken}, {"glft-", 20, isToken},
		{"glptt-", 20, isToken}, {"glagent-", 20, isToken}, {"glsoat-", 20, isToken},
		{"glsa_", 20, word}, {"glc_", 20, isBase64},
		{"xoxa-", 10, isToken}, {"xoxb-", 10, isToken}, {"xoxe-", 10, isToken}, {"xoxo-", 10, isToken}, {"xoxp-", 10, isToken},
		{"xoxr-", 10, isToken}, {"xoxs-", 10, isToken}, {"xoxe.", 10, isToken}, {"xapp-", 10, isToken},
		{"sk-ant-", 20, isToken}, {"sk-proj-", 20, isToken}, {"sk-svcacct-", 20, isToken}, {"sk-", 20, base62},
		{"sk_live_", 10, base62}, {"sk_test_", 10, base62}, {"rk_live_", 10, base62}, {"rk_test_", 10, base62},
		{"hvs.", 20, isToken}, {"hvb.", 20, isToken}, {"hvr.", 20, isToken},
		{"AIza", 35, isToken}, {"ya29.", 20, isToken}, {"SG.", 20, isTokenOrDot}, {"npm_", 36, base62}, {"pypi-", 50, isToken},
		{"dop_v1_", 64, hex}, {"dor_v1_", 64, hex}, {"doo_v1_", 64, hex}, {"dp.pt.", 40, base62}, {"dapi", 32, hex},
		{"shpat_", 32, base62}, {"shpss_", 32, base62}, {"shpca_", 32, base62}, {"shppa_", 32, base62},
		{"sntrys_", 20, isBase64}, {"sntryu_", 20, isBase64}, {"hf_", 34, base62}, {"sha256~", 43, isToken},
		{"AGE-SECRET-KEY-1", 20, base62}, {"lin_api_", 20, base62}, {"pul-", 40, hex}, {"LTAI", 12, base62},
		{"AKIA", 16, base32}, {"ASIA", 16, base32}, {"ABIA", 16, base32}, {"ACCA", 16, base32}, {"A3T", 17, base32},
	} {
		t[v.prefix[0]] = append(t[v.prefix[0]], v)
	}
	return t
}()

// tokenLength returns the length of the vendor's token at the start of s, or 0.
func tokenLength(s []byte) int {
	for _, v := range vendorTokens[s[0]] {
		if len(s) < 3 || s[1] != v.prefix[1] || s[2] != v.prefix[2] || !hasPrefix(s, v.prefix) {
			continue
		}
		n := run(s[len(v.prefix):], v.is)
		if n < v.least {
			continue
		}
		n += len(v.prefix)
		if s[0] == 'A' && v.least <= 17 && (n > 20 || n < len(s) && isAlphanumeric(s[n])) {
			continue // an AWS key ID has exactly 20 characters
		}
		return n
	}
	return 0
}

// jwt masks a JSON Web Token: three parts in base64, two of them JSON objects.
func (t *scanner) jwt(i int) {
	if !hasPrefix(t.text[i:], "eyJ") || i > 0 && t.text[i-1] == '_' {
		return
	}
	header := t.tokenEnd(i)
	if header-i < 11 || !hasPrefix(t.text[header:], ".eyJ") {
		return
	}
	payload := t.tokenEnd(header + 1)
	if payload-header < 12 || payload >= len(t.text) || t.text[payload] != '.' {
		return
	}
	signature := t.tokenEnd(payload + 1)
	if signature-payload < 9 {
		return
	}
	for signature < len(t.text) && t.text[signature] == '.' { // encrypted ones have five parts
		end := t.tokenEnd(signature + 1)
		if end == signature+1 {
			break
		}
		signature = end
	}
	t.mask(i, signature, RuleToken)
}

// tokenEnd returns where the run of token characters at text[i] ends, and caches it for other checks inside the run.
func (t *scanner) tokenEnd(i int) int {
	if i < t.token.from || i >= t.token.to {
		t.token = span{i, i + run(t.text[i:], isToken)}
	}
	if t.token.from == t.token.to {
		return i
	}
	return t.token.to
}

// authorization masks the credentials after the name of an authentication scheme.
func (t *scanner) authorization(i int) {
	s := t.text[i:]
	n := 0
	for _, scheme := range authSchemes {
		if startsFold(s, scheme) {
			n = len(scheme)
			break
		}
	}
	if n == 0 || n >= len(s) || !isSpace(s[n]) {
		return
	}
	for n < len(s) && isSpace(s[n]) {
		n++
	}
	length := run(s[n:], isCredential)
	if credentials := s[n : n+length]; length >= 8 && !isWord(bytes.TrimRight(credentials, "./-")) {
		t.mask(i+n, i+n+length, RuleAuthorization)
	}
}

// bootstrapToken masks a token of kubeadm: six characters, a dot, and sixteen.
// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
func (t *scanner) bootstrapToken(dot int) {
	s := t.text
	if t.mode == asName || t.mode == asLabel || dot < 6 || dot+17 > len(s) {
		return
	}
	from, to := dot-6, dot+17
	if from > 0 && isTokenOrDot(s[from-1]) || to < len(s) && isTokenOrDot(s[to]) && (s[to] != '.' || to+1 < len(s) && isAlphanumeric(s[to+1])) {
		return
	}
	digits := 0
	for i := from; i < to; i++ {
		if i != dot && !isLower(s[i]) && !isDigit(s[i]) {
			return
		}
		if i > dot && isDigit(s[i]) {
			digits++
		}
	}
	if digits == 0 && from > 0 || isEventSuffix(s[dot+1:to]) {
		return
	}
	t.mask(from, to, RuleToken)
}

// isEventSuffix reports whether this is the end of an Event's name: the time in nanoseconds, in hex.
func isEventSuffix(s []byte) bool {
	return s[0] == '1' && s[1] >= '5' && all(s, func(c byte) bool { return isDigit(c) || c-'a' < 6 })
}

// privateKey masks a private key in PEM, up to its end or that of the text.
func (t *scanner) privateKey(i int) {
	s := t.text[i+len("-----BEGIN "):]
	n := run(s, func(c byte) bool { return isUpper(c) || isDigit(c) || c == ' ' })
	label := s[:n]
	if !hasPrefix(s[n:], "-----") || !bytes.HasSuffix(label, []byte("PRIVATE KEY")) && !bytes.HasSuffix(label, []byte("PRIVATE KEY BLOCK")) {
		return
	}
	end := len(t.text)
	if at := bytes.Index(s[n:], []byte("-----END ")); at >= 0 {
		at += n + len("-----END ")
		at += run(s[at:], func(c byte) bool { return isUpper(c) || isDigit(c) || c == ' ' })
		at += run(s[at:], func(c byte) bool { return c == '-' })
		end = len(t.text) - len(s) + at
	}
	t.mask(i, end, RulePrivateKey)
}

// passwordHash masks hashes, which can be cracked.
func (t *scanner) passwordHash(i int) {
	s := t.text[i:]
	for _, kind := range []string{"$apr1$", "$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$argon2i$", "$argon2id$", "$argon2d$"} {
		if hasPrefix(s, kind) {
			n := run(s, func(c byte) bool { return isCredential(c) || c == '$' || c == ',' })
			if n > len(kind)+8 {
				t.mask(i, i+n, RulePasswordHash)
			}
			return
		}
	}
}

// maxUserinfo bounds the distance to the "@" after a password with characters that should have been escaped.
const maxUserinfo = 256

// userinfo masks the password in a URL whose "://" is at text[i].
func (t *scanner) userinfo(i int) {
	if i == 0 || !isAlphanumeric(t.text[i-1]) {
		return
	}
	s := t.text[i+3:]
	n := run(s, func(c byte) bool { return isURL(c) && c != '/' && c != '?' && c != '#' })
	at := bytes.LastIndexByte(s[:n], '@')
	colon := bytes.IndexByte(s[:n], ':')
	if at < 0 && colon >= 0 && !isPort(s[colon+1:n]) {
		n = run(s[:min(len(s), maxUserinfo)], isURL)
		at = bytes.LastIndexByte(s[:n], '@')
	}
	if at < 0 {
		return
	}
	from := colon + 1
	if colon < 0 || colon > at {
		if at < 20 {
			return
		}
		from = 0
	}
	password := s[from:at]
	if len(password) == 0 || isVariable(password) || all(password, func(c byte) bool { return c == '*' || c == 'x' && len(password) < 8 }) {
		return
	}
	t.mask(i+3+from, i+3+at, RuleURL)
}

// isPort reports whether s may follow the colon after a host.
func isPort(s []byte) bool {
	n := run(s, isDigit)
	return n == len(s) || n > 0 && !isAlphanumeric(s[n])
}

// dsn masks the password in user:password@tcp(host), whose "@" is at text[i].
func (t *scanner) dsn(i int) {
	if s := t.text[i+1:]; !hasPrefix(s, "tcp(") && !hasPrefix(s, "unix(") {
		return
	}
	start := max(t.done, i-maxUserinfo)
	from := i
	for from > start && isVisible(t.text[from-1]) && t.text[from-1] != '@' {
		from--
	}
	colon := bytes.IndexByte(t.text[from:i], ':')
	if colon < 0 {
		return
	}
	if password := t.text[from+colon+1 : i]; !isVariable(password) {
		t.mask(from+colon+1, i, RuleURL)
	}
}

// hasPrefix reports whether s starts with prefix.
func hasPrefix(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && string(s[:len(prefix)]) == prefix
}

// run returns how many bytes at the start of s are of a kind.
func run(s []byte, is func(byte) bool) int {
	n := 0
	for n < len(s) && is(s[n]) {
		n++
	}
	return n
}

func isSpace(c byte) bool      { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isToken(c byte) bool      { return alphanumeric[c] || c == '-' || c == '_' }
func isTokenOrDot(c byte) bool { return tokenOrDot[c] }
func isBase64(c byte) bool     { return isToken(c) || c == '+' || c == '/' || c == '=' }
func isCredential(c byte) bool { return isBase64(c) || c == '.' || c == '~' }
func isVisible(c byte) bool {
	return c > ' ' && c != '"' && c != '\'' && c != '`' && c != '\\' && c != 0x7f
}
func isURL(c byte) bool { return isVisible(c) && c != '<' && c != '>' }

// maxWord is the length of the longest plain word. Anything longer is not prose.
const maxWord = 16

// isWord reports whether s is a plain word of prose: only letters, all in lower case after the first.
func isWord(s []byte) bool {
	if len(s) == 0 || len(s) > maxWord {
		return false
	}
	if isUpper(s[0]) {
		s = s[1:]
	}
	return all(s, isLower)
}

var tokenOrDot = func() (t [256]bool) {
	for c := range t {
		t[c] = isToken(byte(c)) || c == '.'
	}
	return t
}()
