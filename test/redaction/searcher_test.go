package redaction

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// writtenAs are the forms in which text with a sentinel may be emitted, each made by the library that would make it.
var writtenAs = map[string]func(string) string{
	"raw":                             func(s string) string { return s },
	"lower case":                      strings.ToLower,
	"upper case":                      strings.ToUpper,
	"JSON":                            quoted,
	"JSON in JSON":                    func(s string) string { return quoted(quoted(s)) },
	"JSON with escaped characters":    func(s string) string { return escaped(s, `\u%04x`) },
	"JSON with escapes in upper case": func(s string) string { return escaped(s, `\u%04X`) },
	"URL query":                       url.QueryEscape,
	"URL with escaped characters":     func(s string) string { return escaped(s, "%%%02x") },
	"URL with escapes in upper case":  func(s string) string { return escaped(s, "%%%02X") },
	"hex":                             func(s string) string { return hex.EncodeToString([]byte(s)) },
	"hex in upper case":               func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"base64":                          func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 without padding":          func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
	"base64 for URLs":                 func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64 in base64":                func(s string) string { return encoded(encoded(s)) },
	"only its beginning": func(s string) string {
		return strings.NewReplacer("-kV7q", "…", "kV7q", "…", "-kv7q", "…", "KV7Q", "…").Replace(s)
	},
	"only its end": func(s string) string {
		return strings.NewReplacer("SENTINEL-", "[REDACTED]", "SENTINEL", "[REDACTED]").Replace(s)
	},
}

// packedAs are more forms. They are so slow under the race detector that they are tried with only some of the
// sentinels.
var packedAs = map[string]func(string) string{
	"gzip":                       zipped,
	"gzip in base64":             func(s string) string { return encoded(zipped(s)) },
	"gzip in base64 for URLs":    func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(zipped(s))) },
	"gzip in base64 in base64":   func(s string) string { return encoded(encoded(zipped(s))) },
	"base64 in gzip":             func(s string) string { return zipped(encoded(s)) },
	"base64 in gzip in base64":   func(s string) string { return encoded(zipped(encoded(s))) },
	"gzip that was cut":          func(s string) string { return zipped(s)[:len(zipped(s))-9] },
	"gzip with others before it": func(s string) string { return zipped("other text") + zipped(s) },
}

func quoted(s string) string {
	data, err := json.Marshal(map[string]string{"text": s})
	if err != nil {
		panic(err) // a string can always be written as JSON
	}
	return string(data)
}

func escaped(s, format string) string {
	var all strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&all, format, s[i])
	}
	return all.String()
}

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func zipped(s string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write([]byte(s))
	_ = w.Close() // writing to a buffer cannot fail
	return out.String()
}

// TestTheSearcherFindsEverySentinel: in every encoding.
func TestTheSearcherFindsEverySentinel(t *testing.T) {
	t.Parallel()
	entries, _ := readCorpus(t)
	sentinels := allSentinels(entries)
	s := newSearcher(sentinels)
	for name, write := range writtenAs {
		requireFound(t, s, sentinels, name, write)
	}
	var some []string
	for i := 0; i < len(sentinels); i += 19 {
		some = append(some, sentinels[i])
	}
	for name, write := range packedAs {
		requireFound(t, s, some, name, write)
	}
	t.Logf("%d sentinels in %d encodings, and %d in %d more", len(sentinels), len(writtenAs), len(some), len(packedAs))
}

// requireFound requires that the searcher finds the sentinels in an encoding. The lengths of the text before each
// sentinel, and of the text around the encoded part, vary.
func requireFound(t *testing.T, s *searcher, sentinels []string, name string, write func(string) string) {
	t.Helper()
	for i, sentinel := range sentinels {
		text := write("before"[:i%4]+sentinel+"after") + " after it"
		switch i / 4 % 3 {
		case 1:
			text = "beforeIt"[:i/12%8] + text
		case 2:
			text = "\x0a\x07" + text
		}
		if !slices.ContainsFunc(s.search([]byte(text)), func(f finding) bool { return f.sentinel == sentinel }) {
			t.Fatalf("%s in %s is not found in %q", sentinel, name, text)
		}
	}
}

// A text without a sentinel raises no suspicion.
func TestTheSearcherFindsNothingElse(t *testing.T) {
	t.Parallel()
	entries, _ := readCorpus(t)
	s := newSearcher(allSentinels(entries))
	innocents, err := os.ReadFile(corpusFolder + "innocents.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		string(innocents), zipped(string(innocents)), encoded(string(innocents)),
		"", "SENTINEL", "SENTINEL-", "sentinel-0000", "0001", "kV7q", "SENTINEL-9999-kV7q",
		"[REDACTED len=18 hmac=8f3ab0f5d9c1e2a40b6c7d8e9fa0b1c2]", "\x1f\x8b\x08", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff",
	} {
		if found := s.search([]byte(text)); len(found) > 0 {
			t.Errorf("%v is found in %q", found, text)
		}
	}
}
