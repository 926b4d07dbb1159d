package redact

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// scanEveryByte is scan without its shortcuts: it checks every pair of bytes that may begin a secret.
func scanEveryByte(t *scanner, text []byte) {
	t.text, t.done, t.token = text, 0, span{}
	for i := range len(text) - 1 {
		if i < t.done {
			continue
		}
		next := string(text[i+1])
		isPair := false
		switch text[i] {
		case '=':
			isPair = true
		case ':':
			isPair = strings.Contains("/ =\"'\\\t", next)
		case '-':
			isPair = next == "-"
		case '$':
			isPair = strings.Contains("a1256y", next)
		case '{':
			isPair = next == "S"
		case '@':
			isPair = strings.Contains("tu", next)
		case '.':
			isPair = isLower(text[i+1]) || isDigit(text[i+1])
		default:
			isPair = isAlphanumeric(text[i]) && (i == 0 || !isAlphanumeric(text[i-1]))
		}
		if isPair {
			t.look(i)
		}
	}
}

// The parts of texts that contain a secret, or nearly one.
var textParts = strings.Split(`a|Z|9|  |-|--|.|..|:|=|/|@|$|{|}|_|"|'|\|é|password|token|name|key=|pwd: |://|user:x@|@tcp(db)|@unix(|--password |--log-level |Basic |bearer |BEARER|digest|hunter2|`+
	`12345678|abcdef|0123456789abcdef|eyJhbGciOi|eyJzdWIiOi|.eyJ|sk-|AKIA|AKIAIOSFODNN7EXAMPLE|xoxb-1234567890|xoxb-123456789|ghp_|glpat-|hvs.|LTAI123456789012|hooks.slack.com/services/T0|`+
	`api.telegram.org/bot1:x|-----BEGIN |PRIVATE KEY|-----|-----END |{SHA}abc|{SSHA}|$2a$|$6$saltsalt$hashhash|?sig=x|&token=|; |sha256~|dapi|SG.|kubernetes.io/|2026-05-04T09:30:00Z|10.0.0.1`, "|")

func TestScanFindsWhatACheckOfEveryByteFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 50_000 {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(textParts[r.IntN(len(textParts))])
		}
		text := []byte(b.String())
		fast := &scanner{keys: standardKeys, mode: textMode(r.IntN(int(asVerbatim)))}
		slow := &scanner{keys: standardKeys, mode: fast.mode}
		fast.scan(text)
		scanEveryByte(slow, text)
		if !slices.Equal(fast.found, slow.found) {
			t.Fatalf("in %q with mode %d: found %v, want %v", text, fast.mode, slow.found, fast.found)
		}
		if len(slow.found) > 0 {
			found++
		}
	}
	assert.Greater(t, found, 5_000)
}

// In a text that isPlain accepts, no rule finds anything, in any mode.
func TestPlainStringsHoldNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	short := 0
	for range 50_000 {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteString(textParts[r.IntN(len(textParts))])
		}
		text := b.String()
		if strings.ContainsAny(text, "\"\\é") || !isPlain([]byte(text)) {
			continue
		}
		short++
		for mode := range asVerbatim {
			s := &scanner{keys: standardKeys, mode: mode}
			s.all([]byte(text))
			assert.Empty(t, s.found, text)
			w := &walk{plan: pods, data: []byte(`"` + text + `"`), scanner: scanner{keys: standardKeys}}
			w.inspect(0, len(w.data), mode, 0)
			assert.Empty(t, w.edits, text)
		}
	}
	assert.Greater(t, short, 2_500)
	for at := range 20 {
		for c := range 128 {
			text := []byte("2026-05-04T09:30:00Z")
			text[at] = byte(c)
			_, err := time.Parse("2006-01-02T15:04:05Z", strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return '1' // the 11th of November at 11:11:11 is always a time
				}
				return r
			}, string(text)))
			assert.Equal(t, err == nil, isTime(text), "%q", text)
		}
	}
	least := shortestWord
	for _, tokens := range vendorTokens {
		for _, v := range tokens {
			least = min(least, len(v.prefix)+v.least)
		}
	}
	for _, scheme := range authSchemes {
		least = min(least, len(scheme)+len(" ")+8)
	}
	assert.Equal(t, shortestWord, least)
}
