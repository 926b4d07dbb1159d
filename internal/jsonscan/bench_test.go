package jsonscan

import (
	"encoding/json"
	"os"
	"testing"
)

// realObject returns an object as the API server writes it.
func realObject(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile("../redact/testdata/objects/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func BenchmarkSkip(b *testing.B) {
	for _, name := range []string{"pod.json", "node.json", "rollout.json"} {
		data := realObject(b, name)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Skip(data, 0, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encoding-json-valid", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if !json.Valid(data) {
					b.Fatal("invalid")
				}
			}
		})
	}
}

func BenchmarkString(b *testing.B) {
	for name, s := range map[string]string{
		"key":      `"namespace"`,
		"long":     `"` + string(make64k()) + `"`,
		"japanese": `"` + "これは日本語の文章です、長いものです。これは日本語の文章です、長いものです。" + `"`,
	} {
		data := []byte(s + "          ")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				if _, _, err := String(data, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func make64k() []byte {
	long := make([]byte, 64<<10)
	for i := range long {
		long[i] = 'a' + byte(i%26)
	}
	return long
}
