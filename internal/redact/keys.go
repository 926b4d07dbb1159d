package redact

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/glob"
)

// class is what a key reveals about its value.
type class uint8

const (
	plainKey       class = iota
	sensitiveKey         // its value is a secret: password, clientSecret, API_KEY
	environmentKey       // env, extraEnvVars, buildArgs
	headersKey           // httpHeaders, requestHeaderModifier
	commandKey           // command, args, script
	labelsKey            // labels, matchLabels, nodeSelector, matchExpressions
	annotationsKey       // annotations, podAnnotations
	lastAppliedKey       // repeats a manifest: kubectl.kubernetes.io/last-applied-configuration
	referenceKey         // secretKeyRef, valueFrom: names where a value is
	classes        = iota
)

// Sensitive keys are recognized by their last word, never by a substring: secretName, tokenUrl, passwordFile and
// tokenTTL are not secrets. The word decides alone (always), or together with the word before it.
type wordRule struct {
	always bool
	alone  bool            // the word has to be the whole key
	after  map[string]bool // the words that may precede it
}

func words(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

var sensitiveWords = func() map[string]wordRule {
	all := map[string]wordRule{}
	for w := range words(`password passwords passwd pwd pass passphrase passcode secret token tokens jwt credential
		credentials creds apikey apikeys bearer dsn privatekey accesskey secretkey authorization userdata customdata psk
		htpasswd kubeconfig dockerconfigjson dockercfg requirepass masterauth sharedaccesssignature`) {
		all[w] = wordRule{always: true}
	}
	keys := words(`api app secret private access encryption signing shared account storage license auth master hmac ssh
		tls ssl client rsa pgp gpg routing integration root admin unseal recovery subscription webhook session cookie jwt`)
	all["key"], all["keys"] = wordRule{after: keys}, wordRule{after: keys}
	all["auth"] = wordRule{alone: true, after: words("basic registry")}
	all["cookie"] = wordRule{alone: true, after: words("set")}
	all["string"] = wordRule{after: words("connection conn database")}
	all["uri"] = wordRule{after: words("connection conn database")}
	all["url"] = wordRule{after: words("webhook database redis amqp")}
	all["data"] = wordRule{after: words("user custom key json")} // json: Grafana's secureJsonData, see sensitive
	all["base"] = wordRule{after: words("key")}                  // secret_key_base
	all["config"] = wordRule{after: words("kube")}
	return all
}()

// sensitiveEndings make a last word sensitive if it consists of several joined words.
var sensitiveEndings = strings.Fields(`password passwd passphrase apikey accesskey secretkey privatekey
	authtoken accesstoken apitoken bearertoken refreshtoken sessiontoken bottoken jointoken
	clientsecret appsecret apisecret sharedsecret consumersecret`)

// namesSecret lists the words before "secret" in keys whose value is the name of a Secret.
var namesSecret = words("password credentials tls ca cert certificate key token pull image config passphrase env storage")

// describesSecret lists the first words of keys whose value is derived from a secret without revealing it.
var describesSecret = words("checksum hash digest fingerprint thumbprint")

// innocentKeys end like sensitive keys but are not. They are in lower case without separators.
var innocentKeys = words(`imagepullsecret imagepullsecrets pullsecret httptokens maxtokens mintokens
	automountserviceaccounttoken allowcredentials corsallowcredentials clientrequesttoken versionconflicttoken
	updatetoken sessionaffinitycookie hashoncookie`)

// innocentAnnotations hold the name of a Secret.
// https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/
var innocentAnnotations = []string{"/auth-secret", "/auth-tls-secret", "/proxy-ssl-secret"}

// maxKey is how many bytes of a key are checked, from its end.
const maxKey = 128

// keyTable classifies keys. Use newKeyTable.
type keyTable struct {
	endings keyEndings
	extra   []keyPattern
}

// keyPattern is an entry of mask_keys: the last words of a key, or a pattern for all of it.
type keyPattern struct {
	words string // lower case, without separators
	glob  string // lower case, with *
}

var standardKeys = newKeyTable(nil)

// structuralWords maps the last words of keys to classes, except for sensitive keys.
var structuralWords = map[string]class{
	"labels": labelsKey, "selector": labelsKey, "selectors": labelsKey, "expressions": labelsKey,
	"annotations": annotationsKey, "ref": referenceKey, "refs": referenceKey, "from": referenceKey,
	"headers": headersKey, "header": headersKey, "modifier": headersKey,
	"command": commandKey, "commands": commandKey, "args": commandKey, "arguments": commandKey, "cmd": commandKey,
	"entrypoint": commandKey, "script": commandKey, "argv": commandKey,
	"env": environmentKey, "envs": environmentKey, "var": environmentKey, "vars": environmentKey, "environment": environmentKey,
	"variables": environmentKey, "proxymetadata": environmentKey, "metadata": environmentKey,
	"applied": lastAppliedKey, "successful": lastAppliedKey, "reconciled": lastAppliedKey, "observed": lastAppliedKey,
	"known": lastAppliedKey, "configuration": lastAppliedKey, "config": lastAppliedKey, "podtemplate": lastAppliedKey,
	"template": lastAppliedKey, "spec": lastAppliedKey, "state": lastAppliedKey, "manifest": lastAppliedKey,
	"original": lastAppliedKey, "pod": lastAppliedKey, "lastapplied": lastAppliedKey,
}

// newKeyTable returns the policy's table with additional sensitive keys.
func newKeyTable(maskKeys []string) *keyTable {
	t := &keyTable{endings: standardEndings}
	for _, entry := range maskKeys {
		lower := strings.ToLower(entry)
		if strings.Contains(lower, "*") {
			t.extra = append(t.extra, keyPattern{glob: lower})
			t.endings.addExtra(lower[strings.LastIndexByte(lower, '*')+1:])
			continue
		}
		glued := string(appendGlued(nil, []byte(lower)))
		t.extra = append(t.extra, keyPattern{words: glued})
		t.endings.addExtra(glued)
	}
	return t
}

// mayHaveClass reports whether a key may have a class. It is false for most keys.
func (t *keyTable) mayHaveClass(key []byte) bool { return t.endings.mayEnd(key) }

// classify returns the class of a key.
func (t *keyTable) classify(key []byte) class {
	if !t.mayHaveClass(key) {
		return plainKey
	}
	return t.classifyWords(key)
}

// classifyWords is classify without the check of the ending.
func (t *keyTable) classifyWords(key []byte) class {
	var buf [maxKey]byte
	last, start := lastWord(key, len(key), &buf)
	switch c := structuralWords[string(last)]; c {
	case labelsKey:
		if string(last) != "expressions" || endsFold(key, "matchexpressions") {
			return labelsKey
		}
	case annotationsKey, commandKey:
		if string(key) == "buildArgs" {
			return environmentKey
		}
		return c
	case referenceKey:
		if string(last) != "from" && len(key) > len(last) || string(key) == "valueFrom" {
			return referenceKey
		}
	case lastAppliedKey:
		if isLastApplied(key) {
			return lastAppliedKey
		}
		if isEnvironment(key) { // envsConfig
			return environmentKey
		}
	case environmentKey:
		if isEnvironment(key) {
			return environmentKey
		}
	case headersKey:
		if endsFold(key, "headers") || endsFold(key, "headermodifier") {
			return headersKey
		}
	case plainKey: // unless words are joined
		if len(last) > len("headers") && (endsFold(key, "headers") || endsFold(key, "headermodifier")) {
			return headersKey
		}
		if len(key) >= len("lastapplied") && isLastApplied(key) {
			return lastAppliedKey
		}
	}
	if t.isSensitiveByWords(key, last, start) {
		return sensitiveKey
	}
	return plainKey
}

// isSensitive reports whether the value under this key is a secret.
func (t *keyTable) isSensitive(key []byte) bool {
	if !t.mayHaveClass(key) {
		return false
	}
	var buf [maxKey]byte
	last, start := lastWord(key, len(key), &buf)
	return t.isSensitiveByWords(key, last, start)
}

// isSensitiveByWords is isSensitive for a key whose last word starts at start.
func (t *keyTable) isSensitiveByWords(key, last []byte, start int) bool {
	for _, p := range t.extra {
		if p.matches(key) {
			return true
		}
	}
	var buf, before [maxKey]byte
	for len(last) > 0 && isDigits(last) { // PASSWORD_2
		last, start = lastWord(key, start, &buf)
	}
	for len(last) > 0 && isDigit(last[len(last)-1]) { // password1
		last = last[:len(last)-1]
	}
	return isSensitiveWord(last, key, start, &before) && !isInnocent(key, last, start)
}

func isSensitiveWord(last, key []byte, start int, before *[maxKey]byte) bool {
	if r, ok := sensitiveWords[string(last)]; ok {
		if r.always {
			return true
		}
		previous, at := lastWord(key, start, before)
		if len(previous) == 0 {
			return r.alone
		}
		if string(last) == "data" && string(previous) == "json" {
			previous, _ = lastWord(key, at, before)
			return string(previous) == "secure"
		}
		if string(last) == "base" {
			previous, _ = lastWord(key, at, before)
			return string(previous) == "secret"
		}
		return r.after[string(previous)]
	}
	if len(last) < len("passwd") {
		return false
	}
	switch string(last[len(last)-2:]) { // the endings below
	case "rd", "wd", "se", "ey", "en", "et":
	default:
		return false
	}
	for _, ending := range sensitiveEndings {
		if bytes.HasSuffix(last, []byte(ending)) {
			return true
		}
	}
	return false
}

// isInnocent reports whether a key only names or describes a secret, although it ends like one that holds it.
func isInnocent(key, last []byte, start int) bool {
	var buf, glued [maxKey]byte
	if string(last) == "secret" {
		if previous, _ := lastWord(key, start, &buf); namesSecret[string(previous)] {
			return true
		}
	}
	if innocentKeys[string(appendGlued(glued[:0], key))] {
		return true
	}
	if describesSecret[string(firstWord(key, &buf))] {
		return true
	}
	if slash := bytes.LastIndexByte(key, '/'); slash >= 0 {
		if describesSecret[string(firstWord(key[slash+1:], &buf))] {
			return true
		}
		for _, annotation := range innocentAnnotations {
			if string(key[slash:]) == annotation {
				return true
			}
		}
	}
	return false
}

func (p keyPattern) matches(key []byte) bool {
	var buf [maxKey]byte
	if p.glob != "" {
		lower := appendLower(buf[:0], key)
		return glob.Match(p.glob, string(lower))
	}
	glued := appendGlued(buf[:0], key)
	if !bytes.HasSuffix(glued, []byte(p.words)) {
		return false
	}
	if len(glued) == len(p.words) {
		return true
	}
	// It must begin where a word of the key begins.
	rest := len(p.words)
	var word [maxKey]byte
	for end := len(key); end > 0 && rest > 0; {
		last, start := lastWord(key, end, &word)
		if len(last) == 0 {
			return false
		}
		rest -= len(last)
		end = start
	}
	return rest == 0
}

// lastWord returns the last word of key[:end] in lower case, in buf, and where it starts. Words end at any character
// that is not a letter or digit, between a lower-case letter or digit and an upper-case letter, and before the last of
// several upper-case letters followed by a lower-case one: APIKey is api, key.
func lastWord(key []byte, end int, buf *[maxKey]byte) (word []byte, start int) {
	for end > 0 && !isAlphanumeric(key[end-1]) {
		end--
	}
	start = end
	for start > 0 && isAlphanumeric(key[start-1]) {
		if start < end && startsWord(key, start, end) {
			break
		}
		start--
	}
	if end-start > maxKey {
		start = end - maxKey
	}
	return appendLower(buf[:0], key[start:end]), start
}

func startsWord(key []byte, i, end int) bool {
	if !isUpper(key[i]) {
		return false
	}
	return !isUpper(key[i-1]) || i+1 < end && isLower(key[i+1])
}

func firstWord(key []byte, buf *[maxKey]byte) []byte {
	start := 0
	for start < len(key) && !isAlphanumeric(key[start]) {
		start++
	}
	end := start
	for end < len(key) && isAlphanumeric(key[end]) && (end == start || !startsWord(key, end, len(key))) {
		end++
	}
	return appendLower(buf[:0], key[start:min(end, start+maxKey)])
}

// isEnvironment reports whether a key holds environment variables.
func isEnvironment(key []byte) bool {
	switch string(key) {
	case "env", "envs", "environment", "Environment", "environmentVariables", "EnvironmentVariables", "environmentVars",
		"buildArgs", "proxyMetadata", "envVars", "envVar":
		return true
	}
	for _, ending := range []string{"Env", "Envs", "nvVar", "nvVars", "nvsConfig"} {
		if bytes.HasSuffix(key, []byte(ending)) {
			head := key[:len(key)-len(ending)]
			if ending[0] == 'n' {
				if len(head) == 0 || head[len(head)-1]|0x20 != 'e' {
					return false
				}
				head = head[:len(head)-1]
			}
			return all(head, isLetter)
		}
	}
	for _, ending := range []string{"_env", "_environment"} {
		if bytes.HasSuffix(key, []byte(ending)) {
			return all(key, func(c byte) bool { return isLower(c) || c == '_' })
		}
	}
	return false
}

var (
	appliedThings = []string{"configuration", "config", "podtemplate", "template", "spec", "state", "manifest"}
	appliedWords  = []string{"applied", "successful", "reconciled", "observed", "known"}
)

// isLastApplied reports whether a controller keeps its last applied manifest under the key.
func isLastApplied(key []byte) bool {
	if endsFold(key, "/applied") {
		return true
	}
	for _, whole := range []string{"original", "original-pod", "original-config"} {
		if bytes.HasSuffix(key, []byte(whole)) && (len(key) == len(whole) || key[len(key)-len(whole)-1] == '/') {
			return true
		}
	}
	cut := func(endings []string) bool {
		for _, ending := range endings {
			if endsFold(key, ending) {
				key = key[:len(key)-len(ending)]
				if n := len(key); n > 0 && (key[n-1] == '-' || key[n-1] == '.' || key[n-1] == '_') {
					key = key[:n-1]
				}
				return true
			}
		}
		return false
	}
	cut(appliedThings)
	return cut(appliedWords) && (endsFold(key, "last") || endsFold(key, "previous"))
}

// endsFold reports whether s ends in the lower-case text, ignoring case.
func endsFold(s []byte, ending string) bool {
	return len(s) >= len(ending) && equalFold(s[len(s)-len(ending):], ending)
}

// startsFold reports whether s starts with the lower-case text, ignoring case.
func startsFold(s []byte, start string) bool {
	return len(s) >= len(start) && equalFold(s[:len(start)], start)
}

func equalFold(s []byte, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range s {
		if toLower(s[i]) != lower[i] {
			return false
		}
	}
	return true
}

func appendLower(dst, s []byte) []byte {
	for _, c := range s {
		dst = append(dst, toLower(c))
	}
	return dst
}

// appendGlued appends the letters and digits of s in lower case.
func appendGlued(dst, s []byte) []byte {
	for _, c := range s {
		if isAlphanumeric(c) {
			dst = append(dst, toLower(c))
		}
	}
	return dst
}

func toLower(c byte) byte {
	if isUpper(c) {
		return c | 0x20
	}
	return c
}

func isUpper(c byte) bool        { return c-'A' < 26 }
func isLower(c byte) bool        { return c-'a' < 26 }
func isLetter(c byte) bool       { return (c|0x20)-'a' < 26 }
func isDigit(c byte) bool        { return c-'0' < 10 }
func isAlphanumeric(c byte) bool { return alphanumeric[c] }
func isDigits(s []byte) bool     { return all(s, isDigit) }

func all(s []byte, is func(byte) bool) bool {
	for _, c := range s {
		if !is(c) {
			return false
		}
	}
	return true
}

var alphanumeric = func() (t [256]bool) {
	for c := range t {
		t[c] = isLetter(byte(c)) || isDigit(byte(c))
	}
	return t
}()

// Few keys have a class, and the last letters of nearly all others already show that they have none. keyEndings has a
// bit for each ending of three or four letters, by its hash, that a key with a class can have.
type keyEndings struct {
	three [1 << threeBits / 64]uint64 // of words with only three letters
	four  [1 << fourBits / 64]uint64
	extra bool      // mask_keys has entries
	last  [256]bool // their last characters; all of them if one entry leaves the ending open
}

const (
	threeBits = 13
	fourBits  = 14
)

// standardEndings are those of the policy.
var standardEndings = func() (e keyEndings) {
	for w := range sensitiveWords {
		e.add(w)
	}
	for _, w := range sensitiveEndings {
		e.add(w)
	}
	for w := range structuralWords {
		switch w {
		case "metadata", "pod", "from": // no class by themselves
		default:
			e.add(w)
		}
	}
	for _, ending := range []string{"proxymetadata", "original-pod", "valuefrom", "envvar", "envvars", "headermodifier"} {
		e.add(ending)
	}
	return e
}()

// add adds an ending, in lower case.
func (e *keyEndings) add(ending string) {
	three, four := endingHashes(endingOf([]byte(ending)))
	if len(ending) == 3 {
		e.three[three/64] |= 1 << (three % 64)
	} else {
		e.four[four/64] |= 1 << (four % 64)
	}
}

// addExtra adds the ending of an entry of mask_keys. A key may write the words of the entry in other ways, so only its
// last character is known.
func (e *keyEndings) addExtra(ending string) {
	e.extra = true
	if ending == "" {
		for c := range e.last {
			e.last[c] = true
		}
		return
	}
	c := ending[len(ending)-1]
	e.last[c] = true
	if isLower(c) {
		e.last[c&^0x20] = true
	}
}

// mayEnd reports whether the ending of a key allows it to have a class.
func (e *keyEndings) mayEnd(key []byte) bool {
	n := len(key)
	if n == 0 {
		return e.extra
	}
	if e.extra && e.mayEndExtra(key) {
		return true
	}
	if !isLetter(key[n-1]) { // PASSWORD_2
		for n > 0 && !isLetter(key[n-1]) {
			n--
		}
	}
	if n < 3 {
		return false
	}
	three, four := endingHashes(endingOf(key[:n]))
	return e.three[three/64]>>(three%64)&1 != 0 || e.four[four/64]>>(four%64)&1 != 0
}

// mayEndExtra is mayEnd for the entries of mask_keys. Words do not end in a separator; patterns may.
func (e *keyEndings) mayEndExtra(key []byte) bool {
	n := len(key)
	if e.last[key[n-1]] {
		return true
	}
	for n > 0 && !isAlphanumeric(key[n-1]) {
		n--
	}
	return n > 0 && e.last[key[n-1]]
}

// endingOf returns the last four bytes of a key of three or more, in lower case if they are letters.
func endingOf(key []byte) uint32 {
	n := len(key)
	if n < 4 {
		return uint32(key[0])<<8 | uint32(key[1])<<16 | uint32(key[2])<<24 | 0x20202020
	}
	return binary.LittleEndian.Uint32(key[n-4:]) | 0x20202020
}

func endingHashes(ending uint32) (three, four uint64) {
	const factor = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio
	return uint64(ending>>8) * factor >> (64 - threeBits), uint64(ending) * factor >> (64 - fourBits)
}

// knownKeys are keys of many objects that have a class, or end as if they had one. They are classified once, when the
// rules are made, instead of in each object. This does not change what is masked.
var knownKeys = strings.Fields(`env envFrom labels annotations matchLabels matchExpressions selector nodeSelector labelSelector
	podSelector namespaceSelector spec state lastState conditions tolerations observedGeneration config fieldRef
	configMapKeyRef secretKeyRef configMapRef secretRef roleRef volumeClaimTemplate topologyKey
	automountServiceAccountToken serviceAccountToken secret requiredDuringSchedulingIgnoredDuringExecution
	preferredDuringSchedulingIgnoredDuringExecution`)

// know names the known keys in all interiors that can be reached from the rule and use classes.
func (r *rule) know(keys *keyTable, seen map[*interior]bool) {
	in := r.in
	if in == nil || seen[in] {
		return
	}
	seen[in] = true
	reached := []*rule{in.elements, in.others}
	for _, m := range in.members {
		reached = append(reached, m.rule)
	}
	if in.byClass != nil {
		reached = append(reached, in.byClass[:]...)
		in.nameKnown(keys)
	}
	for _, next := range reached {
		if next != nil {
			next.know(keys, seen)
		}
	}
}

// nameKnown names the known keys with the rules that they have by their classes.
func (in *interior) nameKnown(keys *keyTable) {
	var known []member
	for _, key := range knownKeys {
		if in.search(in.slots[slotOf([]byte(key), 0, len(key))], []byte(key)) == nil {
			known = append(known, member{key: key, rule: in.unnamed([]byte(key), keys)})
		}
	}
	in.named(append(in.members, known...)...)
}
