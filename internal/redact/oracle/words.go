package oracle

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	separator  = regexp.MustCompile(`[^A-Za-z0-9]+`)
	lowerUpper = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	upperRun   = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

var knownWords sync.Map // by key; tests look up the same keys many times

// wordsOf splits a key into words, in lower case.
func wordsOf(key string) []string {
	if known, ok := knownWords.Load(key); ok {
		return known.([]string)
	}
	words := splitWords(key)
	knownWords.Store(key, words)
	return words
}

func splitWords(key string) []string {
	for range 2 {
		key = lowerUpper.ReplaceAllString(key, "$1 $2")
		key = upperRun.ReplaceAllString(key, "$1 $2")
	}
	return strings.Fields(strings.ToLower(separator.ReplaceAllString(key, " ")))
}

func lastWordOf(key string) string {
	if w := wordsOf(key); len(w) > 0 {
		return w[len(w)-1]
	}
	return ""
}

var (
	sensitiveLast = regexp.MustCompile(`^(passwords?|passwd|pwd|pass|passphrase|passcode|secret|tokens?|jwt|credentials?|creds|apikeys?|bearer|dsn|` +
		`privatekey|accesskey|secretkey|authorization|userdata|customdata|psk|htpasswd|kubeconfig|dockerconfigjson|dockercfg|requirepass|masterauth|sharedaccesssignature)$`)
	sensitiveGlued = regexp.MustCompile(`(passw(or)?d|passphrase|apikey|accesskey|secretkey|privatekey|(auth|access|api|bearer|refresh|session|bot|join)token|(client|app|api|shared|consumer)secret)$`)
	beforeKey      = regexp.MustCompile(`^(api|app|secret|private|access|encryption|signing|shared|account|storage|license|auth|master|hmac|ssh|tls|ssl|client|rsa|pgp|gpg|routing|integration|root|admin|unseal|recovery|subscription|webhook|session|cookie|jwt)$`)
	describes      = regexp.MustCompile(`^(checksum|hash|digest|fingerprint|thumbprint)$`)
	namesASecret   = regexp.MustCompile(`^(password|credentials|tls|ca|cert|certificate|key|token|pull|image|config|passphrase|env|storage)$`)
	innocent       = regexp.MustCompile(`^(imagepullsecrets?|pullsecret|httptokens|maxtokens|mintokens|automountserviceaccounttoken|allowcredentials|corsallowcredentials|clientrequesttoken|versionconflicttoken|updatetoken|sessionaffinitycookie|hashoncookie)$`)
	innocentEnding = regexp.MustCompile(`/(auth-secret|auth-tls-secret|proxy-ssl-secret)$`)
)

// IsSensitive reports whether the value under a key is a secret, by the last word of the key.
func IsSensitive(key string) bool {
	if len(key) < 3 {
		return false
	}
	words := wordsOf(key)
	for len(words) > 0 && strings.Trim(words[len(words)-1], "0123456789") == "" {
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return false
	}
	n := len(words)
	last := strings.TrimRight(words[n-1], "0123456789")
	previous := func(i int) string {
		if n-1-i < 0 {
			return ""
		}
		return words[n-1-i]
	}
	is := false
	switch {
	case sensitiveLast.MatchString(last):
		is = true
	case last == "key" || last == "keys":
		is = beforeKey.MatchString(previous(1))
	case last == "auth":
		is = n == 1 || previous(1) == "basic" || previous(1) == "registry"
	case last == "cookie":
		is = n == 1 || previous(1) == "set"
	case last == "string" || last == "uri":
		is = slices.Contains([]string{"connection", "conn", "database"}, previous(1))
	case last == "url":
		is = slices.Contains([]string{"webhook", "database", "redis", "amqp"}, previous(1))
	case last == "data":
		is = slices.Contains([]string{"user", "custom", "key"}, previous(1)) || previous(1) == "json" && previous(2) == "secure"
	case last == "base":
		is = previous(1) == "key" && previous(2) == "secret"
	case last == "config":
		is = previous(1) == "kube"
	default:
		is = sensitiveGlued.MatchString(last)
	}
	if !is || last == "secret" && namesASecret.MatchString(previous(1)) {
		return false
	}
	if innocent.MatchString(strings.ToLower(separator.ReplaceAllString(key, ""))) || innocentEnding.MatchString(key) {
		return false
	}
	afterSlash := wordsOf(key[strings.LastIndexByte(key, '/')+1:])
	return !describes.MatchString(wordsOf(key)[0]) && (len(afterSlash) == 0 || !describes.MatchString(afterSlash[0]))
}

var references = regexp.MustCompile(`^(|true|false|True|False|none|required|optional|null|nil|~|<nil>|<none>|\{\}|\[\]|\[REDACTED\]|\*\*\*|\*{6}|<redacted>|\[MASKED\]|` +
	`\$\([\w.-]+\)|\$\{(env:)?[\w.-]+\}|\$[A-Z_][A-Z0-9_]*|\{\{.*\}\}|/[\w.@:*{}$/-]+|file://.+|(ref\+)?vault:.+|op://.+|arn:aws:(secretsmanager|ssm|kms):.+|projects/.*/secrets/.*|ENC\[AES256_GCM,.*\]|\[REDACTED len=.*\])$`)

// isReference reports whether a value refers to a secret elsewhere. The tests use no value whose form is debatable.
func isReference(v string) bool { return references.MatchString(strings.TrimSpace(v)) }
